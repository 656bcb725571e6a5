"""What sorting does to a table, beside other commits, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from disk import assert_whole
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.clustering import rewrite
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.write.external_sort import sorted_rows
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import UnitResult, WorkUnit, run_unit
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table

JOB = job_named("sort_compact")
SCHEMA = pa.schema([("x", pa.int32()), ("y", pa.int64()), ("s", pa.string()), ("dt", pa.string())])


class Plane(Lake):
    """A table of points with texts in two days; every file spans the whole plane."""

    def __init__(self, warehouse: Path, **options: str) -> None:
        super().__init__(warehouse)
        catalog = FileSystemCatalog(str(warehouse))
        catalog.create_database("db")
        columns = [
            Column("x", "INT"),
            Column("y", "BIGINT"),
            Column("s", "STRING"),
            Column("dt", "STRING NOT NULL"),
        ]
        told = {"bucket": "-1", "write-only": "true", "target-file-size": "4 kb", **options}
        schema = create_schema(
            columns, now_millis=ENV.now_millis(), partition_keys=["dt"], options=told
        )
        catalog.create_table("db.t", schema)

    def scatter(self, commits: int = 4, rows: int = 4000) -> None:
        for number in range(commits):
            ids = [i * commits + number for i in range(rows)]
            self.write(
                [
                    (
                        None if i % 97 == 0 else i * 7919 % 1009,
                        i * 104729 % 1013,
                        f"text {i * 31 % 500:03} " + "x" * 20,
                        f"day{i % 2}",
                    )
                    for i in ids
                ]
            )

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)
        ]
        writer = RowWriter(self.table(), env=ENV)
        writer.write(pa.Table.from_arrays(columns, schema=SCHEMA))
        commit(self.table(), writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    found = Plane(tmp_path)
    found.scatter()
    return found


def request(lake: Lake, **arguments: object) -> RunRequest:
    return RunRequest(
        job=JOB,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=JOB.read_arguments(arguments),
    )


def sort(lake: Lake, services: RunServices | None = None, **arguments: object) -> Report:
    return run_table(request(lake, **arguments), services)


def rows(table: FileStoreTable) -> list[str]:
    batches = read_table(table, table.latest_or_not_found(), columns=table.schema.names)
    return sorted(
        str(tuple(r[n] for n in table.schema.names)) for b in batches for r in b.to_pylist()
    )


class Shuffling(LocalEngine):
    """Brings rows together as Spark does, in this process."""

    __slots__ = ()

    def run_shuffle(
        self,
        units: list[WorkUnit],
        split: Callable[[bytes], Iterator[tuple[int, bytes]]],
        join: Callable[[int, Iterator[bytes]], bytes],
        *,
        ranges: int,
    ) -> list[UnitResult]:
        chunks: dict[int, list[bytes]] = {}
        for unit in units:
            for number, chunk in split(unit.payload):
                assert 0 <= number < ranges
                chunks.setdefault(number, []).append(chunk)
        return [run_unit(n, b"", lambda _, n=n: join(n, iter(chunks[n]))) for n in sorted(chunks)]


@pytest.mark.parametrize("engine", [LocalEngine(), Shuffling()], ids=["whole", "ranges"])
@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
def test_rows_stay_and_queries_read_less(plane: Plane, strategy: str, engine: LocalEngine) -> None:
    before = rows(plane.table())
    report = sort(
        plane,
        RunServices(engine=engine),
        order_strategy=strategy,
        order_by=["x", "y"],
        range_bytes="4 kb",
    )
    assert report.error is None, report.error
    table = plane.table()
    assert rows(table) == before
    (snapshot,) = report.snapshots
    assert table.snapshots.get(snapshot).commit_kind == "COMPACT"
    assert table.snapshots.get(snapshot).delta_record_count == 0
    assert report.before.rows == report.after.rows == 16_000
    assert plane.on_disk() == plane.referenced()
    assert_whole(plane.warehouse)
    shares = {}
    for column in ("x", "y"):
        cost: Any = report.details[f"range_query_on_{column}"]
        assert cost["before"]["files"] > 0.9 * cost["before"]["total_files"]
        shares[column] = cost["after"]["files"] / cost["after"]["total_files"]
    if strategy == "order":
        assert shares["x"] < 0.45
        assert shares["y"] > 0.8
    else:
        assert shares["x"] < 0.7
        assert shares["y"] < 0.7


def test_the_query_cost_covers_all_batches(plane: Plane) -> None:
    report = sort(plane, order_by=["x"], order_strategy="order", batch_bytes="1 kb")
    assert report.error is None, report.error
    assert len(report.snapshots) > 1
    cost: Any = report.details["range_query_on_x"]
    assert cost["before"]["total_files"] == report.before.files
    assert cost["after"]["total_bytes"] == report.after.bytes


@pytest.mark.parametrize("memory", [None, 100_000])
def test_order_is_exact(plane: Plane, memory: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if memory is not None:
        monkeypatch.setattr(rewrite, "sorted_rows", partial(sorted_rows, memory_bytes=memory))
    assert sort(plane, order_by=["s", "y"], order_strategy="order").error is None
    table = plane.table()
    latest = table.latest_or_not_found()
    for day in ("day0", "day1"):
        found: list[tuple[Any, ...]] = []
        files = [
            e
            for e in scan_files(table, latest)
            if table.paths.partition_path(e.partition) == f"dt={day}"
        ]
        # Files of one writer are numbered in the order of their rows.
        for entry in sorted(files, key=lambda e: e.file.min_sequence_number):
            path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
            found += [(r["s"], r["y"]) for r in pa.parquet.read_table(path).to_pylist()]
        assert found == sorted(found)
        assert len(found) == 8000


def test_the_table_says_how(tmp_path: Path) -> None:
    lake = Plane(
        tmp_path, **{"clustering.columns": "y", "sort-compaction.range-strategy": "quantity"}
    )
    lake.scatter(2)
    plan = plan_table(request(lake, partitions=["dt=day1"])).to_json()
    assert (plan["order_strategy"], plan["order_by"]) == ("order", ["y"])
    assert [p["partition"] for p in plan["partitions"]] == ["dt=day1"]
    many = plan_table(request(lake, order_by=["x", "y", "s"])).to_json()
    assert many["order_strategy"] == "zorder"
    engine = Shuffling()
    assert sort(lake, RunServices(engine=engine), range_bytes="3 kb").error is None
    assert_whole(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "--order-by is required"),
        ({"order_by": ["dt"]}, "has no effect"),
        ({"order_by": ["nothing"]}, "no column nothing"),
        ({"order_by": ["x", "x"]}, "twice"),
        ({"order_by": ["x"], "order_strategy": "hilbert"}, "2 to 7 columns"),
        (
            {"order_by": ["x"], "options": {"sort-compaction.local-sample.magnification": "5"}},
            "too small",
        ),
        (
            {"order_by": ["x"], "options": {"sort-compaction.range-strategy": "luck"}},
            "neither size nor quantity",
        ),
    ],
)
def test_what_cannot_be(plane: Plane, arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        plan_table(request(plane, **arguments))


def test_refused_by_name(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    with pytest.raises(UnsupportedFeature, match=r"bucket=1 \(fixed buckets\)"):
        plan_table(request(lake, order_by=["v"]))


class Interfering(LocalEngine):
    """Lets somebody else commit once the units have run."""

    __slots__ = ("_interfere",)

    def __init__(self, interfere: Callable[[], object]) -> None:
        super().__init__()
        object.__setattr__(self, "_interfere", interfere)

    def run_units(self, *args: Any, **kwargs: Any) -> Any:
        results = super().run_units(*args, **kwargs)
        self._interfere()  # type: ignore[attr-defined] # set above, past the frozen class
        return results


def test_a_concurrent_append_survives(plane: Plane) -> None:
    late = (5, 5, "late", "day1")
    engine = Interfering(lambda: plane.write([late]))
    before = rows(plane.table())
    report = sort(plane, RunServices(engine=engine), order_by=["x", "y"])
    assert report.error is None, report.error
    assert rows(plane.table()) == sorted([*before, str(late)])
    assert_whole(plane.warehouse)


def test_a_concurrent_compaction_leaves_its_partition_alone(plane: Plane) -> None:
    compact = job_named("compact")

    def others() -> None:
        arguments = {"partitions": ["dt=day1"], "options": {"target-file-size": "1 mb"}}
        report = run_table(
            RunRequest(
                job=compact,
                warehouse=str(plane.warehouse),
                table="db.t",
                arguments=compact.read_arguments(
                    {
                        **arguments,
                        "options": {"compaction.min.file-num": "2", **arguments["options"]},
                    }
                ),
            )
        )
        assert report.status is Status.SUCCESS, report.error

    before = rows(plane.table())
    report = sort(plane, RunServices(engine=Interfering(others)), order_by=["x", "y"])
    assert isinstance(report.error, CommitConflict)
    assert [b.partition for b in report.buckets] == ["dt=day0"]
    assert rows(plane.table()) == before
    assert plane.on_disk() == plane.referenced(), "what was not committed is deleted again"
    assert_whole(plane.warehouse)
    assert sort(plane, order_by=["x", "y"]).error is None


def test_a_partition_that_fails_stays(plane: Plane) -> None:
    table = plane.table()
    broken = next(Path(table.root).glob("dt=day0/bucket-0/*"))
    content = broken.read_bytes()
    broken.write_bytes(b"x" * len(content))
    report = sort(plane, order_by=["x", "y"])
    assert report.error is not None
    assert [f.label for f in report.failed_units] == ["dt=day0"]
    assert [b.partition for b in report.buckets] == ["dt=day1"]
    broken.write_bytes(content)
    assert plane.on_disk() == plane.referenced()


INCREMENTAL = {
    "clustering.incremental": "true",
    "clustering.columns": "x,y",
    "num-sorted-run.compaction-trigger": "3",
    "target-file-size": "1 mb",
}


def levels(lake: Lake) -> dict[str, list[int]]:
    table = lake.table()
    found: dict[str, list[int]] = {"day0": [], "day1": []}
    for entry in scan_files(table, table.latest_or_not_found()):
        found[table.paths.partition_path(entry.partition)[-4:]].append(entry.file.level)
    return {day: sorted(of_day) for day, of_day in found.items()}


def test_incremental_clustering_sorts_what_is_due(tmp_path: Path) -> None:
    lake = Plane(tmp_path, **INCREMENTAL)

    def more(commits: int, rows: int = 6000) -> None:
        for i in range(commits):
            lake.write([(n * 7919 % 500, n + i, "s", f"day{n % 2}") for n in range(rows)])

    more(2)
    assert sort(lake).status is Status.NOTHING_TO_DO
    with pytest.raises(InvalidArgument, match="its options say"):
        plan_table(request(lake, order_by=["x"]))
    compact = job_named("compact")
    refused = run_table(
        RunRequest(
            job=compact,
            warehouse=str(tmp_path),
            table="db.t",
            arguments=compact.read_arguments({}),
        )
    )
    assert "clustering.incremental" in str(refused.error)
    # The third run triggers it: all runs are picked, to the top level (3).
    more(1)
    before = rows(lake.table())
    assert sort(lake, partitions=["dt=day1"]).error is None
    assert levels(lake) == {"day0": [0, 0, 0], "day1": [3]}
    assert sort(lake, partitions=["dt=day1"], strategy="full").status is Status.NOTHING_TO_DO
    assert sort(lake, strategy="full").error is None
    assert levels(lake) == {"day0": [3], "day1": [3]}
    assert rows(lake.table()) == before
    # Small runs beside a large one are sorted together, below it.
    more(3, rows=20)
    assert sort(lake).error is None
    assert levels(lake) == {"day0": [2, 3], "day1": [2, 3]}
    assert_whole(tmp_path)
    # Sorted by other columns: not sorted any more.
    assert sort(lake, strategy="full").error is None
    catalog = FileSystemCatalog(str(tmp_path))
    change = {"change": "set_option", "key": "clustering.columns", "value": "y"}
    catalog.alter_table("db.t", [change], now_millis=ENV.now_millis())
    assert sort(lake, strategy="full").error is None
    assert sort(lake, strategy="full").status is Status.NOTHING_TO_DO


def test_idle_partitions_are_sorted_beside_the_chosen(tmp_path: Path) -> None:
    lake = Plane(
        tmp_path, **INCREMENTAL, **{"clustering.history-partition.idle-to-full-sort": "1 ms"}
    )
    lake.scatter(2, rows=100)
    assert sort(lake).status is Status.NOTHING_TO_DO
    assert sort(lake, partitions=["dt=day1"]).error is None
    assert levels(lake) == {"day0": [3], "day1": [0]}
