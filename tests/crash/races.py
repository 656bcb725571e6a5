"""Two operations at once on one small table: A stops before its k-th change, B runs, A goes on.

A is a job of ours, B a job of ours or an operation of Java's.  B runs inside the store call in
which A stops, so a round is deterministic and needs no threads.  After each round:

- A and B succeeded or failed with an error of ours (Java: with any);
- verification finds no error, and Java reads the newest snapshot, every tag and every branch;
- main holds the rows of a version that there was, so nothing is torn, and what a writer was told
  is committed is there;
- Java goes on writing, and reads what it wrote;
- after the orphan job, the files on disk are those that are referenced.
"""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disk import on_disk, referenced
from failing_io import FailingFileIO, Trigger
from harness import attempt, remove_orphans
from long_run import LONG
from race_tables import ALL_TABLES, DAYS, POSTPONED, copy_table, outside_of
from replay import run_step
from without_lease import without_lease

import paimon_maintenance.run.request
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import REWRITE_ROW_IDS
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import RefKind, all_references
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Finding, Problem, Severity

ACKNOWLEDGED, LATER = 1001, 2002
"""Keys that B writes, and that Java writes after each round."""
Rows = tuple[str, ...]
Asked = Callable[..., list[dict[str, Any]]]
"""Java, or `ours_alone`: a list of the oracle's steps, and their answers."""


def ours_alone(steps: Sequence[Mapping[str, Any]], *, check: bool = True) -> list[dict[str, Any]]:
    """The answers of `paimon_core`, where no Java is at hand."""
    with without_lease():
        answers = [run_step(dict(step)) for step in steps]
    assert not (check and any("error" in answer for answer in answers)), answers
    return answers


# --- operations ---------------------------------------------------------------------------------

EXPIRE = {"retain_max": 1, "retain_min": 1}
OURS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    # --- what moves or shortens history ---
    "rollback": ("rollback", {"snapshot": 4}),
    "rollback without safety tag": ("rollback", {"snapshot": 4, "safety_tag": "0 s"}),
    "rollback to a tag": ("rollback", {"tag": "old", "safety_tag": "0 s"}),
    "rollback_to_as_latest": ("rollback_to_as_latest", {"snapshot": 3}),
    "rollback_to_as_latest of a tag": ("rollback_to_as_latest", {"tag": "old"}),
    "fast_forward": ("fast_forward", {"branch_name": "b"}),
    "expire_snapshots": ("expire_snapshots", EXPIRE),
    "expire_changelogs": ("expire_changelogs", {"retain_max": 1, "retain_min": 1}),
    "delete_tag": ("delete_tag", {"tag": ["old"]}),
    "replace_tag": ("replace_tag", {"tag": "old", "snapshot": 4}),
    "rename_tag": ("rename_tag", {"tag": "old", "target_tag": "new"}),
    "expire_tags": ("expire_tags", {}),
    "create_tag": ("create_tag", {"tag": "mine", "snapshot": 4}),
    "create_branch": ("create_branch", {"branch_name": "c", "tag": "old"}),
    "rename_branch": ("rename_branch", {"branch_name": "b", "target_branch": "d"}),
    "delete_branch": ("delete_branch", {"branch_name": "b"}),
    # --- commits ---
    "compact": ("compact", {"compact_strategy": "full"}),
    "compact_manifest": ("compact_manifest", {}),
    "drop_partition": ("drop_partition", {"partitions": f"dt={DAYS[0]}"}),
    "expire_partitions": ("expire_partitions", {"expiration_time": "10 d"}),
    "rescale": ("rescale", {"bucket_num": 2}),
    "sort_compact": ("sort_compact", {"order_by": "k"}),
    "analyze": ("analyze", {}),
    "create_global_index": ("create_global_index", {"index_column": "v"}),
    "drop_global_index": ("drop_global_index", {"index_column": "v"}),
    "reassign_row_id": ("reassign_row_id", {}),
    "compact with new row ids": (
        "compact",
        {"compact_strategy": "full", "options": {REWRITE_ROW_IDS.key: "true"}},
    ),
    # --- the rest ---
    "remove_orphan_files": ("remove_orphan_files", {"mode": "delete", "external_paths": True}),
    "quarantine": ("remove_orphan_files", {"mode": "quarantine"}),
    "repair": ("repair", {}),
    "remove_unexisting_files": ("remove_unexisting_files", {}),
    "maintain": ("maintain", {}),
}
JAVA: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "java write": [{"op": "write", "rows": [[ACKNOWLEDGED, "b", DAYS[1]]]}],
    "java writes twice": [
        {"op": "write", "rows": [[ACKNOWLEDGED - 1, "b", DAYS[1]]]},
        {"op": "write", "rows": [[ACKNOWLEDGED, "b", DAYS[1]]]},
    ],
    "java write to the branch": [
        {"op": "write", "branch": "b", "rows": [[ACKNOWLEDGED, "b", DAYS[1]]]}
    ],
    "java expire": [{"op": "expire_snapshots", **EXPIRE}],
    "java expire of the branch": [{"op": "expire_snapshots", "branch": "b", **EXPIRE}],
    "java write and expire": [
        {"op": "write", "rows": [[ACKNOWLEDGED, "b", DAYS[1]]]},
        {"op": "expire_snapshots", **EXPIRE},
    ],
    "java compact": [{"op": "compact", "full": True}],
    "java rollback": [{"op": "rollback_to", "snapshot": 4}],
    "java rollback and write": [
        {"op": "rollback_to", "snapshot": 4},
        {"op": "write", "rows": [[ACKNOWLEDGED, "b", DAYS[1]]]},
    ],
    "java delete_tag": [{"op": "delete_tag", "name": "old"}],
    "java create_tag": [{"op": "create_tag", "name": "theirs", "snapshot": 4}],
}
HISTORY = (
    "rollback",
    "rollback without safety tag",
    "rollback to a tag",
    "rollback_to_as_latest",
    "rollback_to_as_latest of a tag",
    "fast_forward",
    "expire_snapshots",
    "expire_changelogs",
    "delete_tag",
    "replace_tag",
    "rename_tag",
    "expire_tags",
    "create_tag",
    "create_branch",
    "rename_branch",
    "delete_branch",
)
OF_EVOLVING = (
    "create_global_index",
    "drop_global_index",
    "reassign_row_id",
    "compact with new row ids",
)
"""What other tables than those with data evolution do not have."""
REPLACES = ("rollback_to_as_latest", "rollback_to_as_latest of a tag")
"""What replaces the content of main, also what was committed meanwhile (as Java 2.0 does)."""
EXPIRES = ("java expire", "java write and expire")
WRITES_MAIN = ("java write", "java writes twice", "java write and expire")


def uncovered_jobs() -> set[str]:
    """Jobs of the registry that take no part in any race, because they have no second writer."""
    return set(JOBS) - {job for job, _ in OURS.values()}


# --- rounds -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Pristine:
    """A table, made once; rounds work on copies."""

    name: str
    place: Path
    versions: set[Rows] = field(default_factory=set)
    """The rows of every snapshot of every branch."""
    changes: dict[str, int] = field(default_factory=dict)

    def copy(self, to: Path) -> Path:
        return copy_table(self.place, to)


def pristine(name: str, place: Path) -> Pristine:
    ALL_TABLES[name](place)
    made = Pristine(name, place)
    table = open_table(str(place), "db.t")
    made.versions = {_rows(place, snapshot=i) for i in table.snapshots.ids()}
    made.versions |= {_rows(place, tag=t) for t in table.tags.names()}
    theirs = table.snapshots.of_branch("b")
    made.versions |= {_rows(place, branch="b", snapshot=i) for i in theirs.ids()}
    return made


def _rows(warehouse: Path, **where: object) -> Rows:
    result = attempt(warehouse, "read", **where)
    assert "error" not in result, (where, result)
    return tuple(sorted(str(row[1:]) for row in result["rows"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What takes place: for messages, and to repeat it.  `leased`: whether B respects the lease."""

    table: str
    a: str
    b: str
    k: int
    leased: bool = True


def run_ours(warehouse: Path, name: str, trigger: Trigger | None = None) -> Report:
    """The report of one of `OURS`; with a trigger, its changes are counted and may stop."""
    job_name, arguments = OURS[name]
    job = job_named(job_name)
    plain = paimon_maintenance.run.request.open_table_of

    def opened(warehouse: str, table: str, **options: Any) -> FileStoreTable:
        found = plain(warehouse, table, **options)
        if trigger is None:
            return found
        io = FailingFileIO(trigger)
        return open_table_at(
            io,
            found.root,
            table,
            branch=options.get("branch"),
            dynamic_options=options["dynamic_options"],
        )

    paimon_maintenance.run.request.open_table_of = opened
    try:
        return run_table(
            RunRequest(
                job=job,
                warehouse=str(warehouse),
                table="db.t",
                arguments=job.read_arguments(arguments),
                force=True,
                lease_wait_millis=0,
            )
        )
    finally:
        paimon_maintenance.run.request.open_table_of = plain


def count_changes(of: Pristine, a: str, place: Path) -> int:
    """How many changes A makes when nobody disturbs it."""
    if a not in of.changes:
        trigger = Trigger()
        report = run_ours(of.copy(place), a, trigger)
        _check_ended(report)
        shutil.rmtree(place)
        of.changes[a] = trigger.count
    return of.changes[a]


def run_round(of: Pristine, what: Round, oracle: Asked, place: Path) -> None:
    """One round; AssertionError tells which, and what does not hold."""
    warehouse = of.copy(place)
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    answers: list[Any] = []

    def other() -> None:
        if what.b in JAVA:
            answers.extend(oracle([{**at, **step} for step in JAVA[what.b]], check=False))
        else:
            with nullcontext() if what.leased else without_lease():
                answers.append(run_ours(warehouse, what.b))

    trigger = Trigger(at=what.k, action=other)
    report = run_ours(warehouse, what.a, trigger)
    try:
        assert trigger.fired, "A made fewer changes than before"
        _check_ended(report)
        for answer in answers:
            if isinstance(answer, Report):
                _check_ended(answer)
        if _undoes_rescale(of, what):
            run_ours(warehouse, "rescale")  # the next step that the plan of the rollback names
        _check_table(of, what, warehouse, oracle, at, answers)
    except Exception as e:
        told = [str(a.error or a.status) if isinstance(a, Report) else a for a in answers]
        raise AssertionError(f"{what}: A: {report.error or report.status}; B: {told}: {e}") from e
    shutil.rmtree(place)


def _undoes_rescale(of: Pristine, what: Round) -> bool:
    """Whether files with the old number of buckets return after the last commit of `rescale`."""
    late = what.k >= of.changes[what.a] - 1
    return late and what.a == "rescale" and what.b.startswith("rollback_to_as_latest")


def _check_ended(report: Report) -> None:
    done = (Status.SUCCESS, Status.NOTHING_TO_DO)
    assert report.status in done or isinstance(report.error, PaimonError), repr(report.error)


def _check_table(
    of: Pristine,
    what: Round,
    warehouse: Path,
    oracle: Asked,
    at: Mapping[str, str],
    answers: Sequence[Any],
) -> None:
    table = open_table(str(warehouse), "db.t")
    hollow = _hollowed_by_java(of, what)
    found = check_table(table).findings
    wrong = [f for f in found if f.severity is Severity.ERROR and not hollow(f)]
    assert not wrong, f"verify finds {[f.line() for f in wrong]}"
    reads: list[dict[str, Any]] = [{"op": "read"}]
    reads += [{"op": "read", "tag": tag} for tag in table.tags.names()]
    shared = what.a == "fast_forward" and what.b in EXPIRES
    skipped = "b" if shared else "c" if _loses_its_tag(of, what) else None
    branches = [b for b in table.branches.names() if b != skipped]
    reads += [{"op": "read", "branch": b} for b in branches]
    # With deletion vectors, rows show once they are compacted.
    show: list[dict[str, Any]] = [{"op": "compact", "full": True}] if of.name in POSTPONED else []
    last = [{"op": "write", "rows": [[LATER, "later", DAYS[1]]]}]
    if what.a == "rescale" and "write" in what.b:
        show = []  # Java cannot compact a partition with two numbers of buckets
    steps = [*reads, *show, {"op": "read"}, *last, *show, {"op": "read"}]
    results = oracle([{**at, **step} for step in steps], check=False)
    for step, result in zip(steps, results, strict=True):
        assert "error" not in result, f"Java: {step}: {result}"
    before = results[len(reads) + len(show)]["rows"]
    seen = {row[1] for row in before}
    after = {row[1] for row in results[-1]["rows"]}
    if of.name in POSTPONED and not show:
        return
    assert after == seen | {LATER}, "Java does not see what it wrote"
    told = [a for a in answers if not isinstance(a, Report)]
    if what.b in WRITES_MAIN and what.a not in REPLACES and "error" not in told[0]:
        assert ACKNOWLEDGED in seen or "error" in told[-1], "an acknowledged commit is missing"
    _check_versions(of, what, before)
    if any(f.severity is Severity.ERROR for f in found):
        return
    remove_orphans(warehouse)
    disk = on_disk(Path(table.root)) | on_disk(outside_of(warehouse))
    needed = {path.removeprefix("file:") for path in referenced(warehouse)}
    needed = {f"/{path.lstrip('/')}" for path in needed}
    assert not needed - disk, f"files are missing: {sorted(needed - disk)}"
    left = disk - needed - _mentioned_by_changelogs(table, disk - needed)
    assert not left, f"files are left over: {sorted(left)}"


def _mentioned_by_changelogs(table: FileStoreTable, paths: set[str]) -> set[str]:
    """Files that the orphan job leaves to the expiry of changelogs, as Java's does."""
    names = {path.rsplit("/", 1)[-1]: path for path in paths}
    mentioned = Mentioned(table, NameSet.of(names))
    for reference in all_references(table):
        if reference.kind is RefKind.CHANGELOG:
            mentioned._reference(reference, Metadata(table))
    return {path for name, path in names.items() if name not in mentioned.candidates}


def _loses_its_tag(of: Pristine, what: Round) -> bool:
    """Whether Java deletes the tag of a branch that is complete, without a look at branches.

    The last two changes of A come once the branch is proven: it ends its lease.
    """
    late = what.k >= of.changes[what.a] - 2
    return late and (what.a, what.b) == ("create_branch", "java delete_tag")


def _hollowed_by_java(of: Pristine, what: Round) -> Callable[[Finding], bool]:
    """What Java breaks by itself, whether anybody else is at work or not.

    Its expiry takes no notice of other branches: after a fast-forward, main and the branch share snapshots,
    and expiry of either takes the files of the other's.  For the tags of a branch it goes by those
    of main.
    """
    if _loses_its_tag(of, what):
        return lambda f: f.branch == "c"
    if what.a == "rescale" and "write" in what.b:
        # Java's write-only writers do not look at the number of buckets that a partition has.
        return lambda f: f.problem is Problem.MIXED_BUCKETS
    lost = (Problem.MISSING_MANIFEST_LIST, Problem.MISSING_MANIFEST)
    if what.table == "changelog" and what.a == "rollback to a tag" and what.b in EXPIRES:
        # A snapshot that came back from a tag shares its changelog with the one that stands for it.
        return lambda f: f.problem in lost and "changelog" in str(f.reference)
    if what.b == "java expire of the branch":
        # Neither does it ask whether main keeps the changelog of a snapshot that both have.
        return lambda f: (
            f.branch == "b"
            or what.a == "fast_forward"
            or (what.table == "changelog" and f.problem in lost and "changelog" in str(f.reference))
        )
    if what.a == "fast_forward" and what.b in EXPIRES:
        return lambda f: f.branch == "b"
    return lambda _: False


def _check_versions(of: Pristine, what: Round, rows: Sequence[Sequence[Any]]) -> None:
    """The rows of main, without those of B, are those of a version that there was."""
    if {what.a, what.b} & {"drop_partition", "expire_partitions", "maintain"}:
        return
    if of.name in POSTPONED:
        return  # which rows show depends on what was compacted when
    own = tuple(sorted(str(r[1:]) for r in rows if r[1] not in (ACKNOWLEDGED, ACKNOWLEDGED - 1)))
    assert own in of.versions, f"main holds {own}, which is no version of it"


def rounds_of(
    of: Pristine, pairs: Sequence[tuple[str, str]], place: Path, *, leased: bool = True
) -> Iterator[Round]:
    """Every k of every pair."""
    for a, b in pairs:
        for k in range(count_changes(of, a, place)):
            yield Round(table=of.name, a=a, b=b, k=k, leased=leased)


def run_rounds(of: Pristine, pairs: Sequence[tuple[str, str]], oracle: Asked, place: Path) -> None:
    """Every round of the pairs; AssertionError if there is no round, or at the first that fails.

    Without CARETAKER_LONG=1, every other change of a pair, from the first or from the second on in turns.
    """
    rounds = list(rounds_of(of, pairs, place / "count"))
    if not LONG and len(rounds) > 1:
        turn = {pair: zlib.crc32(repr(pair).encode()) % 2 for pair in pairs}
        rounds = [r for r in rounds if r.k % 2 == turn[r.a, r.b]]
    assert rounds, f"nothing to do for any of {pairs}"
    for what in rounds:
        run_round(of, what, oracle, place / "round")


def sampled(rounds: Sequence[Round], count: int, seed: int) -> list[Round]:
    """So many of the rounds, the same for the same seed."""
    return random.Random(seed).sample(rounds, min(count, len(rounds)))
