"""What a run of a DAG is asked to do: one job on many tables.

`maintenance` and `paimon_core` are imported by the functions, so that parsing a DAG costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paimon_airflow.tasks.batches import parse_size
from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from paimon_maintenance.job.job import Job
    from paimon_maintenance.policy.model import EnginePolicy, GuardPolicy, Policy, TablePolicy
    from paimon_maintenance.policy.needs import Approval, TableFacts
    from paimon_maintenance.policy.resolve import Resolved
    from paimon_maintenance.run.request import RunRequest
    from paimon_maintenance.run.runner import RunServices

GUARDS: Final = (
    "max_rewrite",
    "max_deleted_share",
    "max_deleted_snapshots",
    "max_deleted_files",
    "max_deleted_bytes",
)
ENGINE: Final = ("engine", "spark_threshold")
COMMON_PARAMS: Final = frozenset(
    {
        "warehouse",
        "tables",
        "including",
        "excluding",
        "branch",
        "dry_run",
        "force",
        "batch_size",
        *ENGINE,
        *GUARDS,
    }
)
"""Params that the runs of all jobs take, beside the job's own arguments."""
_SIZES: Final = ("max_rewrite", "max_deleted_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job on many tables.

    - `arguments`, `limits`, `engine`: the untyped values that the run was given,
      under the job's own names.
    - `defaults`, `default_limits`, `default_engine`: those of the DAG.
      `paimon_maintenance.policy.resolve` defines which values a table gets.
    - `timezone`: the time zone of the tables' writers; None: that of the process.
    - `schedule`: only tables take part for which the policy names this schedule.
    - `by_schedule`: the schedule of the DAG made this run, not a person through the form.
    """

    job: str
    warehouse: str
    patterns: tuple[str, ...]
    including: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    branch: str | None = None
    arguments: Mapping[str, object]
    defaults: Mapping[str, object] = field(default_factory=dict)
    dry_run: bool = False
    force: bool = False
    limits: GuardPolicy
    default_limits: GuardPolicy
    engine: EnginePolicy
    default_engine: EnginePolicy
    batch_bytes: int
    storage: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    policy: Policy | None = None
    schedule: str | None = None
    by_schedule: bool = False
    known_facts: dict[str, TableFacts] = field(default_factory=dict, compare=False, repr=False)

    def of_table(self, table: str) -> TablePolicy:
        """The policy for the table; an empty one without a policy.

        Rules with `match` read the table's schema, once for each table of the request.
        """
        from paimon_maintenance.policy.model import TablePolicy  # noqa: PLC0415 - only when a task runs

        if self.policy is None:
            return TablePolicy(table=table)
        return self.policy.for_table(table, lambda: self.facts(table))

    def facts(self, table: str) -> TableFacts:
        """The options and the comment of the table, which rules of the policy match."""
        from paimon_maintenance.policy.needs import TableFacts  # noqa: PLC0415 - only when a task runs
        from paimon_maintenance.storage.catalogs import open_table_of  # noqa: PLC0415

        if table not in self.known_facts:
            schema = open_table_of(
                self.warehouse, table, branch=self.branch, file_io_options=self.storage
            ).schema
            self.known_facts[table] = TableFacts(dict(schema.options), schema.comment)
        return self.known_facts[table]

    def includes(self, table: str, *, by_name: bool) -> bool:
        """Whether the policy lets the job run on the table; it always may if the run names it.

        A table that a rule with `match` cannot read is included, so that its plan says why.
        """
        if self.policy is None or (by_name and self.schedule is None):
            return True
        try:
            if self.schedule is None:
                return self.of_table(table).job(self.job).enabled
            return self.policy.runs_on(table, self.job, self.schedule, lambda: self.facts(table))
        except Exception:  # noqa: BLE001 - one table must not stop the others
            return True

    def names(self, table: str) -> bool:
        """Whether the run names the table itself, without a pattern."""
        return not self.by_schedule and table in self.patterns

    def approval_wanted(self, table: str, *, proposed: bool) -> Approval | None:
        """Why the policy wants a person to approve this run of the job on the table.

        None if it does not.

        `proposed`: the scheduler proposes the run.
        """
        from paimon_maintenance.policy.approval import approval_wanted  # noqa: PLC0415

        if self.dry_run:
            return None
        needs = self.of_table(table).needs
        overrides = self.force or self._resolved(table).raises_guards
        return approval_wanted(needs, self.job, force=overrides, proposed=proposed)

    def _resolved(self, table: str) -> Resolved:
        from paimon_maintenance.policy.resolve import resolve  # noqa: PLC0415
        from paimon_maintenance.registry import job_named  # noqa: PLC0415 - only when a task runs

        return resolve(
            job_named(self.job),
            self.of_table(table),
            typed=self.arguments,
            defaults=self.defaults,
            limits=self.limits,
            default_limits=self.default_limits,
            engine=self.engine,
            default_engine=self.default_engine,
        )

    def for_table(self, table: str, *, run_id: str | None = None) -> RunRequest:
        """The request for one table."""
        return self._resolved(table).request(
            warehouse=self.warehouse,
            table=table,
            branch=self.branch,
            storage=self.storage,
            dry_run=self.dry_run,
            force=self.force,
            run_id=run_id,
            named=self.names(table),
        )

    def services(self) -> RunServices:
        """The clocks and the history of this worker, for runs in its process."""
        from paimon_core.environment import system_environment
        from paimon_maintenance.history.store import open_history  # noqa: PLC0415
        from paimon_maintenance.run.runner import RunServices  # noqa: PLC0415

        return RunServices(env=system_environment(self.timezone), history=open_history())

    def keep_retention(self) -> None:
        """Delete what is too old in the history; one task in each run of a DAG does it."""
        from paimon_core.environment import system_environment
        from paimon_maintenance.history.retention import keep_retention  # noqa: PLC0415
        from paimon_maintenance.history.store import open_history  # noqa: PLC0415

        keep_retention(open_history(), system_environment(self.timezone).now_millis())


def request_from(
    job: str,
    params: Mapping[str, object],
    *,
    storage: Mapping[str, str],
    timezone: str | None,
    policy: str | None = None,
    schedule: str | None = None,
    defaults: Mapping[str, object] | None = None,
    by_schedule: bool = False,
) -> JobRequest:
    """The request of these params; InvalidArgument if they are invalid.

    `params` are those of the DAG run, or of a task group.  A param without a value was not given:
    the form's arguments are empty until a user fills them in.  `defaults` are those of the DAG.

    Unknown params are refused: Airflow passes on whatever `conf` of the REST API holds, and a
    misspelt `dry_run` must not change a table.
    """
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415 - only when a task runs
    from paimon_maintenance.registry import job_named  # noqa: PLC0415
    from paimon_maintenance.storage.catalogs import options_of  # noqa: PLC0415
    from paimon_maintenance.storage.options import options_of_environment  # noqa: PLC0415

    definition = job_named(job)
    arguments = _arguments(definition, params)
    definition.read_arguments(arguments)
    warehouse = params.get("warehouse") or os.environ.get(WAREHOUSE_VARIABLE)
    if not warehouse:
        raise InvalidArgument(
            "no warehouse is given",
            next_step=f"fill in *Warehouse*, or set {WAREHOUSE_VARIABLE} or caretaker.toml",
        )
    patterns = _tables(params)
    if not patterns:
        raise InvalidArgument(
            "no tables are given", next_step="fill in *Tables*: names or patterns such as sales.*"
        )
    own = dict(defaults or {})
    default_limits = _limits({"max_rewrite": own.pop("max_rewrite", None)})
    default_engine = _engine({name: own.pop(name, None) for name in ENGINE})
    try:
        # A job that never needs Spark has no batch size.
        batch_bytes = parse_size(str(params.get("batch_size") or "0"))
    except ValueError as e:
        raise InvalidArgument(str(e)) from e
    return JobRequest(
        job=job,
        warehouse=canonical_warehouse(str(warehouse)),
        patterns=patterns,
        including=_texts(params, "including"),
        excluding=_texts(params, "excluding"),
        branch=_branch(params.get("branch")),
        arguments=arguments,
        defaults=own,
        dry_run=_switch(params, "dry_run"),
        force=_switch(params, "force"),
        limits=_limits(params),
        default_limits=default_limits,
        engine=_engine(params),
        default_engine=default_engine,
        batch_bytes=batch_bytes,
        storage=options_of(str(warehouse), {**options_of_environment(), **storage}),
        timezone=timezone,
        policy=None if policy is None else load_policy(policy),
        schedule=schedule,
        by_schedule=by_schedule,
    )


def _arguments(job: Job, params: Mapping[str, object]) -> dict[str, object]:
    """The job's arguments among the params, under its own names.

    InvalidArgument for unknown ones.
    """
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.resolve import is_given  # noqa: PLC0415 - only when a task runs

    names = {
        # *Branch* of the form is where the tables are, also for jobs with an argument of that name.
        argument.name: (argument.name, *(a for a in argument.aliases if a not in COMMON_PARAMS))
        for argument in job.arguments
    }
    accepted = {name for known in names.values() for name in known} | COMMON_PARAMS
    unknown = sorted(params.keys() - accepted)
    if unknown:
        raise InvalidArgument(
            f"{job.name} has no param {', '.join(map(repr, unknown))}",
            next_step=f"correct the run's conf; known params: {', '.join(sorted(accepted))}",
        )
    found: dict[str, object] = {}
    for argument, spellings in names.items():
        given = [name for name in spellings if is_given(params.get(name))]
        if len(given) > 1:
            raise InvalidArgument(f"{' and '.join(given)} are the same argument: give one of them")
        if given:
            found[argument] = params[given[0]]
    return found


def _limits(params: Mapping[str, object]) -> GuardPolicy:
    """The guards among the params; sizes in the core's spelling, which knows no fractions."""
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.model import GuardPolicy  # noqa: PLC0415 - only when a task runs

    found: dict[str, Any] = {
        name: value for name in GUARDS if (value := params.get(name)) not in (None, "")
    }
    try:
        found |= {n: f"{parse_size(str(found[n]))} b" for n in _SIZES if n in found}
    except ValueError as e:
        raise InvalidArgument(str(e)) from e
    return GuardPolicy(**found)


def _engine(params: Mapping[str, object]) -> EnginePolicy:
    """Where the params let the work run; the threshold in the core's spelling, as in `_limits`."""
    from paimon_core.errors import InvalidArgument
    from paimon_maintenance.policy.engine_of_config import engine_from  # noqa: PLC0415 - when a task runs

    engine, threshold = (params.get(name) if params.get(name) != "" else None for name in ENGINE)
    try:
        size = None if threshold is None else f"{parse_size(str(threshold))} b"
    except ValueError as e:
        raise InvalidArgument(f"spark_threshold: {e}") from e
    return engine_from(engine, size, "this run")


def _tables(params: Mapping[str, object]) -> tuple[str, ...]:
    """Names and patterns: a list, or a text with commas between them, as templates give it."""
    texts = _texts(params, "tables")
    return tuple(name for text in texts for part in text.split(",") if (name := part.strip()))


def _texts(params: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A text, or a list of them."""
    from paimon_core.errors import InvalidArgument

    value = params.get(name)
    if value is None or isinstance(value, str):
        return (value,) if value else ()
    texts = () if isinstance(value, Mapping) or not isinstance(value, Iterable) else tuple(value)
    if not all(isinstance(text, str) for text in texts) or (value and not texts):
        raise InvalidArgument(f"{name} is {value!r}; write a list of names or patterns")
    return texts


def _branch(value: object) -> str | None:
    from paimon_core.errors import InvalidArgument

    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"branch is {value!r}; write the name of a branch")
    return value or None


def _switch(params: Mapping[str, object], name: str) -> bool:
    """A switch as the form gives it, or as the text of a template: "True"."""
    from paimon_core.errors import InvalidArgument
    from paimon_core.options import parse_bool

    value = params.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    try:
        return parse_bool(str(value))
    except ValueError as e:
        raise InvalidArgument(f"{name} is {value!r}; write true or false") from e
