"""Every maintenance job through every kind of catalog, while Java writes to the same table.

    ./caretaker python tests/crash/catalog_jobs.py [--kinds rest hive ...] [--cases compact ...] [--turn 1]

For each case of catalog_cases.py and each kind of catalog, Java creates and fills a table there, and the
job runs while Java commits.  Java 1.4.2 and 2.0.0 take turns; `--turn 1` exchanges them.  A job that
ends with a conflict runs again without a writer, as its message says.  Afterwards:

- the job succeeded, or refused the table by the name of the feature;
- Java and Caretaker read the same rows: those of before, as the job leaves them, and every
  acknowledged commit of the writer (a rollback may drop the oldest of these);
- verification finds no error, and Java reads every tag and branch;
- Java writes, compacts and reads;
- after the orphan job, the files on disk are those that are referenced.

Prints a table of all runs; the exit code is 1 if one of them failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER.parent / "conformance")]

from catalog_cases import CASES, Case, Java, Row  # noqa: E402 - after the path
from catalog_kinds import KINDS, catalog_of_kind  # noqa: E402
from disk import needed_by, on_disk  # noqa: E402

from oracle import VERSIONS, Oracle, OracleProcess  # noqa: E402
from paimon_core.errors import CommitConflict, StalePlan, UnsupportedFeature  # noqa: E402
from paimon_core.file_store_table import FileStoreTable  # noqa: E402
from paimon_core.reachability.references import all_references  # noqa: E402
from paimon_core.read.table_read import read_table  # noqa: E402
from paimon_maintenance.job.report import Report, Status  # noqa: E402
from paimon_maintenance.registry import job_named  # noqa: E402
from paimon_maintenance.run.request import RunRequest  # noqa: E402
from paimon_maintenance.run.runner import run_table  # noqa: E402
from paimon_maintenance.storage.catalogs import open_table_of  # noqa: E402
from paimon_maintenance.verify.check import check_table  # noqa: E402
from paimon_maintenance.verify.findings import Severity  # noqa: E402

FIRST_KEY, LATER = 1000, 5000
PAUSE_SECONDS = 0.05
WAIT_SECONDS = 60
REGISTERED = {"metastore.partitioned-table": "true"}
"""The option of tables whose partitions the catalog keeps, if it can."""


@dataclass(slots=True)
class Outcome:
    """What a run came to: `ended` is "done", "done after a conflict" or "refused"."""

    case: str
    kind: str
    java: str
    ended: str = ""
    commits: int = 0
    """How many commits of the writer were acknowledged."""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Writer:
    """A thread in which Java commits one row after the other, until `end`."""

    java: Oracle
    case: Case
    acknowledged: list[Row] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        for key in itertools.count(FIRST_KEY):
            row = [key, "beside", self.case.day(key)]
            (answer,) = self.java([{"op": "write", "rows": [row]}], check=False)
            if "error" in answer:
                self.errors.append(f"{row}: {answer['error'][:200]}")
            else:
                self.acknowledged.append(tuple(row))
            if self._over.wait(PAUSE_SECONDS):
                return

    def wait_for(self, count: int) -> None:
        """Wait until this many commits were tried."""
        until = time.monotonic() + WAIT_SECONDS
        while len(self.acknowledged) + len(self.errors) < count and self._thread.is_alive():
            assert time.monotonic() < until, "Java does not commit"
            time.sleep(0.02)

    def end(self) -> None:
        """Let the commit that is under way end."""
        self._over.set()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Place:
    """One table of a catalog, which the environment names `kind`."""

    kind: str
    database: str
    java: Java

    @property
    def warehouse(self) -> str:
        return f"catalog:{self.kind}"

    def table(self) -> FileStoreTable:
        return open_table_of(self.warehouse, f"{self.database}.t")

    def run(self, job: str, **arguments: object) -> Report:
        """The report of a job, which does not wait for other jobs."""
        definition = job_named(job)
        request = RunRequest(
            job=definition,
            warehouse=self.warehouse,
            table=f"{self.database}.t",
            arguments=definition.read_arguments(arguments),
            force=True,
        )
        return run_table(request)


def run_case(name: str, kind: str, oracle: Oracle, options: Mapping[str, str]) -> Outcome:
    """One case in a database of its own; `options` open the catalog that is called `kind`."""
    case, outcome = CASES[name], Outcome(name, kind, oracle.version)
    database = f"{name.replace(' ', '_')}_{oracle.version.replace('.', '')}"
    # A catalog of its own in Java: on SQLite, result sets that Java leaves open keep it from writing
    # after another process.
    fresh = {**options, "test.case": database}
    oracle.defaults(catalog=fresh, database=database, table="t")
    branch = oracle
    if kind.startswith("jdbc"):
        plain = {"metastore": "filesystem", "warehouse": options["warehouse"]}
        branch = oracle.copy(catalog=plain)
    place = Place(kind, database, Java(oracle, branch))
    oracle.one("create_database")
    registered = REGISTERED if kind in ("rest", "hive") else {}
    case.build(place.java, {**registered, **case.options})
    wanted = {row for row in _rows(place.java, case.rows_of) if not case.gone(row)}
    prepared = case.prepare(place.table(), place.run)
    writer = Writer(oracle, case)
    try:
        writer.wait_for(1)
        report = place.run(case.job, **case.arguments, **prepared)
        writer.wait_for(len(writer.acknowledged) + len(writer.errors) + 2)
    finally:
        writer.end()
    outcome.ended = "done"
    if isinstance(report.error, CommitConflict | StalePlan):
        outcome.ended = f"done after {type(report.error).__name__}"
        report = place.run(case.job, **case.arguments, **prepared)
    if case.then is not None:
        job, values = case.then
        place.run(job, **values)
    outcome.commits = len(writer.acknowledged)
    if kind in case.refused:
        outcome.ended = "refused"
        if not _is_refused(report, case.refused[kind]):
            outcome.problems.append(f"not refused: {report.error or report.status}")
        wanted = set(_rows(place.java, {})) - set(writer.acknowledged)
    elif report.status is not Status.SUCCESS:
        outcome.problems.append(f"{report.status}: {report.error!r} {report.plan_lines}")
    if writer.errors and not case.drops:
        outcome.problems.append(f"Java: {writer.errors[:3]}")
    outcome.problems += _disagreements(case, place, wanted, writer)
    return outcome


def _is_refused(report: Report, text: str) -> bool:
    return isinstance(report.error, UnsupportedFeature) and text in str(report.error)


def _disagreements(case: Case, place: Place, wanted: set[Row], writer: Writer) -> list[str]:
    problems = []
    table, java = place.table(), place.java
    found = [f.line() for f in check_table(table).findings if f.severity is Severity.ERROR]
    problems += [f"verify: {line}" for line in found[:3]]
    rows = _rows(java, {})
    if len(set(rows)) != len(rows):
        problems.append("rows are doubled")
    if sorted(rows) != _our_rows(table):
        problems.append("Java and Caretaker read other rows")
    kept = [row for row in writer.acknowledged if row in rows]
    lost = [row for row in writer.acknowledged if row not in rows]
    if lost and not (case.drops and kept == writer.acknowledged[len(lost) :]):
        problems.append(f"lost: {lost} of {writer.acknowledged}")
    rest = set(rows) - set(writer.acknowledged)
    if rest != wanted:
        problems.append(f"rows: more {rest - wanted}, fewer {wanted - rest}")
    problems += _unregistered(place, table, rows)
    for tag in table.tags.names():
        _rows(java, {"tag": tag})
    for name in table.branches.names():
        _rows(java, {"branch": name})
    later = (LATER, "later", case.day(LATER))
    java.table.one("write", rows=[list(later)])
    java.table.one("compact", full=True)
    if set(_rows(java, {})) != {*rows, later}:
        problems.append("Java does not go on")
    return problems + _misplaced(place)


def _misplaced(place: Place) -> list[str]:
    """Files that are missing, or that the orphan job leaves."""
    time.sleep(0.002)
    now = str(time.time_ns() // 1_000_000)
    report = place.run("remove_orphan_files", older_than=now, allow_young=True, mode="delete")
    if report.error is not None:
        return [f"remove_orphan_files: {report.error!r}"]
    table = place.table()
    there, needed = on_disk(Path(table.root)), needed_by(table, all_references(table))
    if there == needed:
        return []
    return [f"files missing {needed - there}, left over {there - needed}"]


def _unregistered(place: Place, table: FileStoreTable, rows: Sequence[Row]) -> list[str]:
    """Differences between the partitions with rows and those that the catalog keeps.

    It may also keep partitions of branches.
    """
    if table.partition_registry is None:
        return []
    kept = {spec["dt"] for spec in table.partition_registry.specs()}
    live = {row[2] for row in rows}
    branches = table.branches.names()
    also = {row[2] for name in branches for row in _rows(place.java, {"branch": name})}
    if live <= kept <= live | also:
        return []
    return [f"partitions of the catalog {kept}, of the table {live}"]


def _rows(java: Java, version: Mapping[str, object]) -> list[Row]:
    client = java.branch if "branch" in version else java.table
    return [tuple(row[1:]) for row in client.rows(**version)]


def _our_rows(table: FileStoreTable) -> list[Row]:
    batches = read_table(table, table.latest_or_not_found(), columns=["id", "v", "dt"])
    return sorted((row["id"], row["v"], row["dt"]) for b in batches for row in b.to_pylist())


def main() -> int:
    """1 if a run failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--turn", type=int, default=0, help="which version of Java begins")
    arguments = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    outcomes: list[Outcome] = []
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="catalog-jobs-")))
        catalogs = {
            kind: opened.enter_context(catalog_of_kind(kind, folder / kind))
            for kind in arguments.kinds
        }
        os.environ["CARETAKER_CATALOGS"] = json.dumps(catalogs)
        processes = [OracleProcess(version, hive="hive" in catalogs) for version in VERSIONS]
        for process in processes:
            opened.callback(process.close)
        for number, name in enumerate(arguments.cases):
            for shift, (kind, options) in enumerate(catalogs.items()):
                process = processes[(number + shift + arguments.turn) % len(processes)]
                outcomes.append(_guarded(name, kind, Oracle(process), options))
                print(_line(outcomes[-1]), flush=True)
    _print_table(outcomes, arguments.kinds)
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    commits = sum(outcome.commits for outcome in outcomes)
    ended = dict(Counter(outcome.ended for outcome in outcomes))
    print(
        f"\n{len(outcomes)} runs, {failed} failed; {commits} commits of Java beside them; {ended}"
    )
    return 1 if failed else 0


def _guarded(name: str, kind: str, oracle: Oracle, options: Mapping[str, str]) -> Outcome:
    try:
        return run_case(name, kind, oracle, options)
    except Exception as e:  # noqa: BLE001 - the other runs go on
        lines = traceback.format_exception(e)
        return Outcome(name, kind, oracle.version, problems=["".join(lines)[-1500:]])


def _line(outcome: Outcome) -> str:
    text = "; ".join(outcome.problems) or outcome.ended
    state = "FAILED" if outcome.problems else "ok"
    return (
        f"{state} {outcome.kind}: {outcome.case} beside Java {outcome.java}, "
        f"{outcome.commits} commits: {text}"
    )


def _print_table(outcomes: Sequence[Outcome], kinds: Sequence[str]) -> None:
    by_place = {(o.case, o.kind): o for o in outcomes}
    print(f"\n| job | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for case in dict.fromkeys(o.case for o in outcomes):
        cells = (by_place[case, kind] for kind in kinds)
        texts = ("FAILED" if o.problems else f"{o.ended}, {o.commits}" for o in cells)
        print(f"| `{case}` | {' | '.join(texts)} |")


if __name__ == "__main__":
    sys.exit(main())
