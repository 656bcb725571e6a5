"""Resolves the arguments, the guards and the engine of a run from all sources.

The precedence, highest first::

    typed      the command line, the trigger form, `conf` of the REST API
    policy     the arguments, guards and engine of the policy for this table
    defaults   those of a DAG (its page, `defaults` in caretaker.toml); the engine of caretaker.toml
    table      the options of the table: jobs read them if an argument is not set
    options    the options of the policy, for options that the table does not set
    job        the default of the argument

None, blank text, an empty list and an empty object mean "not set" in each source.  Arguments with
key=value pairs are merged key by key: setting one key keeps the other keys of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paimon_core.options import lacking
from paimon_maintenance.job.arguments import Kind, with_underscores
from paimon_maintenance.job.engine_choice import EngineRule
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.model import MAINTAIN, EnginePolicy, GuardPolicy, TablePolicy
from paimon_maintenance.registry import JOBS

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_maintenance.run.request import RunRequest

_STEP_ARGUMENTS = "step_arguments"
_NONE: Mapping[str, object] = {}
_NO_LIMITS = GuardPolicy()
_NO_ENGINE = EnginePolicy()


def under(policy: TablePolicy, table: FileStoreTable) -> FileStoreTable:
    """The table with the options of the policy that it does not set itself, as jobs see it."""
    supplied = lacking(table.options, policy.options)
    if not supplied:
        return table
    return replace(table, dynamic_options={**supplied, **table.dynamic_options}).refreshed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The resolved settings of a run.

    `raw` are the given arguments, as JSON values under the job's own names; `arguments`
    are the typed values of all of them.  `raises_guards`: a limit given for this run is looser than
    the one that would apply without it.
    """

    job: Job
    raw: Mapping[str, object]
    arguments: Mapping[str, object]
    default_options: Mapping[str, str]
    guards: Guards
    raises_guards: bool
    engine: EngineRule
    on_refused: OnRefused | None

    def request(
        self,
        *,
        warehouse: str,
        table: str,
        branch: str | None = None,
        storage: Mapping[str, str] | None = None,
        **how: Any,
    ) -> RunRequest:
        """The request for the runner; `how` are its fields on how to run (`dry_run`, `force`)."""
        from paimon_maintenance.run.request import RunRequest  # noqa: PLC0415 - pyarrow

        return RunRequest(
            job=self.job,
            warehouse=warehouse,
            table=table,
            arguments=self.arguments,
            branch=branch,
            file_io_options=storage,
            default_options=self.default_options,
            guards=self.guards,
            engine=self.engine,
            on_refused=self.on_refused,
            **how,
        )


def resolve(
    job: Job,
    policy: TablePolicy,
    *,
    typed: Mapping[str, object],
    defaults: Mapping[str, object] = _NONE,
    limits: GuardPolicy = _NO_LIMITS,
    default_limits: GuardPolicy = _NO_LIMITS,
    engine: EnginePolicy = _NO_ENGINE,
    default_engine: EnginePolicy = _NO_ENGINE,
) -> Resolved:
    """The settings for a run of the job on the table of the policy.

    `typed` and `defaults` are raw values under the names of the job; `limits` and `default_limits`
    are their guards, `engine` and `default_engine` where they let the run work.  InvalidArgument
    for an unknown argument or an invalid value.
    """
    own = policy.job(job.name)
    raw = merged(job, defaults, policy.arguments_of(job.name), typed)
    if job.name == MAINTAIN:
        raw["without"] = _left_out(job, policy, raw, typed)
    ruled = default_limits.overridden_by(own.guards)
    guards = Guards.from_json(ruled.overridden_by(limits).to_json())
    engine = default_engine.overridden_by(own.engine).overridden_by(engine)
    return Resolved(
        job=job,
        raw=raw,
        arguments=job.read_arguments(raw),
        default_options=policy.options,
        guards=guards,
        raises_guards=guards.is_looser_than(Guards.from_json(ruled.to_json())),
        engine=EngineRule.from_json(engine.to_json()),
        on_refused=own.on_refused,
    )


def is_given(value: object) -> bool:
    """Whether the value is set; blank and empty values count as not set."""
    if isinstance(value, str):
        return bool(value.strip())
    return value is not None and value not in ([], (), {})


def merged(job: Job, *layers: Mapping[str, object]) -> dict[str, object]:
    """The raw arguments of all layers; later layers win."""
    pairs = {a.name: a for a in job.arguments if a.kind is Kind.OPTIONS}
    found: dict[str, object] = {}
    for layer in layers:
        for name, value in layer.items():
            if not is_given(value):
                continue
            if name not in pairs:
                found[name] = value
                continue
            read = pairs[name].read(value)
            new = {str(k): v for k, v in read.items()} if isinstance(read, Mapping) else {}
            if name == _STEP_ARGUMENTS:
                new = {_step_key(key): v for key, v in new.items()}
            so_far = found.get(name)
            found[name] = {**(so_far if isinstance(so_far, Mapping) else {}), **new}
    return found


def _step_key(key: str) -> str:
    """STEP.ARGUMENT in canonical spelling, so that different spellings are one key."""
    step, dot, argument = key.partition(".")
    step = step.replace("-", "_")
    wanted = with_underscores(argument)
    if step in JOBS:
        known = {n: a.name for a in JOBS[step].arguments for n in (a.name, *a.aliases)}
        wanted = known.get(wanted, wanted)
    return f"{step}{dot}{wanted}"


def _left_out(
    job: Job, policy: TablePolicy, raw: Mapping[str, object], typed: Mapping[str, object]
) -> list[str]:
    """The steps of `maintain` to skip.

    A job that the policy disables stays disabled, unless the step is requested explicitly.
    """
    asked_for = set(_texts(job, "also", typed))
    compact = typed.get("compact")
    if is_given(compact) and job.argument("compact").read(compact) != "none":
        asked_for.add("compact")
    off = policy.steps_switched_off
    ours = _texts(job, "without", typed)
    chosen = ours or [name for name in _texts(job, "without", raw) if name not in off]
    return list(dict.fromkeys([*chosen, *(name for name in off if name not in asked_for)]))


def _texts(job: Job, name: str, raw: Mapping[str, object]) -> tuple[str, ...]:
    value = raw.get(name)
    read = job.argument(name).read(value) if is_given(value) else ()
    return read if isinstance(read, tuple) else ()
