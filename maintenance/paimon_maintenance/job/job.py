"""The shape of every job: a light definition, and the steps that do it.

A `Job` is what help texts, forms and registries read; it costs nothing to import.  Its `steps`
are loaded when a plan is made or run.  The run loop alone calls them, in this order::

    inspect   read the table's metadata, once: the state that everything after it starts from
    plan      choose what to do, from that state: pure, and cheap enough for a dry run
    recheck   look again right before anything is changed; may drop from the plan, never add
    batches   cut the plan into parts that are committed one by one (most jobs: one)
    execute   do the work of a batch; writes only files with fresh names
    commit    make the work of a batch visible, or delete what the plan says
    verify    job-specific checks after the commits (the runner does the general ones)

A step raises errors of `paimon_core.errors`.  After a CommitConflict from `commit` the loop makes a
new plan if `Job.replans` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from paimon_maintenance.job.arguments import Argument, read_arguments

if TYPE_CHECKING:
    from paimon_core.environment import Environment
    from paimon_core.file_store_table import FileStoreTable
    from paimon_maintenance.engines.engine import Engine
    from paimon_maintenance.job.guards import Guards
    from paimon_maintenance.job.plan import Plan
    from paimon_maintenance.job.report import BucketChange, FailedUnit
    from paimon_maintenance.storage.ledger import Ledger

S = TypeVar("S")  # the state that inspect reads
P = TypeVar("P", bound="Plan")
B = TypeVar("B")  # a batch
R = TypeVar("R")  # the result of executing a batch

DEFAULT_MAX_ATTEMPTS: Final = 5


class Progress(Protocol):
    """Told how far a run is; implementations draw bars, log, or do nothing."""

    def phase(self, name: str) -> None:
        """A phase begins."""

    def expect(self, units: int, size: int) -> None:
        """So many units of so many bytes altogether will be executed."""

    def advance(self, units: int, size: int) -> None:
        """So much more is done.  Called from any thread."""


class NoProgress:
    """Progress that nobody watches."""

    def phase(self, name: str) -> None:
        """Say nothing."""

    def expect(self, units: int, size: int) -> None:
        """Say nothing."""

    def advance(self, units: int, size: int) -> None:
        """Say nothing."""


def unfenced() -> None:
    """Let a job go on that needs no lease."""


def unsupervised() -> None:
    """Nobody supervises this run: it may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a run gives to its steps.

    `commit_user` is fresh for every attempt: batch commits all carry the same identifier, so the
    user is what tells them apart (java-rules A5).  The loop checks `guards` for each plan.
    `max_attempts` bounds the plans made when concurrent commits win.  `ledger` has what the run
    changed so far.  `check_supervised` is called before each commit; it ends the process if the one
    that supervises it is gone (`paimon_maintenance.engines.lifeline`).
    """

    run_id: str
    commit_user: str
    env: Environment
    engine: Engine
    local: Engine
    progress: Progress = field(default_factory=NoProgress)
    guards: Guards | None = None
    force: bool = False
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    ledger: Ledger | None = None
    first_plan: Plan | None = None
    """The plan that the run began with, when a conflict makes another one necessary."""
    lease_wait_millis: int = 0
    """How long a job that needs the lease on the table waits for it."""
    fence: Callable[[], None] = unfenced
    """Called before each change of a job with a lease; raises LeaseLost if it must stop."""
    check_supervised: Callable[[], None] = unsupervised


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a batch's commit did: snapshots made, oldest first, and what became of it.

    `conflicts` names what was left out because a concurrent commit replaced it; the rest was
    committed.  The loop makes a new plan for them.  `parts` are the steps of a job made of others, as
    reports print them.
    """

    snapshots: tuple[int, ...] = ()
    conflicts: tuple[str, ...] = ()
    changes: tuple[BucketChange, ...] = ()
    failed_units: tuple[FailedUnit, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    parts: tuple[Mapping[str, object], ...] = ()
    findings: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Generic[S, P, B, R]):
    """The heavy half of a job; the module's docstring says what each step does."""

    inspect: Callable[[FileStoreTable, Mapping[str, object], RunContext], S]
    plan: Callable[[FileStoreTable, S, Mapping[str, object], RunContext], P]
    recheck: Callable[[FileStoreTable, P], P]
    batches: Callable[[P], Iterable[B]]
    execute: Callable[[FileStoreTable, P, B, RunContext], R]
    commit: Callable[[FileStoreTable, P, R, RunContext], Committed]
    verify: Callable[[FileStoreTable, P, Sequence[Committed]], list[Mapping[str, object]]]


def steps_of(place: str) -> Callable[[], Steps[Any, Any, Any, Any]]:
    """What loads the steps at a place such as "package.module:NAME", as entry points name it."""
    return partial(_load, *place.split(":"))


def _load(module: str, name: str) -> Steps[Any, Any, Any, Any]:
    steps: Steps[Any, Any, Any, Any] = vars(import_module(module))[name]
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, named after Paimon's procedure.

    `summary` is one line.  `changes`, `protects` and `undo` tell the operator what the job does to
    a table, what keeps data safe, and how to go back; help texts and DAG documentation are made
    of them.  `replans`: whether a commit conflict is answered with a new plan.

    `exclusive`: whether the job removes history or files, so that it needs the lease on the table.
    `needs_line`: whether it refuses a table whose line of snapshots has a gap.
    `by_age`: whether it deletes by age (files, snapshots, tags, partitions, rows), so that it is
    refused where this machine's clock and the store's disagree.
    """

    name: str
    summary: str
    changes: str
    protects: str
    undo: str
    arguments: tuple[Argument, ...]
    load: Callable[[], Steps[Any, Any, Any, Any]]
    table_options: Mapping[str, str] = field(default_factory=dict)
    """Table options that every run of this job sets, as the procedure does."""
    examples: tuple[str, ...] = ()
    replans: bool = False
    exclusive: bool = False
    needs_line: bool = True
    by_age: bool = False

    def read_arguments(self, raw: Mapping[str, object]) -> dict[str, object]:
        """Typed values of all arguments; InvalidArgument names what is wrong."""
        return read_arguments(self.arguments, raw)

    def argument(self, name: str) -> Argument:
        """The argument of this name; KeyError if the job has none."""
        return next(a for a in self.arguments if a.name == name)
