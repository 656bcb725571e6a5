"""The base of jobs that change only metadata and delete files.

Such a job has two functions: `make` reads the table and returns a `MetadataPlan` with the job's own
`work`; `apply` executes it.  An optional `recheck` drops work that became protected after planning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.job.job import Committed, RunContext, Steps
from paimon_maintenance.job.lazy_list import LazyList
from paimon_maintenance.job.plan import (
    Effect,
    Retained,
    SingleUse,
    SnapshotPin,
    plan_json,
    shortened,
    source_text,
)

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Action:
    """One planned action and its reason; `details` are machine-readable."""

    what: str
    why: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """The action as text."""
        return f"{self.what}: {self.why}" if self.why else self.what

    def to_json(self) -> dict[str, object]:
        """The action as JSON."""
        return {"what": self.what, "why": self.why, **self.details}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlan(Generic[W]):
    """The actions of a metadata job; the plan is empty without actions."""

    job: str
    table: str
    pin: SnapshotPin | None
    work: W
    actions: tuple[Action, ...] = ()
    kept: tuple[Retained, ...] = ()
    effect: Effect = field(default_factory=Effect)
    arguments: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    once: SingleUse = field(default_factory=SingleUse, compare=False, repr=False)
    failure: ClassVar[None] = None
    goes_on: ClassVar[bool] = False

    @property
    def is_empty(self) -> bool:
        """Whether the plan has no actions."""
        return not self.actions

    def to_json(self) -> dict[str, object]:
        """The plan as one JSON object (docs/cli.md)."""
        return plan_json(
            self,
            self.job,
            self.arguments,
            actions=LazyList(self.actions, Action.to_json),
            details=dict(self.details),
        )

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        where = source_text(self)
        head = f"{self.job} {self.table} from {where}"
        yield f"{head}: nothing to do" if self.is_empty else head
        yield from shortened(self.actions, Action.line, noun="")
        for kept in self.kept:
            yield f"  {kept.line()}"


Make = Callable[[FileStoreTable, Mapping[str, object], RunContext], MetadataPlan[W]]
Apply = Callable[[FileStoreTable, MetadataPlan[W], RunContext], Committed]
Recheck = Callable[[FileStoreTable, MetadataPlan[W]], MetadataPlan[W]]


def metadata_steps(
    make: Make[W], apply: Apply[W], *, recheck: Recheck[W] | None = None
) -> Steps[None, MetadataPlan[W], MetadataPlan[W], MetadataPlan[W]]:
    """The steps of a metadata job: one batch, which the commit step executes."""

    def inspect(_: FileStoreTable, __: Mapping[str, object], ___: RunContext) -> None:
        return None

    def plan(
        table: FileStoreTable, _: None, arguments: Mapping[str, object], context: RunContext
    ) -> MetadataPlan[W]:
        return make(table, arguments, context)

    def checked(table: FileStoreTable, found: MetadataPlan[W]) -> MetadataPlan[W]:
        return found if recheck is None else recheck(table, found)

    def batches(found: MetadataPlan[W]) -> list[MetadataPlan[W]]:
        return [found]

    def execute(
        _: FileStoreTable, __: MetadataPlan[W], batch: MetadataPlan[W], ___: RunContext
    ) -> MetadataPlan[W]:
        return batch

    def commit(
        table: FileStoreTable, _: MetadataPlan[W], result: MetadataPlan[W], context: RunContext
    ) -> Committed:
        return apply(table, result, context)

    def verify(
        _: FileStoreTable, __: MetadataPlan[W], ___: Sequence[Committed]
    ) -> list[Mapping[str, object]]:
        return []

    return Steps(
        inspect=inspect,
        plan=plan,
        recheck=checked,
        batches=batches,
        execute=execute,
        commit=commit,
        verify=verify,
    )


def latest_pin(table: FileStoreTable) -> SnapshotPin | None:
    """The pin of the newest snapshot; None for a table without snapshots."""
    latest = table.snapshots.latest()
    return None if latest is None else SnapshotPin.of(latest)
