"""The steps of `maintain`: which are due, their dependencies, and their status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, cast

from paimon_core.errors import CommitStateUnknown, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import CONSUMER_EXPIRATION_TIME, PARTITION_EXPIRATION_TIME
from paimon_maintenance.job.arguments import shown_arguments
from paimon_maintenance.job.error_json import error_json
from paimon_maintenance.job.exit_codes import is_refusal
from paimon_maintenance.job.job import Job
from paimon_maintenance.job.plan import Effect, Plan, Retained, SingleUse, SnapshotPin, source_text
from paimon_maintenance.jobs.maintain.step_names import ON_DEMAND, USUAL

_TAGS: Final = "trigger_tag_automatic_creation"
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    # A snapshot that a due tag protects must not expire.
    "expire_snapshots": (_TAGS,),
    # Changelogs outlive snapshots, so snapshots go first (java-rules H5).
    "expire_changelogs": (_TAGS, "expire_snapshots"),
    # Files of an interrupted step look like orphans until the step runs again.
    "remove_orphan_files": (
        *("compact", "sort_compact", _TAGS),
        *(*USUAL, "expire_changelogs", "compact_manifest"),
    ),
}


class StepStatus(StrEnum):
    """The status of a step, before or after it runs."""

    DUE = "due"
    NOT_DUE = "not_due"
    NOTHING_TO_DO = "nothing_to_do"
    SUCCESS = "success"
    REFUSED = "refused"
    FAILED = "failed"
    SKIPPED = "skipped"

    @classmethod
    def of(cls, error: BaseException) -> StepStatus:
        """The status of a step that raised this error."""
        return cls.REFUSED if is_refusal(error) else cls.FAILED


_NOT_DONE: Final = frozenset({StepStatus.FAILED, StepStatus.REFUSED, StepStatus.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step: job, arguments, and its plan or the reason why there is none."""

    job: Job
    arguments: Mapping[str, object]
    status: StepStatus
    plan: Plan | None = None
    why: str = ""
    error: Exception | None = None
    guard: str = ""
    """Why a guard stops the step; "" if none does."""

    @property
    def has_work(self) -> bool:
        """Whether the step has work or failed to plan."""
        return self.status in (StepStatus.DUE, StepStatus.FAILED, StepStatus.REFUSED)

    def to_json(self) -> dict[str, object]:
        """The step as JSON."""
        return {
            "job": self.job.name,
            "status": str(self.status),
            "why": self.why or None,
            "guard": self.guard or None,
            "error": None if self.error is None else error_json(self.error),
            "plan": None if self.plan is None else self.plan.to_json(),
        }

    def lines(self) -> Iterator[str]:
        """The step as text."""
        if self.plan is not None:
            yield from self.plan.lines()
        elif self.error is not None:
            what = "refused" if self.status is StepStatus.REFUSED else "cannot be planned"
            yield f"{self.job.name}: {what}: {self.error}"
        else:
            yield f"{self.job.name}: {str(self.status).replace('_', ' ')}: {self.why}"
        if self.guard:
            yield f"  a guard stops this: {self.guard}"


@dataclass(slots=True)
class Progress:
    """The state of a run of the plan."""

    changed: bool = False
    outcomes: dict[str, StepStatus] = field(default_factory=dict)
    unknown: bool = False

    def why_not(self, name: str, *, deletes: bool) -> str:
        """Why the step must not run after the previous steps; "" if it may run."""
        failed = [step for step in NEEDS.get(name, ()) if self.outcomes.get(step) in _NOT_DONE]
        if failed:
            return f"{failed[0]} did not succeed, and this step may delete files that it protects"
        if self.unknown and deletes:
            return "the outcome of a commit is unknown, so nothing is deleted"
        return ""

    def note(self, name: str, status: StepStatus, error: Exception | None = None) -> None:
        """Record the status of a step."""
        self.outcomes[name] = status
        self.changed = self.changed or status in (
            StepStatus.SUCCESS,
            StepStatus.FAILED,
            StepStatus.REFUSED,
        )
        self.unknown = self.unknown or isinstance(error, CommitStateUnknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainPlan:
    """The plans of all steps, from one state of the table, in execution order."""

    table: str
    pin: SnapshotPin | None
    steps: tuple[StepPlan, ...]
    arguments: Mapping[str, object] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress, compare=False, repr=False)
    once: SingleUse = field(default_factory=SingleUse, compare=False, repr=False)
    goes_on: ClassVar[bool] = False

    @property
    def is_empty(self) -> bool:
        """Whether no step has work."""
        return not any(step.has_work for step in self.steps)

    @property
    def failure(self) -> Exception | None:
        """The first planning error of a step; a refusal only if there is no other error."""
        errors = [s.error for s in self.steps if s.error is not None]
        return min(errors, key=is_refusal, default=None)

    @property
    def effect(self) -> Effect:
        """The sum over all steps, without the table size: each step has its own guards."""
        effects = [s.plan.effect for s in self.steps if s.plan is not None]
        return Effect(
            rewritten_files=sum(e.rewritten_files for e in effects),
            rewritten_bytes=sum(e.rewritten_bytes for e in effects),
            deleted_files=sum(e.deleted_files for e in effects),
            deleted_bytes=sum(e.deleted_bytes for e in effects),
        )

    @property
    def kept(self) -> Sequence[Retained]:
        """What all steps keep."""
        return [k for s in self.steps if s.plan is not None for k in s.plan.kept]

    def to_json(self) -> dict[str, object]:
        """The plan as one JSON object (docs/cli.md)."""
        return {
            "job": "maintain",
            "table": self.table,
            "arguments": shown_arguments(self.arguments),
            "snapshot": None if self.pin is None else self.pin.to_json(),
            "empty": self.is_empty,
            "effect": self.effect.to_json(),
            "steps": [s.to_json() for s in self.steps],
        }

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        head = f"maintain {self.table} from {source_text(self)}"
        yield f"{head}: nothing to do" if self.is_empty else head
        for step in self.steps:
            for line in step.lines():
                yield f"  {line}"


# --- step selection-----------------------------------------------------------------------------


def chosen_steps(
    jobs: Mapping[str, Job], arguments: Mapping[str, object], *, clustered: bool = False
) -> list[tuple[Job, dict[str, object]]]:
    """The jobs to run, in order, with typed arguments; InvalidArgument for invalid ones.

    `clustered`: compact the table by sorting, as Java's `compact` does.
    """
    also = cast("Sequence[str]", arguments.get("also") or ())
    without = set(cast("Sequence[str]", arguments.get("without") or ()))
    strategy = str(arguments.get("compact") or "none")
    compaction = "sort_compact" if clustered else "compact"
    names = [
        *((compaction,) if strategy != "none" and "compact" not in without else ()),
        *USUAL,
        *(name for name in ON_DEMAND if name in also),
    ]
    raw = _step_arguments(jobs, arguments)
    if strategy != "none":
        raw.setdefault(compaction, {})["strategy"] = strategy
    return [
        (jobs[name], _read(jobs[name], raw.get(name, {}))) for name in names if name not in without
    ]


def _read(job: Job, raw: Mapping[str, object]) -> dict[str, object]:
    """The typed arguments of the step; InvalidArgument names the step."""
    try:
        return job.read_arguments(raw)
    except InvalidArgument as e:
        raise InvalidArgument(f"step {job.name}: {e.message}", next_step=e.next_step) from e


def _step_arguments(
    jobs: Mapping[str, Job], arguments: Mapping[str, object]
) -> dict[str, dict[str, Any]]:
    """The raw arguments by step; arguments of other jobs are checked but not used."""
    given = cast("Mapping[str, object]", arguments.get("step_arguments") or {})
    found: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        name, dot, argument = key.replace("-", "_").partition(".")
        if not dot or name not in jobs:
            raise InvalidArgument(
                f"argument --step-argument: {key!r} is not STEP.ARGUMENT "
                f"(steps: {', '.join(('compact', *USUAL, *ON_DEMAND))})"
            )
        found.setdefault(name, {})[argument] = value
    return found


def why_not_due(table: FileStoreTable, job: Job, arguments: Mapping[str, object]) -> str:
    """Why the step is not due for the table; "" if it is due."""
    if job.name == "expire_partitions":
        if not table.schema.partition_keys:
            return "the table is not partitioned"
        if (
            arguments.get("expiration_time") is None
            and table.options.value(PARTITION_EXPIRATION_TIME) is None
        ):
            return "partition.expiration-time is not set"
    if (
        job.name == "expire_consumers"
        and arguments.get("expiration_time") is None
        and table.options.value(CONSUMER_EXPIRATION_TIME) is None
    ):
        return "consumer.expiration-time is not set"
    return ""
