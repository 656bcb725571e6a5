"""What one run of a job on one table is given, and whose word counts.  Decided here and nowhere else.

From the strongest to the weakest::

    typed      by a person or a program: the command line, the trigger form, `conf` of the REST API
    policy     the arguments and guards of the policy for this table
    defaults   those of a DAG: its page, and `defaults` in caretaker.toml
    table      the table's own options: jobs read them where no argument is given
    options    those of the policy, for what the table does not set
    job        the default of the job's argument

None, a blank text, an empty list and an empty object mean "not typed" in each of them.  Arguments
that hold key=value pairs are merged key by key: typing one key leaves the policy's others in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paimon_maintenance.job.arguments import Kind, with_underscores
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.limits import guards_of
from paimon_maintenance.policy.model import MAINTAIN, GuardPolicy, TablePolicy
from paimon_maintenance.registry import JOBS

if TYPE_CHECKING:
    from paimon_maintenance.run.runner import RunRequest

_STEP_ARGUMENTS = "step_arguments"
_NONE: Mapping[str, object] = {}
_NO_LIMITS = GuardPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What a run is given.

    `raw` are the arguments that somebody gave, as JSON values under the job's own names, and `limits`
    the guards as they were written, for processes that read them again; `arguments` and `guards` are
    the typed values of all of them.
    """

    job: Job
    raw: Mapping[str, object]
    arguments: Mapping[str, object]
    default_options: Mapping[str, str]
    limits: GuardPolicy
    guards: Guards
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
        from paimon_maintenance.run.runner import RunRequest  # noqa: PLC0415 - pyarrow

        return RunRequest(
            job=self.job,
            warehouse=warehouse,
            table=table,
            arguments=self.arguments,
            branch=branch,
            file_io_options=storage,
            default_options=self.default_options,
            guards=self.guards,
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
) -> Resolved:
    """What a run of the job is given on the table that the policy speaks of.

    `typed` and `defaults` are raw values under the job's own names, `limits` and `default_limits`
    the guards to them.  InvalidArgument for an argument that the job does not have or cannot read.
    """
    own = policy.job(job.name)
    raw = merged(job, defaults, policy.arguments_of(job.name), typed)
    if job.name == MAINTAIN:
        raw["without"] = _left_out(job, policy, raw, typed)
    limits = default_limits.overridden_by(own.guards).overridden_by(limits)
    return Resolved(
        job=job,
        raw=raw,
        arguments=job.read_arguments(raw),
        default_options=policy.options,
        limits=limits,
        guards=guards_of(limits),
        on_refused=own.on_refused,
    )


def is_given(value: object) -> bool:
    """Whether the value says something; what is blank or empty counts as not typed."""
    if isinstance(value, str):
        return bool(value.strip())
    return value is not None and value not in ([], (), {})


def merged(job: Job, *layers: Mapping[str, object]) -> dict[str, object]:
    """The raw arguments of all layers, of which the later ones are the stronger."""
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
    """STEP.ARGUMENT in the jobs' own spelling, so that two spellings of one are one key."""
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
    """The steps of `maintain` to leave out.

    A job that the policy switches off stays off whatever else is typed, unless just that step is
    asked for.
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
