"""What a rescale does to a table, and when it does nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from disk import assert_whole
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.commit.overwrite import overwrite
from paimon_core.errors import (
    CommitConflict,
    InvalidArgument,
    PaimonError,
    SchemaError,
    StalePlan,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.rescale import bucket_stage
from paimon_core.rescale import rewrite as rewriting
from paimon_core.scan.scan import scan_files
from paimon_core.schema.store import SchemaStore
from paimon_core.types.row_hash import assign_buckets
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.jobs.rescale import execute as execution
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table

RESCALE = job_named("rescale")
SHUFFLES = [(5, 10), (6, 4), (5, 7), (1, 9)]


def request(lake: Lake, **arguments: object) -> RunRequest:
    return RunRequest(
        job=RESCALE,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=RESCALE.read_arguments(arguments),
    )


def rescale(lake: Lake, services: RunServices | None = None, **arguments: object) -> Report:
    return run_table(request(lake, **arguments), services)


def rescale_once(lake: Lake, services: RunServices, **arguments: object) -> Report:
    """As `rescale`, but a conflict ends it."""
    return run_table(replace(request(lake, **arguments), max_attempts=1), services)


def rows(table: FileStoreTable) -> list[tuple[Any, ...]]:
    batches = read_table(table, table.latest_or_not_found())
    return sorted(tuple(r[n] for n in table.schema.names) for b in batches for r in b.to_pylist())


def layout(table: FileStoreTable) -> dict[str, set[int]]:
    """Partition -> the numbers of buckets that its files were written for."""
    found: dict[str, set[int]] = defaultdict(set)
    for entry in scan_files(table, table.latest_or_not_found()):
        found[table.paths.partition_path(entry.partition)].add(entry.total_buckets)
    return dict(found)


def buckets_option(lake: Lake) -> str:
    return str(lake.table().options["bucket"])


def assert_in_their_buckets(table: FileStoreTable, total: int) -> None:
    """Every row lies in the bucket that its key hashes to."""
    latest = table.latest_or_not_found()
    for entry in scan_files(table, latest):
        assert entry.total_buckets == total
        assert 0 <= entry.bucket < total
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        keys = pa.parquet.read_table(path).column("k")
        types = table.schema.row_type.project(["k"]).types
        assert set(assign_buckets([keys], types, total).tolist()) == {entry.bucket}


@pytest.mark.sampled
@pytest.mark.parametrize("path", ["direct", "spilled", "bucket by bucket", "sliced"])
@pytest.mark.parametrize(("old", "new"), SHUFFLES)
@pytest.mark.parametrize("primary_key", [True, False])
def test_rows_stay_and_lie_where_they_belong(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    old: int,
    new: int,
    path: str,
    *,
    primary_key: bool,
) -> None:
    options = {"bucket": str(old), "write-only": "true"}
    lake.create(
        primary_key=primary_key, options=options if primary_key else {**options, "bucket-key": "k"}
    )
    lake.fill(4, rows=60)
    before = rows(lake.table())
    arguments: dict[str, object] = {"bucket_num": new}
    services = RunServices()
    if path == "spilled":
        monkeypatch.setattr(rewriting, "MOST_OPEN_WRITERS", 0)
        monkeypatch.setattr(rewriting, "MOST_STAGED_BUCKETS", 2)
        monkeypatch.setattr(bucket_stage, "PIECE_BYTES", 1)
    if path == "bucket by bucket":
        monkeypatch.setattr(rewriting, "READING_SHARE", 0)
    if path == "sliced":
        arguments["slice_bytes"] = "2 kb"
        services = RunServices(engine=LocalEngine(threads=2))
    report = rescale(lake, services, **arguments)
    assert report.error is None, report.error
    table = lake.table()
    assert buckets_option(lake) == str(new)
    assert rows(table) == before
    assert_in_their_buckets(table, new)
    assert_whole(lake.warehouse)
    assert rescale(lake, bucket_num=new).status is Status.NOTHING_TO_DO
    lake.append({"k": [3, 1000], "v": ["later", "new"]})
    after = rows(lake.table())
    assert (3, "later") in after
    assert len(after) == len(before) + (1 if primary_key else 2)


@pytest.mark.parametrize("cut", ["0", "2 kb"])
def test_an_append_buckets_rows_keep_their_order(lake: Lake, cut: str) -> None:
    lake.create(primary_key=False, options={"bucket": "3", "bucket-key": "k", "write-only": "true"})
    for i in range(6):
        lake.append({"k": [*range(8)] * 2, "v": [f"{i:02}-{n:02}" for n in range(16)]})
    services = RunServices(engine=LocalEngine(threads=2))
    assert rescale(lake, services, bucket_num=6, slice_bytes=cut).error is None
    table = lake.table()
    by_key: dict[int, list[str]] = defaultdict(list)
    for batch in read_table(table, table.latest_or_not_found()):
        for row in batch.to_pylist():
            by_key[row["k"]].append(row["v"])
    assert all(len(v) == 12 and v == sorted(v) for v in by_key.values())
    assert len(by_key) == 8


def test_partition_by_partition(lake: Lake) -> None:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    before = rows(lake.table())
    report = rescale(lake, bucket_num=4, partitions=["dt=day1"])
    assert report.error is None, report.error
    assert layout(lake.table()) == {"dt=day0": {2}, "dt=day1": {4}}
    assert rows(lake.table()) == before
    described = "\n".join(plan_table(request(lake, bucket_num=4, partitions=["dt=day1"])).lines())
    assert "1 with 2 buckets, 1 with 4 buckets" in described
    assert "writers are refused there" in described
    with pytest.raises(InvalidArgument, match=r"new bucket num 4.*previous bucket num is 2"):
        lake.append({"k": [1], "v": ["x"], "dt": ["day0"]})
    lake.append({"k": [100], "v": ["x"], "dt": ["day1"]})
    # No number: what the option says.  It goes on where it stopped, with the first run's tag.
    report = rescale(lake)
    assert report.error is None, report.error
    assert "safety_tag" not in report.details
    assert layout(lake.table()) == {"dt=day0": {4}, "dt=day1": {4}}
    assert rows(lake.table()) == sorted([*before, (100, "x", "day1")])
    (tag,) = lake.table().tags.all()
    assert tag.name.startswith("before-rescale-3-to-4-")
    assert tag.time_retained == 7 * 86_400 * 10**9
    assert layout_of_tag(lake) == {2}
    assert_whole(lake.warehouse)


def layout_of_tag(lake: Lake) -> set[int]:
    (tag,) = lake.table().tags.all()
    return {e.total_buckets for e in scan_files(lake.table(), tag.snapshot)}


def test_restore_goes_back(lake: Lake) -> None:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    before = rows(lake.table())
    with pytest.raises(InvalidArgument, match="nothing to restore"):
        plan_table(request(lake, restore=True))
    with pytest.raises(InvalidArgument, match="no partition"):
        plan_table(request(lake, bucket_num=3, partitions=["dt=day7"]))
    assert rescale(lake, bucket_num=3, partitions=["dt=day1"], safety_tag="0").error is None
    assert not lake.table().tags.all()
    report = rescale(lake, restore=True)
    assert report.error is None, report.error
    assert buckets_option(lake) == "2"
    assert layout(lake.table()) == {"dt=day0": {2}, "dt=day1": {2}}
    assert rows(lake.table()) == before
    # Given again it undoes nothing; of two changes it undoes one.
    assert rescale(lake, restore=True).status is Status.NOTHING_TO_DO
    for number in (3, 4):
        assert rescale(lake, bucket_num=number, safety_tag="0").error is None
    for status in (Status.SUCCESS, Status.NOTHING_TO_DO):
        assert rescale(lake, restore=True).status is status
        assert buckets_option(lake) == "3"
    assert rows(lake.table()) == before


def test_a_number_from_sizes(lake: Lake) -> None:
    lake.primary_key(buckets=2)
    lake.fill()
    size = sum(
        e.file.file_size for e in scan_files(lake.table(), lake.table().latest_or_not_found())
    )
    plan = plan_table(request(lake, target_bytes=f"{size // 5} b"))
    assert plan.to_json()["buckets"] in (5, 6)
    two = {"target_bytes": "1 mb", "bucket_num": 3}
    for wrong in (two, {"bucket_num": 0}, {"bucket_num": -1}, {"bucket_num": 2**31}):
        with pytest.raises(InvalidArgument):
            plan_table(request(lake, **wrong))


def test_an_empty_table_gets_the_option_only(lake: Lake) -> None:
    lake.primary_key(buckets=2)
    assert rescale(lake, bucket_num=5).status is Status.SUCCESS
    assert buckets_option(lake) == "5"
    assert rescale(lake).status is Status.NOTHING_TO_DO


def test_refused_by_name(lake: Lake) -> None:
    lake.log()
    with pytest.raises(UnsupportedFeature, match=r"bucket=-1 \(unaware buckets\)"):
        plan_table(request(lake, bucket_num=2))


def test_changes_that_no_changelog_tells_are_not_swallowed(lake: Lake) -> None:
    lake.primary_key(buckets=1, changelog__producer="lookup")
    lake.append({"k": [1], "v": ["a"]})
    with pytest.raises(SchemaError, match="not in the changelog yet") as refused:
        plan_table(request(lake, bucket_num=2))
    assert "compact" in refused.value.next_step


class Interfering(LocalEngine):
    """Lets somebody else commit once the units have run."""

    __slots__ = ("_interfere",)

    def __init__(self, interfere: Callable[[], None]) -> None:
        super().__init__()
        object.__setattr__(self, "_interfere", interfere)

    def run_units(self, *args: Any, **kwargs: Any) -> Any:
        results = super().run_units(*args, **kwargs)
        self._interfere()  # type: ignore[attr-defined] # set above, past the frozen class
        return results


def old_writer(lake: Lake, table: FileStoreTable, day: str) -> None:
    """A commit by a writer that was open before the option changed."""
    writer = RowWriter(table, env=ENV)
    row = {"k": pa.array([1], pa.int32()), "v": ["late"], "dt": [day]}
    writer.write(pa.table({name: row[name] for name in table.schema.names}))
    commit(table, writer.prepare_commit(), user="late", env=ENV)


def test_a_concurrent_commit_aborts_it_and_the_option_goes_back(lake: Lake) -> None:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    stale = lake.table()
    engine = Interfering(lambda: old_writer(lake, stale, "day1"))
    files = lake.on_disk()
    report = rescale_once(lake, RunServices(engine=engine), bucket_num=4, partitions=["dt=day1"])
    assert isinstance(report.error, CommitConflict)
    assert report.snapshots == ()
    assert buckets_option(lake) == "2"
    assert layout(lake.table()) == {"dt=day0": {2}, "dt=day1": {2}}
    assert (1, "late", "day1") in rows(lake.table())
    assert len(lake.on_disk() - files) == 1, "the new files are deleted again"
    assert rescale(lake, bucket_num=4).error is None
    assert (1, "late", "day1") in rows(lake.table())


def test_a_new_partition_with_the_new_number_does_not_keep_the_option(lake: Lake) -> None:
    """A writer that starts during the run writes a new day with it; all other days want the old."""
    lake.primary_key(buckets=1, partitioned=True)
    lake.fill()
    stale = lake.table()

    def both() -> None:
        old_writer(lake, lake.table(), "day2")
        for day in ("day0", "day1"):
            old_writer(lake, stale, day)

    report = rescale_once(lake, RunServices(engine=Interfering(both)), bucket_num=3)
    assert isinstance(report.error, CommitConflict)
    assert report.snapshots == ()
    assert layout(lake.table()) == {"dt=day0": {1}, "dt=day1": {1}, "dt=day2": {3}}
    assert buckets_option(lake) == "1"
    lake.append({"k": [5], "v": ["again"], "dt": ["day0"]})


def test_the_option_stays_where_another_run_relies_on_it(lake: Lake) -> None:
    lake.primary_key(buckets=1, partitioned=True)
    lake.fill()

    def other() -> None:
        assert rescale(lake).error is None

    report = rescale_once(lake, RunServices(engine=Interfering(other)), bucket_num=3)
    assert isinstance(report.error, CommitConflict)
    assert layout(lake.table()) == {"dt=day0": {3}, "dt=day1": {3}}
    assert buckets_option(lake) == "3"
    assert "the option bucket of the table is 3 now" in report.error.next_step


def test_nothing_is_rewritten_under_an_option_that_went_back(lake: Lake) -> None:
    lake.primary_key(buckets=1)
    lake.fill()

    def other() -> None:
        assert rescale(lake, restore=True).error is None

    report = rescale(lake, RunServices(engine=Interfering(other)), bucket_num=3)
    assert isinstance(report.error, StalePlan)
    assert buckets_option(lake) == "1"
    assert layout(lake.table()) == {"": {1}}
    assert lake.on_disk() == lake.referenced()


def test_an_option_that_cannot_be_put_back_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.primary_key(buckets=1)
    lake.fill()
    stale = lake.table()

    def full() -> None:
        old_writer(lake, stale, "")
        monkeypatch.setattr(SchemaStore, "commit_new", refuse)

    def refuse(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    report = rescale_once(lake, RunServices(engine=Interfering(full)), bucket_num=3)
    assert isinstance(report.error, CommitConflict)
    assert "bucket of the table is 3 now (it could not be put back" in report.error.next_step
    assert "--restore" in report.error.next_step


def test_other_partitions_are_rescaled_all_the_same(lake: Lake) -> None:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    stale = lake.table()
    engine = Interfering(lambda: old_writer(lake, stale, "day1"))
    report = rescale_once(lake, RunServices(engine=engine), bucket_num=4)
    assert isinstance(report.error, CommitConflict)
    assert len(report.snapshots) == 1
    assert buckets_option(lake) == "4"
    assert layout(lake.table()) == {"dt=day0": {4}, "dt=day1": {2}}
    assert rescale(lake).error is None
    assert layout(lake.table()) == {"dt=day0": {4}, "dt=day1": {4}}
    assert (1, "late", "day1") in rows(lake.table())


def once(action: Callable[[], None]) -> Callable[[], None]:
    """The action at the first call, nothing at later ones."""
    left = [action]
    return lambda: left.pop()() if left else None


@pytest.mark.parametrize("arguments", [{"bucket_num": 4}, {"target_bytes": 600}])
def test_a_new_plan_rescales_what_a_writer_changed(
    lake: Lake, arguments: dict[str, object]
) -> None:
    """All partitions end at the number that the run began with, whatever was written meanwhile."""
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    stale = lake.table()
    engine = Interfering(once(lambda: old_writer(lake, stale, "day1")))
    report = rescale(lake, RunServices(engine=engine), **arguments)
    assert report.error is None
    assert report.attempts == 2
    now = buckets_option(lake)
    assert layout(lake.table()) == {"dt=day0": {int(now)}, "dt=day1": {int(now)}}
    assert now != "2"
    assert (1, "late", "day1") in rows(lake.table())
    lake.append({"k": [5], "v": ["again"], "dt": ["day1"]})


def test_a_partition_that_changes_before_its_batch_is_left_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files become objects batch by batch; a batch finds what was committed since the plan."""
    monkeypatch.setattr(execution, "MOST_FILES", 1)
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    stale = lake.table()
    action = once(lambda: old_writer(lake, stale, "day1"))
    report = rescale_once(lake, RunServices(engine=Interfering(action)), bucket_num=4)
    assert isinstance(report.error, CommitConflict)
    assert layout(lake.table()) == {"dt=day0": {4}, "dt=day1": {2}}
    stale = lake.table()
    assert (1, "late", "day1") in rows(stale)
    assert rescale(lake).error is None
    assert layout(lake.table()) == {"dt=day0": {4}, "dt=day1": {4}}
    assert (1, "late", "day1") in rows(lake.table())


def test_an_overwrite_that_began_before_does_not_bring_the_old_number_back(lake: Lake) -> None:
    """Later writers would be refused in the partition."""
    lake.primary_key(buckets=1)
    lake.fill(1)
    table = lake.table()
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["new"]}))
    assert rescale(lake, bucket_num=2).error is None
    with pytest.raises(
        CommitConflict, match="written for bucket=1, and it was rescaled to bucket=2"
    ):
        overwrite(table, writer.prepare_commit(), user="late", env=ENV)
    lake.fill(1)


def test_restoring_goes_on_after_a_conflict(lake: Lake) -> None:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    assert rescale(lake, bucket_num=4).error is None
    stale = lake.table()
    engine = Interfering(once(lambda: old_writer(lake, stale, "day1")))
    report = rescale(lake, RunServices(engine=engine), restore=True)
    assert report.error is None
    assert layout(lake.table()) == {"dt=day0": {2}, "dt=day1": {2}}
    assert buckets_option(lake) == "2"


def test_a_commit_between_plan_and_run_stops_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.primary_key(buckets=2)
    lake.fill()
    original = execution.recheck

    def late(table: FileStoreTable, plan: Any) -> Any:
        lake.fill(1)
        return original(table, plan)

    steps = RESCALE.load()
    job = replace(RESCALE, load=lambda: replace(steps, recheck=late))
    report = run_table(replace(request(lake, bucket_num=3), job=job))
    assert isinstance(report.error, StalePlan)
    assert buckets_option(lake) == "2"
    assert not lake.table().tags.all()


def test_a_failing_unit_puts_the_option_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.primary_key(buckets=2)
    lake.fill()
    files = lake.on_disk()

    def fail(*_: Any, **__: Any) -> None:
        raise PaimonError("no more space")

    monkeypatch.setattr(rewriting, "assign_buckets", fail)
    report = rescale(lake, bucket_num=3)
    assert "no more space" in str(report.error)
    assert buckets_option(lake) == "2"
    assert lake.on_disk() == files


def test_mixed_layouts_are_put_right(lake: Lake) -> None:
    """A writer that nobody stopped left two layouts: its rows are newer, and win."""
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill()
    stale = lake.table()
    writer = RowWriter(stale, env=ENV)
    late = {"k": [1, 200], "v": ["late", "late"], "dt": ["day1", "day1"]}
    writer.write(
        pa.table({n: pa.array(v, pa.int32() if n == "k" else pa.string()) for n, v in late.items()})
    )
    messages = writer.prepare_commit()
    assert rescale(lake, bucket_num=3).error is None
    before = rows(lake.table())
    with pytest.raises(CommitConflict, match="rescaled"):
        commit(stale, messages, user="late", env=ENV)
    # Java's writers commit nevertheless.
    now = lake.table().latest_or_not_found().identity
    messages = [replace(m, buckets_at=now) for m in messages]
    commit(lake.table(), messages, user="late", env=ENV)
    assert layout(lake.table())["dt=day1"] == {2, 3}
    plan = plan_table(request(lake))
    assert "1 partitions mix layouts" in "\n".join(plan.lines())
    assert rescale(lake).error is None
    assert layout(lake.table()) == {"dt=day0": {3}, "dt=day1": {3}}
    expected = {(k, dt): v for k, v, dt in before}
    expected |= {(1, "day1"): "late", (200, "day1"): "late"}
    assert rows(lake.table()) == sorted((k, v, dt) for (k, dt), v in expected.items())
    assert_whole(lake.warehouse)
