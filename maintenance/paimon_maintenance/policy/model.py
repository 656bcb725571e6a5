"""The model of a policy: rules, and the resulting settings of one table.

All rules with a matching pattern apply to a table, in the order of the file.  If two rules set the
same option, argument, schedule or guard, the later rule wins, key by key.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, cast

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.exit_codes import OnRefused
from paimon_maintenance.jobs.maintain.step_names import ON_DEMAND, USUAL
from paimon_maintenance.policy.needs import AlertTarget, Budget, Match, TableFacts, TableNeeds

MAINTAIN: Final = "maintain"
_STEPS: Final = frozenset({"compact", *USUAL, *ON_DEMAND})


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """Limits on one run; None means the default of the runner.

    `max_deleted_share` is a share (0 to 1); `max_deleted_snapshots` and `max_deleted_files` are
    numbers; `max_deleted_bytes` and `max_rewrite` are sizes such as "500 gb".
    """

    max_deleted_share: float | None = None
    max_deleted_snapshots: int | None = None
    max_deleted_files: int | None = None
    max_deleted_bytes: str | None = None
    max_rewrite: str | None = None

    def overridden_by(self, other: GuardPolicy) -> GuardPolicy:
        """These guards, overridden by those that `other` sets."""
        return replace(self, **cast("dict[str, Any]", other.to_json()))

    def to_json(self) -> dict[str, object]:
        """The guards that are set."""
        return {k: v for k, v in asdict(self).items() if v is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePolicy:
    """Where a run works.

    None means that a lower source decides (`paimon_maintenance.policy.resolve`).  `engine` is
    "auto", "local" or "spark"; `spark_threshold` is a size such as "256 mb".
    """

    engine: str | None = None
    spark_threshold: str | None = None

    def overridden_by(self, other: EnginePolicy) -> EnginePolicy:
        """This policy, overridden by what `other` sets."""
        return replace(self, **cast("dict[str, Any]", other.to_json()))

    def to_json(self) -> dict[str, object]:
        """What is set."""
        return {k: v for k, v in asdict(self).items() if v is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """One job on one table.

    `schedule` is a cron expression; None: the job runs manually and as a step of `maintain`.
    `arguments` are raw and checked, under the names of the job.  `on_refused`: whether a refused
    table fails a run over several tables; None: only the first time.
    """

    job: str
    enabled: bool = True
    schedule: str | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    guards: GuardPolicy = field(default_factory=GuardPolicy)
    engine: EnginePolicy = field(default_factory=EnginePolicy)
    on_refused: OnRefused | None = None

    def to_json(self) -> dict[str, object]:
        """The job as JSON for `caretaker policy show`."""
        return {
            "job": self.job,
            "schedule": self.schedule,
            "arguments": dict(self.arguments),
            "guards": self.guards.to_json(),
            **self.engine.to_json(),
            "on_refused": self.on_refused,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule:
    """The settings of one rule for one job; None means not set."""

    job: str
    enabled: bool | None = None
    schedule: str | None = None
    by_hand: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    guards: GuardPolicy = field(default_factory=GuardPolicy)
    engine: EnginePolicy = field(default_factory=EnginePolicy)
    on_refused: OnRefused | None = None

    def applied_to(self, before: JobPolicy | None) -> JobPolicy:
        """The settings after this rule is applied to those of earlier rules."""
        before = before or JobPolicy(job=self.job)
        kept = None if self.by_hand else before.schedule
        return JobPolicy(
            job=self.job,
            enabled=before.enabled if self.enabled is None else self.enabled,
            schedule=kept if self.schedule is None else self.schedule,
            arguments={**before.arguments, **self.arguments},
            guards=before.guards.overridden_by(self.guards),
            engine=before.engine.overridden_by(self.engine),
            on_refused=self.on_refused or before.on_refused,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the file: tables and their settings.

    `tables` and `excluding` are shell wildcards over "database.table"; `match` are conditions on
    the table itself.  `options` are defaults for table options that a table does not set.  `needs`
    are the fields of `TableNeeds` that the rule sets.
    """

    name: str
    line: int
    tables: tuple[str, ...]
    excluding: tuple[str, ...] = ()
    match: Match = field(default_factory=Match)
    needs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    guards: GuardPolicy = field(default_factory=GuardPolicy)
    engine: EnginePolicy = field(default_factory=EnginePolicy)
    on_refused: OnRefused | None = None
    jobs: Mapping[str, JobRule] = field(default_factory=dict)

    def matches(self, table: str) -> bool:
        """Whether the rule applies to "database.table" by its name."""
        return _any(self.tables, table) and not _any(self.excluding, table)


def _any(patterns: Iterable[str], table: str) -> bool:
    return any(fnmatch.fnmatchcase(table, p) for p in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicy:
    """The settings for one table.  `rules` are the names of the rules that apply, in order."""

    table: str
    rules: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    jobs: Mapping[str, JobPolicy] = field(default_factory=dict)
    guards: GuardPolicy = field(default_factory=GuardPolicy)
    engine: EnginePolicy = field(default_factory=EnginePolicy)
    on_refused: OnRefused | None = None
    needs: TableNeeds = field(default_factory=TableNeeds)

    def job(self, name: str) -> JobPolicy:
        """The settings for this job, also if the policy does not mention it."""
        return self.jobs.get(name) or JobPolicy(
            job=name, guards=self.guards, engine=self.engine, on_refused=self.on_refused
        )

    @property
    def steps_switched_off(self) -> list[str]:
        """The steps of `maintain` that the policy disables as jobs, sorted."""
        return sorted(j.job for j in self.jobs.values() if not j.enabled and j.job in _STEPS)

    def arguments_of(self, name: str) -> dict[str, object]:
        """The raw arguments for a run of this job.

        For `maintain` they include those of its steps: "expire_snapshots.retain_max" -> value.
        """
        found = dict(self.job(name).arguments)
        if name == MAINTAIN:
            steps = {
                f"{job.job}.{argument}": _as_text(value)
                for job in self.jobs.values()
                if job.job != MAINTAIN
                for argument, value in job.arguments.items()
            }
            own = found.get("step_arguments")
            found["step_arguments"] = {**steps, **(own if isinstance(own, Mapping) else {})}
            off = self.steps_switched_off
            if off:
                found["without"] = [*_listed(found.get("without")), *off]
        return found

    def to_json(self) -> dict[str, object]:
        """The policy of the table as JSON for `caretaker policy show --json`."""
        return {
            "table": self.table,
            "rules": list(self.rules),
            "options": dict(self.options),
            "jobs": [j.to_json() for j in self.jobs.values() if j.enabled],
            "disabled": sorted(j.job for j in self.jobs.values() if not j.enabled),
            "needs": self.needs.to_json(),
        }


def _as_text(value: object) -> object:
    """The value as text that arguments accept: options "a=1,b=2", partitions "a=1;a=2"."""
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        texts = [str(_as_text(v)) for v in value]
        return (";" if any("=" in t for t in texts) else ",").join(texts)
    return value


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """The part of a policy for one DAG: a job, a schedule, and the patterns of possible tables.

    A matching table takes part only if `Policy.runs_on(table, job, schedule)`.
    """

    job: str
    schedule: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All rules of a file, in order, the budget of the scheduler, and the targets of alerts."""

    file: str
    rules: tuple[Rule, ...] = ()
    budget: Budget = field(default_factory=Budget)
    alert_targets: Mapping[str, AlertTarget] = field(default_factory=dict)

    def approvals(self) -> frozenset[str]:
        """What any rule wants a person to approve."""
        return frozenset(str(a) for rule in self.rules for a in rule.needs.get("approval", ()))

    def for_table(self, table: str, facts: Callable[[], TableFacts] | None = None) -> TablePolicy:
        """The settings for "database.table".

        `facts` reads the table; it is called at most once, and only if a rule has conditions
        besides names.  InvalidArgument if such a rule applies and the caller has no facts.
        """
        matching = []
        known: TableFacts | None = None
        for rule in self.rules:
            if not rule.matches(table):
                continue
            if not rule.match.is_empty:
                if facts is None:
                    raise InvalidArgument(
                        f"{self.file}:{rule.line}: rule {rule.name!r} matches by options, comment or "
                        "owner of the table, which are not read here",
                        file=self.file,
                        next_step="name the tables of the rule here, or use the command line",
                    )
                known = known or facts()
                if not rule.match.holds(known):
                    continue
            matching.append(rule)
        options: dict[str, str] = {}
        common, engine = GuardPolicy(), EnginePolicy()
        on_refused: OnRefused | None = None
        jobs: dict[str, JobPolicy] = {}
        needs = TableNeeds()
        for rule in matching:
            needs = needs.with_changes(rule.needs)
            options |= rule.options
            common = common.overridden_by(rule.guards)
            engine = engine.overridden_by(rule.engine)
            on_refused = rule.on_refused or on_refused
            for name, job in rule.jobs.items():
                jobs[name] = job.applied_to(jobs.get(name))
        return TablePolicy(
            table=table,
            rules=tuple(rule.name for rule in matching),
            options=options,
            guards=common,
            engine=engine,
            on_refused=on_refused,
            needs=needs,
            jobs={
                name: JobPolicy(
                    job=name,
                    enabled=job.enabled,
                    schedule=job.schedule,
                    arguments=job.arguments,
                    guards=common.overridden_by(job.guards),
                    engine=engine.overridden_by(job.engine),
                    on_refused=job.on_refused or on_refused,
                )
                for name, job in jobs.items()
            },
        )

    def argument_values(
        self, job: str, argument: str
    ) -> tuple[tuple[tuple[str, ...], object], ...]:
        """The values that rules set for a job argument: (table patterns, raw value), in order.

        For `maintain`, the arguments of its steps count as its step arguments.
        """
        found: list[tuple[tuple[str, ...], object]] = []
        for rule in self.rules:
            own = rule.jobs.get(job)
            if own is not None and argument in own.arguments:
                found.append((rule.tables, own.arguments[argument]))
            if job == MAINTAIN and argument == "step_arguments":
                steps = {
                    f"{name}.{key}": _as_text(value)
                    for name, step in rule.jobs.items()
                    if name in _STEPS
                    for key, value in step.arguments.items()
                }
                found += [(rule.tables, steps)] if steps else []
            if job == MAINTAIN and argument == "without":
                off = [n for n, step in rule.jobs.items() if step.enabled is False and n in _STEPS]
                found += [(rule.tables, off)] if off else []
        return tuple(found)

    def schedules(self) -> tuple[Scheduled, ...]:
        """Every job and schedule in the rules, with the patterns of all rules for the job.

        A rule without a schedule can enable the job for tables of an earlier rule, so its patterns
        count too.  A DAG run checks each table with `runs_on`.
        """
        found: dict[tuple[str, str], None] = {}
        patterns: dict[str, dict[str, None]] = {}
        for rule in self.rules:
            for name, job in rule.jobs.items():
                if job.schedule is not None:
                    found[name, job.schedule] = None
                patterns.setdefault(name, {}).update(dict.fromkeys(rule.tables))
        return tuple(
            Scheduled(job=job, schedule=schedule, tables=tuple(patterns[job]))
            for job, schedule in found
        )

    def runs_on(
        self,
        table: str,
        job: str,
        schedule: str,
        facts: Callable[[], TableFacts] | None = None,
    ) -> bool:
        """Whether the job runs on the table with this schedule; `facts` as in `for_table`."""
        found = self.for_table(table, facts).jobs.get(job)
        return found is not None and found.enabled and found.schedule == schedule
