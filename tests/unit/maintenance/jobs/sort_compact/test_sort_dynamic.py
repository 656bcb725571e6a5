"""Tables with dynamic buckets: like rows share a bucket, and keys stay findable."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from disk import assert_whole
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

JOB = job_named("sort_compact")


@pytest.fixture
def lake(lake: Lake) -> Lake:
    options = {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "50"}
    lake.create(partitioned=True, options=options)
    for commit_number in range(3):
        write(lake, commit_number)
    return lake


def write(lake: Lake, number: int, keys: range = range(300)) -> None:
    """Every other commit changes every other key; values say nothing of keys."""
    chosen = [k for k in keys if number == 0 or k % (number + 1) == 0]
    lake.append(
        {
            "k": chosen,
            "v": [f"{k * 7919 % 1000:04}-{number}" for k in chosen],
            "dt": [f"day{k % 2}" for k in chosen],
        }
    )


def sort(lake: Lake, engine: LocalEngine | None = None, **arguments: object) -> Report:
    request = RunRequest(
        job=JOB,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=JOB.read_arguments(
            {
                "order_by": ["v"],
                "order_strategy": "order",
                "writers_stopped": True,
                **arguments,
            }
        ),
    )
    return run_table(request, RunServices(engine=engine or LocalEngine()))


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    table = lake.table()
    batches = read_table(table, table.latest_or_not_found())
    return sorted((r["k"], r["v"], r["dt"]) for b in batches for r in b.to_pylist())


def buckets(lake: Lake) -> dict[tuple[str, int], list[str]]:
    """(partition, bucket) -> its values, in order."""
    table = lake.table()
    found: dict[tuple[str, int], list[str]] = {}
    for entry in scan_files(table, table.latest_or_not_found()):
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        key = (table.paths.partition_path(entry.partition), entry.bucket)
        values = pa.parquet.read_table(path).column("v").to_pylist()
        found[key] = sorted([*found.get(key, []), *values])
    return found


def test_like_rows_share_a_bucket(lake: Lake) -> None:
    before = rows(lake)
    report = sort(lake)
    assert report.error is None, report.error
    assert len(report.snapshots) == 2
    # Before, each bucket has several runs: one file that may hold the value, and all are merged.
    cost: Any = report.details["range_query_on_v"]
    assert cost["before"]["total_files"] == report.before.files
    assert cost["before"]["files"] > 0.7 * report.before.files
    assert cost["after"]["total_files"] == report.after.files == 6
    assert cost["after"]["files"] < 3
    assert rows(lake) == before
    found = buckets(lake)
    for day in ("dt=day0", "dt=day1"):
        ranges = [(v[0], v[-1], len(v)) for (d, _), v in sorted(found.items()) if d == day]
        assert [n for *_, n in ranges] == [50, 50, 50]
        assert all(a[1] < b[0] for a, b in pairwise(ranges))
    levels = {e.file.level for e in scan_files(lake.table(), lake.table().latest_or_not_found())}
    assert levels == {5}
    assert_whole(lake.warehouse)
    # The new index knows every key: none comes twice, and a new one finds room.
    write(lake, 3)
    lake.append({"k": [1000], "v": ["new"], "dt": ["day0"]})
    after = rows(lake)
    assert len(after) == len(before) + 1
    assert len({(k, dt) for k, _, dt in after}) == len(after)
    assert sort(lake).error is None
    assert rows(lake) == after
    assert_whole(lake.warehouse)


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


def commit_late(lake: Lake, day: str) -> None:
    table = lake.table()
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([0], pa.int32()), "v": ["late"], "dt": [day]}))
    commit(table, writer.prepare_commit(), user="late", env=ENV)


def test_running_writers_are_ruled_out_by_name(lake: Lake) -> None:
    report = sort(lake, writers_stopped=False)
    assert isinstance(report.error, InvalidArgument)
    assert "--writers-stopped" in report.error.message
    assert "stop all writers" in report.error.next_step
    assert lake.table().snapshots.latest_id() == 3


@pytest.mark.parametrize("day", ["day0", "day1", "day2"])
def test_a_commit_of_somebody_else_stops_the_sort(lake: Lake, day: str) -> None:
    """Also one to another partition: it proves that a writer is open."""
    before = buckets(lake)
    report = sort(lake, Interfering(lambda: commit_late(lake, day)))
    assert isinstance(report.error, CommitConflict)
    assert "committed by late" in report.error.message
    assert report.buckets == ()
    table = lake.table()
    assert [s.commit_user for s in table.snapshots.all()][3:] == ["late"]
    after = buckets(lake)
    changed = {key for key in after if after[key] != before.get(key)}
    assert {d for d, _ in changed} == {f"dt={day}"}
    assert lake.on_disk() == lake.referenced()
    assert_whole(lake.warehouse)
    expected = rows(lake)
    assert sort(lake).error is None
    assert rows(lake) == expected


def test_a_commit_between_two_batches_stops_the_rest(lake: Lake) -> None:
    days = iter(["", "day0"])

    def in_the_second() -> None:
        if day := next(days):
            commit_late(lake, day)

    report = sort(lake, Interfering(in_the_second), batch_bytes="1 b")
    assert isinstance(report.error, CommitConflict)
    assert {b.partition for b in report.buckets} == {"dt=day0"}
    assert len(report.snapshots) == 1
    assert "caretaker verify" in report.error.next_step
    assert lake.on_disk() == lake.referenced()
