"""The structure of every job: a light definition, and the steps that implement it.

Help texts, forms and the registry read the `Job`, which is cheap to import.  Its `steps` are loaded
to plan or to run the job.  Only the run loop calls them, in this order::

    inspect   read the metadata of the table once: the state for the following steps
    plan      decide from that state what to do: pure, and cheap enough for a dry run
    recheck   check the plan again right before the first change; may drop work, never adds any
    batches   split the plan into parts with one commit each (most jobs have one)
    execute   do the work of a batch; writes only new files with unique names
    commit    commit the work of a batch, or delete the planned files
    verify    job-specific checks after the commits (the runner does the general ones)

A step raises errors of `paimon_core.errors`.  After a CommitConflict from `commit` the loop plans
again if `Job.replans` is set.
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
    from paimon_maintenance.job.engine import Engine
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
    """Receives the progress of a run; implementations draw bars, log, or do nothing."""

    def phase(self, name: str) -> None:
        """Start a phase."""

    def expect(self, units: int, size: int) -> None:
        """Add to the expected work: units and bytes."""

    def advance(self, units: int, size: int) -> None:
        """Add to the finished work: units and bytes.  Any thread may call it."""


class NoProgress:
    """Progress that is not shown."""

    def phase(self, name: str) -> None:
        """Do nothing."""

    def expect(self, units: int, size: int) -> None:
        """Do nothing."""

    def advance(self, units: int, size: int) -> None:
        """Do nothing."""


def unfenced() -> None:
    """The fence of a plan, which changes nothing: do nothing."""


def unsupervised() -> None:
    """The check of a run without a supervisor: do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The services and settings that a run passes to its steps.

    `commit_user` is unique for every attempt: batch commits all have the same identifier, so only
    the user distinguishes them (java-rules A5).  The loop checks `guards` for each plan.
    `max_attempts` limits the number of plans after commit conflicts.  `ledger` records the changes
    of the run.  `check_supervised` runs before each commit; it ends the process if its supervisor
    has ended (`paimon_maintenance.engines.lifeline`).
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
    """The first plan of the run, for a plan after a conflict."""
    lease_wait_millis: int = 0
    """How long a job waits for the lease on the table."""
    fence: Callable[[], None] = unfenced
    """Runs before each change; raises LeaseLost if the lease is gone, TableGone if
    another table has the name."""
    check_supervised: Callable[[], None] = unsupervised


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The result of committing a batch; `snapshots` are its new snapshots, oldest first.

    `conflicts` names the work that the commit left out because a concurrent commit replaced its
    input; the loop plans again for it.  `parts` are the step results of a composite job, as in
    reports.
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
    """The implementation of a job; the module docstring describes each step."""

    inspect: Callable[[FileStoreTable, Mapping[str, object], RunContext], S]
    plan: Callable[[FileStoreTable, S, Mapping[str, object], RunContext], P]
    recheck: Callable[[FileStoreTable, P], P]
    batches: Callable[[P], Iterable[B]]
    execute: Callable[[FileStoreTable, P, B, RunContext], R]
    commit: Callable[[FileStoreTable, P, R, RunContext], Committed]
    verify: Callable[[FileStoreTable, P, Sequence[Committed]], list[Mapping[str, object]]]


def steps_of(place: str) -> Callable[[], Steps[Any, Any, Any, Any]]:
    """A function that loads the steps from a place such as "package.module:NAME"."""
    return partial(_load, *place.split(":"))


def _load(module: str, name: str) -> Steps[Any, Any, Any, Any]:
    steps: Steps[Any, Any, Any, Any] = vars(import_module(module))[name]
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, named after Paimon's procedure.

    Texts for operators, used by help texts and the documentation of DAGs:

    - `summary`: what the job does, in one line.
    - `changes`, `protects`, `undo`: what the job changes, what protects the
      data, and how to undo it.

    Rules of a run:

    - `replans`: the loop plans again after a commit conflict.
    - `exclusive`: the job removes history or files, so it needs the lease on the table.
    - `needs_line`: the job refuses a table with a gap between its snapshots.
    - `by_age`: the job deletes by age (files, snapshots, tags, partitions, rows), so it refuses to
      run if the clocks of this machine and of the store differ.
    - `rewrites`: the job may rewrite data files, which is work for Spark; False for a job that only
      changes metadata or deletes.
    - `retry_safe`: a scheduler may run the job again after a failure without asking a person,
      although the table may have changed since.

    Rules of its arguments:

    - `required`: the arguments without which the job cannot run.
    - `at_most_one`: groups of arguments; a run can have one of each group.
    - `in_order`: pairs of arguments; the first must not be greater than the second.
    """

    name: str
    summary: str
    changes: str
    protects: str
    undo: str
    arguments: tuple[Argument, ...]
    load: Callable[[], Steps[Any, Any, Any, Any]]
    table_options: Mapping[str, str] = field(default_factory=dict)
    """Table options that every run of this job sets, as in the procedure."""
    examples: tuple[str, ...] = ()
    replans: bool = False
    exclusive: bool = False
    needs_line: bool = True
    by_age: bool = False
    rewrites: bool = True
    retry_safe: bool = False
    required: tuple[str, ...] = ()
    at_most_one: tuple[tuple[str, ...], ...] = ()
    in_order: tuple[tuple[str, str], ...] = ()

    def contradiction(self, values: Mapping[str, object]) -> str | None:
        """Why these typed values exclude each other for every table; None if they do not."""
        for group in self.at_most_one:
            given = [n for n in group if values.get(n) not in (None, False, ())]
            if len(given) > 1:
                return f"only one of {', '.join(group)} can be given, not {' and '.join(given)}"
        for low, high in self.in_order:
            least, most = values.get(low), values.get(high)
            if isinstance(least, int) and isinstance(most, int) and least > most:
                return f"{low} ({least}) is greater than {high} ({most})"
        return None

    def read_arguments(self, raw: Mapping[str, object]) -> dict[str, object]:
        """The typed values of all arguments; InvalidArgument for an invalid one."""
        return read_arguments(self.arguments, raw)

    def argument(self, name: str) -> Argument:
        """The argument with this name; KeyError if there is none."""
        return next(a for a in self.arguments if a.name == name)
