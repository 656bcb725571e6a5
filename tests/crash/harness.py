"""One job on one small table, with every file operation failing once and a kill at every one.

A `Case` says how the table is made and what the job is; `Origin` is what its clean run did, which
every failed one must come to as well:

- right after the failure, verification finds no error that was not there before, and the table
  reads as before or as after (for jobs of several commits: as after some of them);
- a second run ends without an error, and then the table is in the state of the clean run;
- after the orphan job there are as many files of each kind as after the clean run, and those that
  are there are those that are needed.  What only deletes needs no orphan job for that.

Many failures leave the same files behind; that the job can go on from those is looked at once.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from disk import on_disk, referenced
from failing_disk import Disk
from failing_io import MIDWAY, WRITES, FailingFileIO, Trigger
from long_run import LONG
from replay import run_step

import paimon_maintenance.run.request
from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io import read_retry
from paimon_core.retention import store_clock
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.versions import inflight_commits
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Severity

State = dict[str, Any]
DONE_BEFORE = (NotFound, AlreadyExists, InvalidArgument)
"""What a second run may say that finds the work done."""
READS = 10_000 if LONG else 4
"""How many reads of a job fail at most, one a run."""
FULL = 10_000 if LONG else 4
"""From how many writes on the disk is full, once each."""
FRESH = ("open_output", "write_bytes")
"""Changes that make files which nothing names yet: half of one is an orphan like any other."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{10,}")


# --- what is done to a table --------------------------------------------------------------------


def do(warehouse: Path, op: str, **fields: Any) -> dict[str, Any]:
    """A step of the oracle's language, which must work."""
    result = attempt(warehouse, op, **fields)
    assert "error" not in result, result
    return result


def attempt(warehouse: Path, op: str, **fields: Any) -> dict[str, Any]:
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    return run_step({"op": op, **at, **fields})


def run_job(
    warehouse: Path | str,
    name: str,
    arguments: Mapping[str, object],
    *,
    storage: Mapping[str, str] | None = None,
    branch: str | None = None,
    table: str = "db.t",
) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table=table,
            arguments=job.read_arguments(arguments),
            file_io_options=storage,
            branch=branch,
            force=True,
        )
    )


def run_failing(
    warehouse: Path, job: str, arguments: Mapping[str, object], trigger: Trigger
) -> Report:
    """The report of a run whose FileIO fails, or which dies."""
    plain = paimon_maintenance.run.request.open_table_of

    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        root = plain(warehouse, name).root
        io = FailingFileIO(trigger)
        return open_table_at(io, root, name, dynamic_options=options["dynamic_options"])

    paimon_maintenance.run.request.open_table_of = opened
    try:
        return run_job(warehouse, job, arguments)
    finally:
        paimon_maintenance.run.request.open_table_of = plain


def run_to_death(
    warehouse: Path, job: str, arguments: Mapping[str, object], trigger: Trigger
) -> str:
    """What a run that lived on against all expectation has to say."""
    read_retry.WAITS_MILLIS = ()  # nobody writes what cannot be read
    inflight_commits.LOCAL_MILLIS = 0
    store_clock.VALID_MILLIS = 0
    return str(run_failing(warehouse, job, arguments, trigger).error)


def remove_orphans(warehouse: Path) -> None:
    """The orphan job, which takes everything from before this millisecond."""
    time.sleep(0.002)
    now = str(time.time_ns() // 1_000_000)
    arguments = {"older_than": now, "allow_young": True, "mode": "delete", "external_paths": True}
    report = run_job(warehouse, "remove_orphan_files", arguments)
    assert report.error is None, report.error


def settle(warehouse: Path) -> None:
    """Merge the manifests and let the history go, so that it does not matter how it came about."""
    for job, arguments in (
        ("compact_manifest", {}),
        ("expire_snapshots", {"retain_max": 1, "retain_min": 1}),
    ):
        report = run_job(warehouse, job, arguments)
        assert report.error is None, report.error


# --- what is seen of it -------------------------------------------------------------------------


def rows(warehouse: Path, **where: object) -> list[str]:
    """The rows in no order, without their kinds, which merging changes; or why it cannot be read."""
    result = attempt(warehouse, "read", **where)
    if "error" in result:
        return [result["type"]]
    return sorted(str(row[1:]) for row in result["rows"])


def state(warehouse: Path) -> State:
    """What others see of the table; tags by the beginning of their names, for the safety tags'."""
    table = open_table(str(warehouse), "db.t")
    latest = table.latest_or_not_found()
    return {
        "rows": rows(warehouse),
        "options": dict(table.options),
        "buckets": {e.total_buckets for e in scan_files(table, latest)},
        "snapshots": [(s.id, s.commit_kind) for s in table.snapshots.all()],
        "tags": {t.name[:15]: rows(warehouse, tag=t.name) for t in table.tags.all()},
        "consumers": {c.id: c.next_snapshot for c in table.consumers.all()},
        "branches": {b: rows(warehouse, branch=b) for b in table.branches.names()},
        "marks": sorted(p.name for p in Path(table.root).rglob("*_SUCCESS")),
    }


def errors(warehouse: Path) -> set[tuple[str, int | None]]:
    """The errors of the verification, with their snapshots."""
    found = check_table(open_table(str(warehouse), "db.t")).findings
    return {(f.problem.value, f.snapshot) for f in found if f.severity is Severity.ERROR}


def files(warehouse: Path) -> Counter[str]:
    """How many files and folders of each kind there are: paths without ids and numbers."""
    return Counter(
        re.sub(r"\d+", "#", UUID.sub("ID", str(path.relative_to(warehouse))))
        for path in warehouse.rglob("*")
        if path.is_file() and path.parent.name != "leases"
    )


def fingerprint(warehouse: Path) -> frozenset[tuple[str, str | int]]:
    """All files: paths, and contents of text or sizes, without ids and times."""

    def content(path: Path) -> str | int:
        data = path.read_bytes()
        try:
            return TIME.sub("#", UUID.sub("ID", data.decode()))
        except UnicodeDecodeError:
            return len(data)

    return frozenset(
        (UUID.sub("ID", str(path.relative_to(warehouse))), content(path))
        for path in warehouse.rglob("*")
        if path.is_file() and path.parent.name != "leases"
    )


def assert_nothing_left(warehouse: Path) -> None:
    """Every file is needed, and no job is unfinished."""
    root = Path(open_table(str(warehouse), "db.t").root)
    assert on_disk(root) == referenced(warehouse)
    assert not list(root.glob("caretaker/released/*.json"))


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job, and how its table is made."""

    job: str
    build: Callable[[Path], None]
    arguments: Mapping[str, object] = field(default_factory=dict)
    state: Callable[[Path], State] = state
    finish: Callable[[Path], None] = remove_orphans
    """What makes the files of all runs the same."""
    after_failure: Callable[[Path, Report], None] = lambda _, __: None
    """What else holds after a call that failed, the process alive."""
    leaves: bool = False
    """Whether there may be files that only `finish` takes, after a failure or always."""
    copies: bool = False
    """Renaming copies and deletes, as on object stores."""
    parts: bool = False
    """Whether a failed run may commit some of its work, so that there are more snapshots in all."""
    passing: frozenset[str] = frozenset()
    """Problems that there may be for one change, until a second run."""
    least: int = 1
    """How many changes there are at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The table before the job, and what a clean run of it came to."""

    case: Case
    pristine: Path
    before: State
    after: State
    steps: list[list[str]]
    """The rows between: of the snapshots that the job made or deleted."""
    errors_before: set[tuple[str, int | None]]
    errors_after: set[tuple[str, int | None]]
    files: Counter[str]
    settled: Counter[str]
    """What is left of them once the history is gone."""
    calls: list[str]
    """The changes, by name."""
    seen: set[frozenset[tuple[str, str | int]]] = field(default_factory=set)

    def run_again(self, failed: Path, what: Trigger | Disk) -> None:
        """See that the failed run left nothing bad, and finish the job."""
        left = fingerprint(failed)
        if left in self.seen:
            return
        self._check_whole(failed, what)
        case = self.case
        again = run_job(failed, case.job, case.arguments)
        assert again.error is None or isinstance(again.error, DONE_BEFORE), (what, again.error)
        found = case.state(failed)
        more_commits = case.parts and found["snapshots"] != self.after["snapshots"]
        if more_commits:
            found["snapshots"] = self.after["snapshots"]
            settle(failed)
        assert found == self.after, (what, found, self.after)
        if not case.leaves:
            assert_nothing_left(failed)
        case.finish(failed)
        there, wanted = files(failed), self.settled if more_commits else self.files
        more, less = there - wanted, wanted - there
        self.seen.add(left)
        if isinstance(what, Disk) or not what.kill:  # which may have put an option back
            more = Counter({name: n for name, n in more.items() if "/schema/" not in name})
        assert not more, (what, more)
        assert {name.rpartition("/")[2] for name in less} <= {"EARLIEST", "LATEST"}, (what, less)
        assert errors(failed) == self.errors_after, what

    def _check_whole(self, failed: Path, what: Trigger | Disk) -> None:
        broken = errors(failed) - self.errors_before - self.errors_after
        # Between a tag that is revived and the last of the snapshots that go.
        assert {problem for problem, _ in broken} <= self.case.passing, what
        found, before, after = self.case.state(failed), self.before, self.after
        assert found["rows"] in (before["rows"], after["rows"], *self.steps), what
        for kind in ("tags", "branches"):
            for name, content in found.get(kind, {}).items():
                # A branch begins without snapshots.
                known = (before[kind].get(name), after[kind].get(name), ["NotFound"], [])
                assert content in known, (what, name)

    def copy(self, place: Path) -> Path:
        return Path(shutil.copytree(self.pristine, place))


def origin(case: Case, place: Path) -> Origin:
    """The table of the case, made, and what a clean run of the job does."""
    pristine, clean = place / "pristine", place / "clean"
    case.build(pristine)
    shutil.copytree(pristine, clean)
    counted = Trigger(copies=case.copies)
    before, errors_before = case.state(pristine), errors(pristine)
    report = run_failing(clean, case.job, case.arguments, counted)
    assert report.status is Status.SUCCESS, report.error
    assert counted.count >= case.least, "hardly anything was changed"
    after, errors_after = case.state(clean), errors(clean)
    assert errors_after <= errors_before
    steps = [rows(clean, snapshot=i) for i in report.snapshots]
    if case.job in ("rollback", "fast_forward"):
        # One snapshot after the other goes, then one after the other comes.
        steps += [rows(pristine, snapshot=i) for i, _ in before["snapshots"][1:]]
        steps += [rows(clean, snapshot=i) for i, _ in after["snapshots"][1:]]
    if not case.leaves:
        assert_nothing_left(clean)
    case.finish(clean)
    if case.finish is remove_orphans and not errors_after:
        assert_nothing_left(clean)
    with_history = files(clean)
    if case.parts:
        settle(clean)
    return Origin(
        case=case,
        pristine=pristine,
        before=before,
        after=after,
        steps=steps,
        errors_before=errors_before,
        errors_after=errors_after,
        files=with_history,
        settled=files(clean),
        calls=counted.calls,
    )


def failures(origin: Origin, place: Path) -> Iterator[Trigger]:
    """A failure of each change, before and after it took effect, of all writes, and of some reads.

    Without CARETAKER_LONG=1, the first change of each kind fails both ways, and every other one of the
    others fails, before and after in turns.
    """
    case = origin.case
    for k, name in enumerate(origin.calls):
        before = origin.calls[:k].count(name)
        ways: Sequence[Literal["before", "after"]] = ("before", "after")
        if before and not LONG:
            ways = ((), ("before",), (), ("after",))[before % 4]
        for when in ways:
            yield Trigger(at=k, when=when, copies=case.copies)
    writes = [k for k, name in enumerate(origin.calls) if name in WRITES]
    for k in writes[:: -(-len(writes) // FULL) or 1]:
        yield Trigger(at=k, full=True, copies=case.copies)
    reads = Trigger(reads=True)
    run_failing(origin.copy(place), case.job, case.arguments, reads)
    shutil.rmtree(place)
    for k in range(0, reads.count, -(-reads.count // READS)):
        yield Trigger(at=k, reads=True)


def kills(calls: Sequence[str], *, copies: bool = False) -> Iterator[Trigger]:
    """A kill before each change, in the middle of those that write, and after the last.

    A process that dies after a change leaves what one leaves that dies before the next.  Of fresh
    files only the first of a kind is cut in two, unless CARETAKER_LONG=1.
    """
    for k, name in enumerate(calls):
        yield Trigger(at=k, when="before", kill=True, copies=copies)
        if copies or name not in MIDWAY:  # object stores show a file once it is whole
            continue
        if LONG or name not in FRESH or name not in calls[:k]:
            yield Trigger(at=k, when="midway", kill=True)
    yield Trigger(at=len(calls) - 1, when="after", kill=True, copies=copies)
