"""The public API: writing, deleting, streams."""

from __future__ import annotations

import asyncio
import itertools
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from command_line import caretaker

from paimon_core import Catalog, Schema, Table, open_catalog
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = open_catalog({"warehouse": str(tmp_path / "lake")})
    opened.create_database("db")
    return opened


def keyed(catalog: Catalog, **options: str) -> Table:
    told = {"bucket": "1", **{k.replace("_", "-"): v for k, v in options.items()}}
    schema = Schema.of({"k": "INT", "v": "STRING"}, primary_keys=["k"], options=told)
    return catalog.create_table("db.k", schema)


def log(
    catalog: Catalog, options: dict[str, str] | None = None, *, partitioned: bool = False
) -> Table:
    columns = {"k": "INT", "v": "STRING"} | ({"dt": "DATE"} if partitioned else {})
    keys = ["dt"] if partitioned else []
    return catalog.create_table("db.log", Schema.of(columns, partition_keys=keys, options=options))


def rows(*keys: int, **more: Any) -> list[dict[str, Any]]:
    return [{"k": k, "v": f"v{k}", **more} for k in keys]


def content(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in table.to_dicts())


def files_of(table: Table) -> set[Path]:
    return {p for p in Path(table.location).rglob("bucket-*/*") if p.is_file()}


def test_all_kinds_of_data_are_written(catalog: Catalog) -> None:
    table = log(catalog)
    arrow = pa.table({"k": pa.array([1], pa.int32()), "v": ["v1"]})
    for data in (
        arrow,
        arrow.to_batches()[0],
        arrow.to_reader(),
        [arrow, arrow],
        pd.DataFrame({"k": [1], "v": ["v1"]}),
        [{"v": "v1", "k": 1}],
        ({"k": 1, "v": "v1"} for _ in range(2)),
        {"k": [1], "v": ["v1"]},
    ):
        table.append(data)
    assert content(table) == [(1, "v1")] * 10


@pytest.mark.parametrize(
    "data",
    ["text", 5, [1], [{"k": 1, "x": 2}], [{"k": "one"}], [{"k": 2**40}], {"k": [1, 2], "v": [1]}],
)
def test_what_is_no_row_of_the_table_is_refused(catalog: Catalog, data: object) -> None:
    table = log(catalog)
    with pytest.raises(InvalidArgument):
        table.append(data)
    assert table.snapshots() == []
    assert files_of(table) == set()


def test_batch_write_in_two_steps(catalog: Catalog) -> None:
    table = log(catalog)
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_pandas(pd.DataFrame({"k": [1], "v": ["v1"]}))
    write.write_arrow(pa.table({"k": pa.array([2], pa.int32()), "v": ["v2"]}))
    write.write_dicts(rows(3))
    messages = write.prepare_commit()
    assert table.to_arrow().num_rows == 0
    assert [s.id for s in commit.commit(messages).snapshots] == [1]
    with pytest.raises(InvalidArgument, match="once"):
        commit.commit([])
    write.close()
    commit.close()
    assert [r[0] for r in content(table)] == [1, 2, 3]


def test_what_is_not_committed_is_deleted(catalog: Catalog) -> None:
    table = log(catalog)
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        write.write_dicts(rows(1))
        messages = write.prepare_commit()
        write.write_dicts(rows(2))
    builder.new_commit().abort(messages)
    assert files_of(table) == set()


def test_upserts_and_kinds(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.upsert(rows(1, 2, 3))
    table.upsert([{"k": 1, "v": "new"}, {"k": 4, "v": "v4"}])
    table.append(pa.table({"_row_kind": ["-D", "+U"], "k": [2, 3], "v": [None, "up"]}))
    assert content(table) == [(1, "new"), (3, "up"), (4, "v4")]
    with pytest.raises(InvalidArgument, match="row kind"):
        table.append([{"_row_kind": "?", "k": 1}])
    with pytest.raises(InvalidArgument, match="no primary key"):
        log(catalog).upsert(rows(1))


def test_overwrites(catalog: Catalog) -> None:
    table = log(catalog, partitioned=True)
    days = pa.array(["2024-01-01", "2024-01-02"]).cast(pa.date32())
    table.append(pa.table({"k": [1, 2], "v": ["a", "b"], "dt": days}))
    new = pa.table({"k": [9], "v": ["n"], "dt": days[1:]})
    table.overwrite(new)  # dynamic, the default
    assert [r[0] for r in content(table)] == [1, 9]
    table.overwrite(new, {"dt": "2024-01-02"})
    with pytest.raises(InvalidArgument, match="do not belong"):
        table.overwrite(new, {"dt": "2024-01-01"})
    table.overwrite([], {"dt": "2024-01-02"})
    assert 9 not in table.to_arrow()["k"].to_pylist()
    table.overwrite(new, dynamic=False)
    assert table.to_arrow()["k"].to_pylist() == [9]
    with pytest.raises(InvalidArgument):
        table.overwrite(new, {"dt": "2024-01-01"}, dynamic=True)
    with pytest.raises(InvalidArgument, match="not partitioned by v"):
        table.overwrite(new, {"v": "n"})


def test_a_partition_of_null_has_two_names(catalog: Catalog) -> None:
    table = log(catalog, partitioned=True)
    for day in (None, "__DEFAULT_PARTITION__"):
        table.append([{"k": 1, "dt": None}, {"k": 2, "dt": date(2024, 1, 1)}])
        table.overwrite(rows(3, dt=None), {"dt": day})
        assert [r[0] for r in content(table)] == [2, 3]
        table.truncate({"dt": day})
        assert [r[0] for r in content(table)] == [2]
        table.truncate()


def test_truncate(catalog: Catalog) -> None:
    table = log(catalog, partitioned=True)
    days = pa.array(["2024-01-01", "2024-01-02"]).cast(pa.date32())
    table.append(pa.table({"k": [1, 2], "v": ["a", "b"], "dt": days}))
    table.truncate({"dt": "2024-01-01"})
    assert table.to_arrow()["k"].to_pylist() == [2]
    table.truncate()
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_delete_from_append_tables(catalog: Catalog, vectors: str, bucket: str) -> None:
    options = {"deletion-vectors.enabled": vectors, "bucket": bucket}
    if bucket != "-1":
        options["bucket-key"] = "k"
    table = log(catalog, options)
    for start in (0, 10, 20):
        table.append(rows(*range(start, start + 10)))
    before = files_of(table)
    deleted = table.delete("k >= 5 AND k < 12")
    assert deleted.rows == 7
    assert [r[0] for r in content(table)] == [*range(5), *range(12, 30)]
    assert before <= files_of(table), "files of older snapshots stay"
    assert table.delete(table.new_predicate_builder().is_in("k", [0, 5, 12])).rows == 2
    assert table.delete("k = 5").snapshots == ()
    assert [r[0] for r in content(table)] == [*range(1, 5), *range(13, 30)]


@pytest.mark.parametrize("evolves", ["true", "false"])
def test_deletes_keep_the_ids_of_rows(catalog: Catalog, evolves: str) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": evolves}
    table = log(catalog, options | {"deletion-vectors.enabled": "true"})
    for start in (0, 5):
        table.append(rows(*range(start, start + 5)))
    before = files_of(table)
    assert table.delete("k = 2 OR k >= 7 AND v <> 'v9'").rows == 3
    assert table.delete("k = 3 OR k = 2").rows == 1
    assert table.delete("k = 3").snapshots == ()
    assert files_of(table) == before
    tracked = table.to_arrow(columns=["_SEQUENCE_NUMBER", "_ROW_ID", "k"])
    assert sorted(tracked["k"].to_pylist()) == [0, 1, 4, 5, 6, 9]
    assert tracked["k"].to_pylist() == tracked["_ROW_ID"].to_pylist()
    assert set(tracked["_SEQUENCE_NUMBER"].to_pylist()) == {1, 2}
    assert table.to_dicts("v = 'v4'", ["_ROW_ID"]) == [{"_ROW_ID": 4}]
    assert table.to_arrow(columns=["_ROW_ID"], snapshot=1).num_rows == 5
    with pytest.raises(UnsupportedFeature):
        table.copy({"incremental-between": "0,1"}).to_arrow(columns=["_ROW_ID"])
    plain = catalog.create_table("db.plain", Schema.of({"k": "INT"}, options=options))
    with pytest.raises(UnsupportedFeature, match="without deletion vectors"):
        plain.delete("k = 1")


def test_delete_from_a_primary_key_table(catalog: Catalog) -> None:
    table = keyed(catalog, deletion_vectors_enabled="true")
    table.upsert(rows(1, 2, 3))
    assert table.delete("v = 'v2'").rows == 1
    assert [r[0] for r in content(table)] == [1, 3]


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {"merge-engine": "aggregation"}, {"ignore-delete": "true"}],
)
def test_a_table_that_keeps_deleted_keys_refuses_to_delete(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = keyed(catalog, **{k.replace("-", "_"): v for k, v in options.items()})
    with pytest.raises(UnsupportedFeature):
        table.delete("k = 1")


def test_a_delete_loses_against_a_compaction(catalog: Catalog, monkeypatch: Any) -> None:
    table = log(catalog)
    for k in range(5):
        table.append(rows(k))
    from paimon_core.table.sink import write_session as module

    commit = module.commit

    def late(*args: Any, **kw: Any) -> Any:
        monkeypatch.undo()
        table.overwrite(rows(7))
        return commit(*args, **kw)

    monkeypatch.setattr(module, "commit", late)
    live = files_of(table)
    with pytest.raises(CommitConflict):
        table.delete("k = 2")
    assert [r[0] for r in content(table)] == [7]
    assert len(files_of(table) - live) == 1, "only the overwrite's file is new"


def test_compact(catalog: Catalog) -> None:
    table = keyed(catalog, write_only="true")
    for k in range(3):
        table.upsert(rows(k))
    assert [s.commit_kind for s in table.compact(full=True).snapshots] == ["COMPACT"]
    assert table.system_table("files")["level"].to_pylist() == [5]
    assert table.compact(full=True).snapshots == ()
    assert [r[0] for r in content(table)] == [0, 1, 2]


# --- streams ------------------------------------------------------------------------------------


def test_a_stream_is_written_exactly_once(catalog: Catalog) -> None:
    table = log(catalog)
    builder = table.new_stream_write_builder().with_commit_user("job")
    write, commit = builder.new_write(), builder.new_commit()
    write.write_dicts(rows(1))
    first = write.prepare_commit()
    commit.commit(first, 1)
    write.write_dicts(rows(2))
    pending = {1: first, 2: write.prepare_commit(), 3: []}

    again = table.new_stream_write_builder().with_commit_user("job").new_commit()
    assert again.last_committed_identifier() == 1
    assert again.filter_and_commit(pending) == 2
    assert again.filter_and_commit(pending) == 0
    assert [r[0] for r in content(table)] == [1, 2]
    assert [s.commit_identifier for s in table.snapshots()] == [1, 2, 3]


def test_a_replay_whose_files_are_gone_commits_nothing(catalog: Catalog) -> None:
    table = log(catalog)
    builder = table.new_stream_write_builder().with_commit_user("job")
    write = builder.new_write()
    write.write_dicts(rows(1))
    messages = write.prepare_commit()
    builder.new_commit().abort(messages)
    with pytest.raises(InvalidArgument, match="gone"):
        builder.new_commit().filter_and_commit({1: messages})
    assert table.snapshots() == []


def test_a_consumer_goes_on_where_it_stopped(catalog: Catalog) -> None:
    table = keyed(catalog, changelog_producer="input")
    table.upsert(rows(1, 2))
    builder = table.new_stream_read_builder().with_consumer_id("c").with_include_row_kind()
    read = builder.new_read()
    seen = [read.to_arrow(p.splits()).to_pylist() for p in builder.new_streaming_scan().available()]
    assert [[r["k"] for r in step] for step in seen] == [[1, 2]]
    assert [c.next_snapshot for c in table.consumers()] == [2]
    table.delete("k = 1")
    table.upsert(rows(3))
    seen = [read.to_arrow(p.splits()).to_pylist() for p in builder.new_streaming_scan().available()]
    assert seen == [
        [{"_row_kind": "-D", "k": 1, "v": "v1"}],
        [{"_row_kind": "+I", "k": 3, "v": "v3"}],
    ]
    assert [c.next_snapshot for c in table.consumers()] == [4]


def test_progress_is_stored_after_a_step_is_processed(catalog: Catalog) -> None:
    table = log(catalog)
    table.append(rows(1))
    steps = table.follow(consumer_id="c", poll_interval_ms=1)
    assert next(steps)["k"].to_pylist() == [1]
    assert table.consumers() == []
    table.append(rows(2))
    assert next(steps).to_pylist() == [{"_row_kind": "+I", "k": 2, "v": "v2"}]
    assert [c.next_snapshot for c in table.consumers()] == [2]
    steps.close()  # type: ignore[attr-defined]
    again = table.follow(consumer_id="c", columns=["k"], filter="k > 0", poll_interval_ms=1)
    assert next(again).to_pylist() == [{"_row_kind": "+I", "k": 2}]


def test_an_asynchronous_stream(catalog: Catalog) -> None:
    table = log(catalog)
    table.append(rows(1))
    builder = table.new_stream_read_builder().with_poll_interval_ms(1).with_projection(["k"])
    scan, read = builder.new_streaming_scan(), builder.new_read()

    async def three() -> list[list[int]]:
        found: list[list[int]] = []
        async for plan in scan.stream():
            found.append(read.to_arrow(plan.splits())["k"].to_pylist())
            if len(found) == 3:
                return found
            table.append(rows(len(found) + 1))
        return found

    assert asyncio.run(three()) == [[1], [2], [3]]
    assert scan.next_snapshot_id == 4
    scan.next_snapshot_id = 2
    assert read.to_arrow(scan.plan().splits())["k"].to_pylist() == [2]


def test_a_stream_starts_where_the_options_say(catalog: Catalog) -> None:
    table = log(catalog)
    for k in range(4):
        table.append(rows(k))
    scan = table.copy({"scan.snapshot-id": "3"}).new_stream_read_builder().new_streaming_scan()
    steps = list(itertools.islice(scan.available(), 9))
    read = table.new_stream_read_builder().new_read()
    assert [read.to_arrow(s.splits())["k"].to_pylist() for s in steps] == [[2], [3]]


@pytest.mark.parametrize("bucket", ["1", "-1"], ids=["fixed", "dynamic"])
def test_the_row_that_is_committed_last_wins(catalog: Catalog, tmp_path: Path, bucket: str) -> None:
    """A stream numbers its rows above those that others have committed since its last commit."""
    table = keyed(catalog, bucket=bucket)
    builder = table.new_stream_write_builder()

    def by_another_writer(value: str, times: int) -> None:
        for _ in range(times):
            other = table.new_batch_write_builder()
            with other.new_write() as write, other.new_commit() as commit:
                write.write([{"k": 1, "v": value}])
                commit.commit(write.prepare_commit())

    with builder.new_write() as write, builder.new_commit() as commit:
        for number in range(6):
            write.write([{"k": 1, "v": f"stream {number}"}])
            commit.commit(write.prepare_commit(), number)
            assert content(table) == [(1, f"stream {number}")]
            by_another_writer(f"other {number}", times=number % 3)
        ran = caretaker("run", "rollback", "db.k", "-w", tmp_path / "lake", "--snapshot", "1")
        assert ran.code == 0, ran.err
        by_another_writer("after the rollback", times=2)
        write.write([{"k": 1, "v": "last"}])
        commit.commit(write.prepare_commit(), 6)
    assert content(table) == [(1, "last")]
