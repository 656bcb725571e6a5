"""Writers and stream readers as Spark calls them, without a Spark job: failures at every step."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import ENV, Lake
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType
from sql_sessions import Sql

from paimon_core import open_catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import CommitConflict, CommitStateUnknown, InvalidArgument, NotFound
from paimon_core.read.data_file import read_table_file
from paimon_core.read.table_read import read_table
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.expiry_range import Retention
from paimon_core.retention.snapshots import apply_expiry, plan_expiry
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_spark.source import write
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.reads.batch_reader import row_type_of
from paimon_spark.source.rows import converted
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.streams import stream_writer
from paimon_spark.source.streams.stream_reader import PaimonStreamReader
from paimon_spark.source.streams.stream_writer import PaimonStreamWriter
from paimon_spark.source.writes import batch_writer
from paimon_spark.source.writes.batch_writer import PaimonBatchWriter

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.log("db.t")
    return lake


def options_of(lake: Lake, **options: str) -> SourceOptions:
    return SourceOptions.of({"path": f"{lake.warehouse}/db.db/t", **options})


def schema_of(lake: Lake, **options: str) -> StructType:
    return spark_schema(row_type_of(options_of(lake, **options)))


def rows(*keys: int) -> Any:
    columns = [pa.array(keys, pa.int32()), pa.array(["v"] * len(keys))]
    return iter([pa.RecordBatch.from_arrays(columns, names=["k", "v"])])


def shipped(thing: Any) -> Any:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(thing))


def batch(lake: Lake) -> PaimonBatchWriter:
    return PaimonBatchWriter(options_of(lake), schema_of(lake), overwrite=False)


def stream(lake: Lake) -> PaimonStreamWriter:
    options = options_of(lake, checkpointLocation="/somewhere")
    return PaimonStreamWriter(options, schema_of(lake), overwrite=False)


def lost(*_: Any, **__: Any) -> Any:
    raise CommitStateUnknown("nobody knows")


def broken(*_: Any, **__: Any) -> Any:
    raise InvalidArgument("refused before anything was committed")


def test_messages_are_small(lake: Lake) -> None:
    message = batch(lake).write(rows(*range(10_000)))
    assert len(pickle.dumps(message)) < 5_000


def test_abort_deletes_the_files_of_the_tasks(lake: Lake) -> None:
    writer = batch(lake)
    messages = [shipped(writer).write(rows(1)), shipped(writer).write(rows(2))]
    assert len(lake.on_disk()) == 2
    shipped(writer).abort([*map(shipped, messages), None])
    assert lake.on_disk() == set()


def test_a_task_that_fails_deletes_its_files(lake: Lake) -> None:
    def failing() -> Any:
        yield from rows(*range(1000))
        raise OSError("the other end is gone")

    with pytest.raises(OSError, match="gone"):
        batch(lake).write(failing())
    assert lake.on_disk() == set()


def test_numbers_become_decimals_as_spark_stores_them() -> None:
    two = pa.decimal128(5, 2)
    numbers = pa.array([1, None, -999], pa.int64())
    assert converted(numbers, two).to_pylist() == [1, None, -999]
    for given in (pa.array([1.005, -2.345]), pa.array([Decimal("1.005"), Decimal("-2.345")])):
        assert converted(given, two).to_pylist() == [Decimal("1.01"), Decimal("-2.35")]
    for given in (pa.array([1000]), pa.array([999.995]), pa.array([float("nan")])):
        with pytest.raises(InvalidArgument, match="does not fit into"):
            converted(given, two)


@pytest.mark.parametrize("streams", [False, True])
def test_postponed_rows_are_seen_at_once(tmp_path: Path, *, streams: bool) -> None:
    """As in Java, they go to real buckets; a partition keeps the number that it has."""
    lake = Lake(tmp_path)
    lake.primary_key("db.t", buckets=-2, partitioned=True)

    def write(keys: list[int], days: list[str], *, of_task: str, **options: str) -> None:
        given = options_of(lake, checkpointLocation="/there", **options)
        kind = PaimonStreamWriter if streams else PaimonBatchWriter
        writer = kind(given, schema_of(lake), overwrite=False)
        columns = {"k": pa.array(keys, pa.int32()), "v": [of_task] * len(keys), "dt": days}
        message = writer.write(iter([pa.RecordBatch.from_pydict(columns)]))
        writer.commit([message], *([len(lake.table().snapshots.all())] if streams else []))

    write([1, 2], ["x", "x"], of_task="first")
    table = lake.table()
    kept = {e.total_buckets for e in scan_files(table, table.latest_or_not_found())}
    assert kept == {os.cpu_count()}
    most = {"postpone.batch-write-fixed-bucket.max-parallelism": "1"}
    write([1, 3], ["x", "y"], of_task="second", **most)
    write([2], ["x"], of_task="third", **{"postpone.batch-write-fixed-bucket": "false"})
    table = lake.table()
    found = {
        (row["k"], row["v"], row["dt"])
        for b in read_table(table, table.latest_or_not_found())
        for row in b.to_pylist()
    }
    assert found == {(1, "second", "x"), (2, "first", "x"), (3, "second", "y")}
    files = scan_files(table, table.latest_or_not_found())
    assert {e.total_buckets for e in files} == {os.cpu_count(), 1, -2}


@pytest.mark.parametrize("streams", [False, True])
def test_files_of_a_commit_of_unknown_outcome_stay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    writer = stream(lake) if streams else batch(lake)
    at = (4,) if streams else ()
    messages = [writer.write(rows(1))]
    monkeypatch.setattr(stream_writer if streams else batch_writer, "commit_write", lost)
    with pytest.raises(CommitStateUnknown):
        shipped(writer).commit(messages, *at)
    # Spark aborts in a process of its own after a commit that failed.
    shipped(writer).abort(messages, *at)
    assert len(lake.on_disk()) == 1


@pytest.mark.parametrize("streams", [False, True])
def test_files_of_a_commit_that_was_refused_go(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    writer = stream(lake) if streams else batch(lake)
    at = (4,) if streams else ()
    messages = [writer.write(rows(1))]
    monkeypatch.setattr(stream_writer if streams else batch_writer, "commit_write", broken)
    with pytest.raises(InvalidArgument):
        shipped(writer).commit(messages, *at)
    shipped(writer).abort(messages, *at)
    assert lake.on_disk() == set()


@pytest.mark.parametrize("streams", [False, True])
def test_a_temporary_folder_that_fails_fails_no_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    """Whoever is told of an error would write the rows again."""

    def read_only(path: Path, **_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    writer = stream(lake) if streams else batch(lake)
    at = (0,) if streams else ()
    messages = [writer.write(rows(1))]
    monkeypatch.setattr(Path, "unlink", read_only)
    writer.commit(messages, *at)
    assert lake.table().latest_or_not_found().total_record_count == 1


@pytest.mark.parametrize("streams", [False, True])
def test_an_abort_after_a_commit_deletes_nothing(lake: Lake, *, streams: bool) -> None:
    writer = stream(lake) if streams else batch(lake)
    at = (0,) if streams else ()
    messages = [writer.write(rows(1))]
    shipped(writer).commit(messages, *at)
    shipped(writer).abort(messages, *at)
    assert lake.on_disk() == lake.referenced() != set()


def test_a_micro_batch_is_committed_once(lake: Lake) -> None:
    first = stream(lake)
    first.commit([first.write(rows(1))], 0)
    first.commit([first.write(rows(2))], 1)
    # After a restart Spark writes the last micro-batch again.
    again = stream(lake)
    again.commit([again.write(rows(2))], 1)
    again.commit([again.write(rows(3))], 2)
    table = lake.table()
    assert [s.commit_identifier for s in table.snapshots.all()] == [0, 1, 2]
    assert lake.on_disk() == lake.referenced()
    assert table.latest_or_not_found().total_record_count == 3


def test_numbers_of_another_query_do_not_count(lake: Lake) -> None:
    def commit(query: str, identifier: int, key: int) -> None:
        writer = stream(lake)
        message = replace(writer.write(rows(key)), query=query)
        shipped(writer).commit([message], identifier)

    commit("old", 0, 1)
    commit("old", 1, 2)
    # The checkpoint was deleted: the numbers of the new query begin again, its folder is the same.
    commit("new", 0, 3)
    # Two queries take turns, and each repeats a micro-batch after a restart.
    commit("old", 1, 2)
    commit("new", 0, 3)
    commit("new", 1, 4)
    commit("old", 2, 5)
    assert [s.commit_identifier for s in lake.table().snapshots.all()] == [0, 1, 0, 1, 2]
    assert lake.on_disk() == lake.referenced()
    # Without a query's id, as in commits of older versions, a number that is there is not repeated.
    writer = stream(lake)
    writer.commit([writer.write(rows(6))], 2)
    assert lake.table().latest_or_not_found().total_record_count == 5


def test_a_micro_batch_is_committed_once_to_a_table_that_is_renamed(lake: Lake) -> None:
    def commit(name: str, identifier: int, key: int) -> None:
        options = SourceOptions.of(
            {"path": f"{lake.warehouse}/db.db/{name}", "checkpointLocation": "/somewhere"}
        )
        writer = PaimonStreamWriter(options, spark_schema(row_type_of(options)), overwrite=False)
        message = replace(writer.write(rows(key)), query="q")
        shipped(writer).commit([message], identifier)

    commit("t", 0, 1)
    commit("t", 1, 2)
    FileSystemCatalog(str(lake.warehouse)).rename_table("db.t", "db.u")
    commit("u", 1, 2)
    commit("u", 2, 3)
    assert [s.commit_identifier for s in lake.table("db.u").snapshots.all()] == [0, 1, 2]
    assert lake.on_disk("db.u") == lake.referenced("db.u")


def test_a_micro_batch_is_committed_once_beside_expiry(lake: Lake) -> None:
    """Others commit and expire after it, and the stream starts again."""

    def commit(identifier: int, key: int) -> None:
        writer = stream(lake)
        message = replace(writer.write(rows(key)), query="q")
        shipped(writer).commit([message], identifier)

    def expired(least_age: int) -> list[int]:
        now = ENV.now_millis()
        retention = Retention(num_min=1, num_max=1, older_than_millis=now - least_age, limit=9)
        plan = plan_expiry(table, retention, now_millis=now)
        assert plan is not None
        apply_expiry(table, plan.work, Deleting(env=ENV))
        return [r.snapshot.id for r in plan.work.going]

    table = lake.table()
    commit(0, 1)
    commit(1, 2)
    for key in (3, 4, 5):
        lake.append({"k": [key], "v": ["another"]})
    assert expired(3_600_000) == [1]
    commit(1, 2)
    assert table.latest_or_not_found().total_record_count == 5
    assert expired(-3_600_000) == [2, 3, 4]


def test_a_micro_batch_of_which_only_the_compaction_is_left(tmp_path: Path) -> None:
    """The writer's own expiry keeps one snapshot, and the rows came in the one before it."""
    lake = Lake(tmp_path)
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    compacts = {"merge-engine": "aggregation", "full-compaction.delta-commits": "1"}
    sums = {"fields.v.aggregate-function": "listagg"}
    lake.create(options={"bucket": "1", **retained, **compacts, **sums})
    for _ in range(2):  # the second is what Spark writes again after a restart
        writer = stream(lake)
        message = replace(writer.write(rows(1)), query="q")
        shipped(writer).commit([message], 0)
    table = lake.table()
    assert [s.commit_kind for s in table.snapshots.all()] == ["COMPACT"]
    (found,) = read_table(table, table.latest_or_not_found())
    assert found["v"].to_pylist() == ["v"]


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_is_renamed_during_a_micro_batch(lake: Lake, *, again: bool) -> None:
    """The rows go nowhere: neither to the renamed table nor to a new one of the old name."""
    first = stream(lake)
    first.commit([first.write(rows(1))], 0)
    writer = stream(lake)
    messages = [writer.write(rows(2))]
    FileSystemCatalog(str(lake.warehouse)).rename_table("db.t", "db.u")
    if again:
        lake.log("db.t")
        lake.append({"k": [7], "v": ["of the new table"]})
    with pytest.raises(NotFound):
        shipped(writer).commit(messages, 1)
    shipped(writer).abort(messages, 1)
    assert lake.table("db.u").latest_or_not_found().total_record_count == 1
    if again:
        assert lake.table().latest_or_not_found().total_record_count == 1
        assert lake.on_disk() == lake.referenced()
    else:
        left = [p for p in (lake.warehouse / "db.db" / "t").rglob("*") if p.is_file()]
        assert left == []


def test_batches_of_the_same_user_do_not_count(lake: Lake) -> None:
    options = options_of(lake, **{"commit-user": "me"})
    filling = PaimonBatchWriter(options, schema_of(lake), overwrite=False)
    filling.commit([filling.write(rows(1))])
    writer = PaimonStreamWriter(options, schema_of(lake), overwrite=False)
    writer.commit([writer.write(rows(2))], 0)
    assert lake.table().latest_or_not_found().total_record_count == 2


def test_a_stream_needs_a_name(lake: Lake) -> None:
    with pytest.raises(InvalidArgument, match="checkpointLocation"):
        PaimonStreamWriter(options_of(lake), schema_of(lake), overwrite=False)


def test_complete_mode_replaces_the_table(lake: Lake) -> None:
    options = options_of(lake, checkpointLocation="/somewhere")
    for identifier, key in enumerate((1, 2)):
        writer = PaimonStreamWriter(options, schema_of(lake), overwrite=True)
        writer.commit([writer.write(rows(key))], identifier)
    newest = lake.table().latest_or_not_found()
    assert (newest.commit_kind, newest.commit_identifier) == ("OVERWRITE", 1)
    assert newest.total_record_count == 1


def test_complete_mode_replaces_all_partitions(tmp_path: Path) -> None:
    Sql(tmp_path)("CREATE TABLE t (k INT, v STRING) PARTITIONED BY (k)")
    options = SourceOptions.of(
        {
            "path": f"{tmp_path}/default.db/t",
            "checkpointLocation": "/somewhere",
            "partitionOverwriteMode": "dynamic",
        }
    )
    for identifier, key in enumerate((1, 2)):
        schema = spark_schema(row_type_of(options))
        writer = PaimonStreamWriter(options, schema, overwrite=True)
        writer.commit([writer.write(rows(key))], identifier)
    found = open_catalog(str(tmp_path)).get_table("default.t").to_arrow()
    assert found["k"].to_pylist() == [2]


@pytest.mark.parametrize("streams", [False, True])
def test_rows_for_the_buckets_before_a_rescale_are_refused(
    tmp_path: Path, *, streams: bool
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.t")
    lake.append({"k": [1, 2, 3], "v": ["a"] * 3})
    writer = stream(lake) if streams else batch(lake)
    at = (0,) if streams else ()
    messages = [writer.write(rows(1, 2))]
    Sql(tmp_path)("CALL sys.rescale(table => 'db.t', bucket_num => 3)")
    with pytest.raises(CommitConflict, match="rescaled"):
        shipped(writer).commit(messages, *at)
    shipped(writer).abort(messages, *at)
    assert lake.on_disk() == lake.referenced()
    # The micro-batch is repeated with the new buckets.
    again = stream(lake) if streams else batch(lake)
    again.commit([again.write(rows(1, 2))], *at)
    found = open_catalog(str(tmp_path)).get_table("db.t").to_arrow().sort_by("k")
    assert found.to_pylist() == [{"k": 1, "v": "v"}, {"k": 2, "v": "v"}, {"k": 3, "v": "a"}]


# --- offsets ------------------------------------------------------------------------------------


def reader(lake: Lake, **options: str) -> PaimonStreamReader:
    return PaimonStreamReader(options_of(lake, **options), schema_of(lake, **options))


def keys(stream: PaimonStreamReader, start: Any, end: Any) -> list[int]:
    parts = shipped(stream.partitions(start, end))
    found = [b for p in parts for b in stream.read(p)]
    return sorted(k for b in found for k in b.column("k").to_pylist())


def place(offset: Any) -> Any:
    return {k: v for k, v in offset.items() if k != "read"}


@pytest.mark.parametrize("begun", [0, 1])
def test_a_stream_waits_for_the_first_snapshot_that_it_is_told(lake: Lake, begun: int) -> None:
    for _ in range(begun):
        lake.append({"k": [1], "v": ["too early"]})
    stream = reader(lake, **{"scan.snapshot-id": "3"})
    start = stream.initialOffset()
    assert place(start) == {"snapshotId": 3, "index": -1, "scanSnapshot": False}
    for at in range(begun, 4):
        assert stream.latestOffset(start, ReadAllAvailable()) == start or at > 2
        lake.append({"k": [at + 1], "v": ["v"]})
    end = stream.latestOffset(start, ReadAllAvailable())
    assert keys(stream, start, end) == [3, 4]
    FileSystemCatalog(str(lake.warehouse)).drop_table("db.t")
    lake.log("db.t")
    with pytest.raises(NotFound, match="rolled back or created again"):
        reader(lake, **{"scan.snapshot-id": "3"}).latestOffset(end, ReadAllAvailable())


def test_offsets_with_a_rate_limit_cover_all_rows_once(lake: Lake) -> None:
    for start in range(0, 50, 10):
        lake.append({"k": list(range(start, start + 10)), "v": ["v"] * 10})
    stream = reader(lake, **{"read.stream.maxFilesPerTrigger": "2"})
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxFiles(2)
    at = stream.initialOffset()
    assert at == stream.initialOffset() == {"snapshotId": 5, "index": -1, "scanSnapshot": True}
    seen: list[int] = []
    for step in range(9):
        if step == 1:
            lake.append({"k": [100], "v": ["v"]})
            lake.append({"k": [101], "v": ["v"]})
        end = stream.latestOffset(at, limit)
        # Another process plans the same.
        fresh = reader(lake)
        assert keys(fresh, at, end) == keys(stream, at, end)
        seen += keys(stream, at, end)
        if end == at:
            break
        at = end
    assert sorted(seen) == [*range(50), 100, 101]
    assert place(at) == {"snapshotId": 8, "index": -1, "scanSnapshot": False}
    lake.append({"k": [102], "v": ["v"]})
    assert keys(stream, at, stream.latestOffset(at, ReadAllAvailable())) == [102]


def test_limits_by_rows_and_bytes(lake: Lake) -> None:
    for start in range(4):
        lake.append({"k": [start, start + 10], "v": ["v"] * 2})
    start = {"scan.snapshot-id": "1", "scan.mode": "from-snapshot"}
    for key, value in (("maxRows", "4"), ("maxBytes", "1")):
        stream = reader(lake, **start, **{f"read.stream.{key}PerTrigger": value})
        at = stream.initialOffset()
        end = stream.latestOffset(at, stream.getDefaultReadLimit())
        assert len(keys(stream, at, end)) == (4 if key == "maxRows" else 2)
    with pytest.raises(InvalidArgument, match="unknown"):
        reader(lake, **{"read.stream.maxFilesPerTriger": "4"})
    with pytest.raises(InvalidArgument, match="maxTriggerDelayMs"):
        reader(lake, **{"read.stream.minRowsPerTrigger": "4"})


def test_small_batches_are_written_together(lake: Lake) -> None:
    texts = pa.array(["a", "b"]).dictionary_encode()
    other = pa.RecordBatch.from_arrays([pa.array([8, 9], pa.int32()), texts], names=["k", "v"])
    writer = batch(lake)
    writer.commit([writer.write(iter([*rows(1), *rows(2, 3), other, *rows(4)]))])
    found = open_catalog(str(lake.warehouse)).get_table("db.t").to_arrow()
    assert sorted(found["k"].to_pylist()) == [1, 2, 3, 4, 8, 9]


def test_a_table_that_was_made_again_is_noticed(lake: Lake) -> None:
    lake.fill(3)
    stream = reader(lake)
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    shutil.rmtree(lake.table().root)
    lake.log("db.t")
    lake.fill(2)
    for follower in (stream, reader(lake)):
        with pytest.raises(NotFound, match=r"snapshot 4 .* newest snapshot is 2"):
            follower.latestOffset(at, ReadAllAvailable())


def test_a_trigger_available_now_notices_it_too(lake: Lake) -> None:
    lake.fill(3)
    stream = reader(lake)
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    shutil.rmtree(lake.table().root)
    lake.log("db.t")
    again = reader(lake)
    again.prepareForTriggerAvailableNow()
    with pytest.raises(NotFound, match=r"snapshot 4 .* newest snapshot is 0"):
        again.latestOffset(at, ReadAllAvailable())


@pytest.mark.parametrize("part", [False, True])
def test_other_snapshots_of_the_same_ids_are_noticed(lake: Lake, *, part: bool) -> None:
    for key in range(3):
        lake.append({"k": [key], "v": ["v"]})
    start = {"scan.snapshot-id": "1", "read.stream.maxFilesPerTrigger": "2"}
    stream = reader(lake, **(start if part else {}))
    at = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert stream.latestOffset(at, ReadAllAvailable())["snapshotId"] == 4
    Sql(lake.warehouse)("CALL sys.rollback(table => 'db.t', version => '1')")
    for key in range(10, 14):
        lake.append({"k": [key], "v": ["v"]})
    for follower in (stream, reader(lake, **start)):
        with pytest.raises(NotFound, match=r"not the one .* rolled back or created again"):
            follower.latestOffset(at, ReadAllAvailable())
    # Offsets of Java and of older versions do not tell.
    assert reader(lake).latestOffset(place(at), ReadAllAvailable())["snapshotId"] == 6


def test_a_micro_batch_waits_for_rows(lake: Lake) -> None:
    lake.append({"k": [0], "v": ["v"]})
    least = {"read.stream.minRowsPerTrigger": "3", "read.stream.maxTriggerDelayMs": "3600000"}
    stream = reader(lake, **least)
    limit = stream.getDefaultReadLimit()
    # The first one waits for nothing.
    at = stream.latestOffset(stream.initialOffset(), limit)
    lake.append({"k": [1, 2], "v": ["v"] * 2})
    assert stream.latestOffset(at, limit) == at
    lake.append({"k": [3], "v": ["v"]})
    end = stream.latestOffset(at, limit)
    assert keys(stream, at, end) == [1, 2, 3]
    lake.append({"k": [4], "v": ["v"]})
    assert stream.latestOffset(end, limit) == end
    stream.prepareForTriggerAvailableNow()
    assert keys(stream, end, stream.latestOffset(end, limit)) == [4]


def test_a_micro_batch_does_not_wait_for_rows_that_have_no_room(lake: Lake) -> None:
    options = {
        "read.stream.minRowsPerTrigger": "2",
        "read.stream.maxRowsPerTrigger": "3",
        "read.stream.maxTriggerDelayMs": "3600000",
    }
    lake.append({"k": [0], "v": ["v"]})
    stream = reader(lake, **options)
    limit = stream.getDefaultReadLimit()
    at = stream.latestOffset(stream.initialOffset(), limit)
    lake.append({"k": [1], "v": ["v"]})
    assert stream.latestOffset(at, limit) == at
    lake.append({"k": [2, 3, 4], "v": ["v"] * 3})
    end = stream.latestOffset(at, limit)
    assert keys(stream, at, end) == [1]
    assert keys(stream, end, stream.latestOffset(end, limit)) == [2, 3, 4]


def test_a_consumer_keeps_its_progress(lake: Lake) -> None:
    lake.fill(3)
    consumer = {
        "consumer-id": "me",
        "read.stream.maxFilesPerTrigger": "2",
        "source.split.target-size": "1 b",
        "source.split.open-file-cost": "1 b",
    }
    stream = reader(lake, **consumer)
    at = stream.initialOffset()
    middle = stream.latestOffset(at, stream.getDefaultReadLimit())
    stream.commit(middle)
    # The rest of the first snapshot would be lost by going on behind it.
    assert lake.table().consumers.ids() == []
    stream.commit(stream.latestOffset(middle, stream.getDefaultReadLimit()))
    assert lake.table().consumers.get("me").next_snapshot == 4
    lake.fill(2)
    again = reader(lake, **consumer)
    assert again.initialOffset() == {"snapshotId": 4, "index": -1, "scanSnapshot": False}
    end = again.latestOffset(again.initialOffset(), ReadAllAvailable())
    assert len(keys(again, again.initialOffset(), end)) == 20


def test_a_trigger_available_now_keeps_what_it_has_not_read(lake: Lake) -> None:
    lake.fill(2)
    first = reader(lake, **{"consumer-id": "daily"})
    first.prepareForTriggerAvailableNow()
    at = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert lake.table().consumers.ids() == []
    # Spark runs the micro-batch and asks for the next one, and the query ends.
    assert first.latestOffset(at, ReadAllAvailable()) == at
    assert lake.table().consumers.get("daily").next_snapshot == 3
    for key in (100, 101):
        lake.append({"k": [key], "v": ["v"]})
    expiry = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
    }
    open_catalog(str(lake.warehouse)).get_table("db.t").copy(expiry).maintain()
    assert lake.table().snapshots.ids() == [3, 4]
    second = reader(lake, **{"consumer-id": "daily"})
    second.prepareForTriggerAvailableNow()
    assert keys(second, at, second.latestOffset(at, ReadAllAvailable())) == [100, 101]


def test_a_consumer_keeps_the_rows_that_an_unread_overwrite_removed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.t", streaming__read__overwrite="true")
    lake.append({"k": [1], "v": ["v"]})
    table = open_catalog(str(tmp_path)).get_table("db.t")
    told = {"consumer-id": "me", "read.changelog": "true"}
    stream = reader(lake, **told)
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert stream.latestOffset(at, ReadAllAvailable()) == at
    table.overwrite(pa.table({"k": pa.array([2], pa.int32()), "v": ["v"]}))
    expiry = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table.copy({**expiry, "snapshot.time-retained": "1 ms"}).maintain()
    found = stream.partitions(at, stream.latestOffset(at, ReadAllAvailable()))
    rows_read = [r for p in found for b in stream.read(p) for r in b.to_pylist()]
    assert [(r["rowkind"], r["k"]) for r in rows_read] == [("-D", 1), ("+I", 2)]


def test_a_stream_that_waits_renews_its_consumer(lake: Lake) -> None:
    lake.fill(2)
    stream = reader(lake, **{"consumer-id": "me"})
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    now = 1_000_000_000
    stream._env = replace(stream._env, now_millis=lambda: now)
    for seconds, renewed in ((0, True), (30, False), (61, True)):
        now = 1_000_000_000 + seconds * 1000
        file = Path(lake.table().paths.consumer("me"))
        if file.exists():
            os.utime(file, (1, 1))
        assert stream.latestOffset(at, ReadAllAvailable()) == at
        assert (lake.table().consumers.get("me").modified_millis > 1000) == renewed


@pytest.mark.parametrize("start", ["scan.snapshot-id", "consumer-id"])
def test_an_empty_table_is_read_from_the_wanted_snapshot(start: str, lake: Lake) -> None:
    lake.table().consumers.set("2", 2)
    stream = reader(lake, **{start: "2"})
    at = stream.initialOffset()
    for key in range(3):
        lake.append({"k": [key], "v": ["v"]})
    assert keys(stream, at, stream.latestOffset(at, ReadAllAvailable())) == [1, 2]


def test_offsets_pass_snapshots_that_tell_nothing(lake: Lake) -> None:
    lake.append({"k": [1], "v": ["v"]})
    stream = reader(lake)
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    replacing = PaimonBatchWriter(options_of(lake), schema_of(lake), overwrite=True)
    replacing.commit([replacing.write(rows(2))])
    end = stream.latestOffset(at, ReadAllAvailable())
    assert (at["snapshotId"], end["snapshotId"]) == (2, 3)
    assert keys(stream, at, end) == []
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    lake.append({"k": [3], "v": ["v"]})
    assert keys(stream, end, stream.latestOffset(end, ReadAllAvailable())) == [3]


def test_an_empty_table_is_read_from_its_first_snapshot(lake: Lake) -> None:
    stream = reader(lake)
    at = stream.initialOffset()
    assert stream.latestOffset(at, ReadAllAvailable()) == at
    assert stream.partitions(at, at) == []
    lake.append({"k": [1], "v": ["v"]})
    assert keys(stream, at, stream.latestOffset(at, ReadAllAvailable())) == [1]


@pytest.mark.parametrize(
    "name",
    ["changelog_input", "append_unaware", "changelog_full_compaction", "partitions_pk_overwrite"],
)
def test_changes_are_those_of_java_s_stream(golden: Any, name: str) -> None:
    table = golden(name)
    options = SourceOptions.of(
        {
            "path": str(table.root),
            "scan.mode": "from-snapshot",
            "scan.snapshot-id": "1",
            "read.changelog": "true",
        }
    )
    stream = PaimonStreamReader(options, spark_schema(row_type_of(options)))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    batches = [b for p in stream.partitions(start, end) for b in stream.read(p)]
    kinds = sorted(
        (kind, k)
        for b in batches
        for kind, k in zip(b.column("rowkind").to_pylist(), b.column("k").to_pylist(), strict=True)
    )
    plans = table.expected["stream"]["from-1"]["plans"]
    at = 1 + plans[0]["columns"].index("k")
    assert kinds == sorted((row[0], row[at]) for plan in plans for row in plan["rows"])


def test_the_blobs_of_several_tasks_keep_their_rows(tmp_path: Path) -> None:
    Sql(tmp_path)(
        "CREATE TABLE t (k INT, b BINARY) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
        "'data-evolution.enabled' = 'true', 'blob-field' = 'b', 'blob.target-file-size' = '1 b')"
    )
    options = SourceOptions.of({"path": f"{tmp_path}/default.db/t"})
    schema = spark_schema(row_type_of(options))
    assert schema["b"].dataType.simpleString() == "binary"
    writer = PaimonBatchWriter(options, schema, overwrite=False)
    tasks = []
    for keys in ((1, 2), (3,)):
        columns = [pa.array(keys, pa.int32()), pa.array([bytes([k]) * k for k in keys])]
        given = pa.RecordBatch.from_arrays(columns, names=["k", "b"])
        tasks.append(shipped(shipped(writer).write(iter([given]))))
    writer.commit(tasks)
    table = open_table(str(tmp_path), "default.t")
    read = read_table(table, table.latest_or_not_found())
    found = {r["k"]: r["b"] for batch in read for r in batch.to_pylist()}
    assert found == {k: bytes([k]) * k for k in (1, 2, 3)}


@pytest.mark.parametrize("columns", ["k", "k,v"])
def test_rows_are_written_in_ranges_of_the_clustering(
    session: Any, tmp_path: Path, columns: str
) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t", clustering_columns=columns)
    frame = session.range(200).selectExpr(
        "CAST(hash(id) % 1000 AS INT) AS k", "CAST(id % 7 AS STRING) AS v"
    )
    write(frame, path=f"{tmp_path}/db.db/t")
    table = lake.table()
    files = []
    for entry in scan_files(table, table.latest_or_not_found()):
        batches = read_table_file(table, entry.partition, 0, entry.file, table.schema.row_type)
        files.append([r["k"] for b in batches for r in b.to_pylist()])
    assert sum(map(len, files)) == 200
    if columns == "k":
        assert all(keys == sorted(keys) for keys in files)
        files.sort()
        assert all(a[-1] <= b[0] for a, b in pairwise(files))
    else:
        assert all(keys != sorted(keys) for keys in files)
