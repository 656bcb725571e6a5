"""Java's RESTCatalog and ours on one server: tables, schema changes, commits, lost replies, races."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_rows import COLUMNS, RETRIES, append, append_one_by_one, schema

from oracle import Oracle, RestServer
from paimon_core.catalog.catalog import OtherObject
from paimon_core.catalog.open import open_catalog
from paimon_core.catalog.rest.rest_catalog import RestCatalog
from paimon_core.commit.committer import commit
from paimon_core.commit.same_table import check_same_table
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import (
    AlreadyExists,
    CommitStateUnknown,
    InvalidArgument,
    NotFound,
    SchemaError,
    StorageAccessDenied,
    StorageError,
    TableGone,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.write.row_writer import RowWriter

COMMITS = 25
AUDIT = {
    "owner": "owner",
    "createdAt": "1",
    "createdBy": "created",
    "updatedAt": "1",
    "updatedBy": "updated",
}
"""What the server says of every database, table and view."""


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"db_{abs(hash(tmp_path))}"


@pytest.fixture
def java(oracle_1_4_2: Oracle, rest_server: RestServer, database: str) -> Oracle:
    return oracle_1_4_2.defaults(catalog=rest_server.options, database=database, table="t")


@pytest.fixture
def ours(rest_server: RestServer) -> RestCatalog:
    return RestCatalog.connect(rest_server.options)


def _made(java: Oracle, database: str, **table: Any) -> str:
    java.one("create_database")
    java.one("create_table", **{"columns": COLUMNS, "options": RETRIES, **table})
    return f"{database}.t"


def test_databases_and_tables_of_either_are_the_others(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    ours.create_database(database, properties={"owner": "ours"})
    with pytest.raises(AlreadyExists):
        ours.create_database(database)
    ours.create_database(database, if_not_exists=True)
    ours.alter_database(database, changes={"more": "1"}, removed=["owner"])
    assert java.one("get_database")["properties"]["more"] == "1"
    assert ours.get_database(database).properties == {"more": "1", **AUDIT}
    assert database in ours.list_databases()

    java.one("create_table", columns=COLUMNS, options=RETRIES)
    ours.create_table(f"{database}.mine", schema(bucket="-1"))
    with pytest.raises(AlreadyExists):
        ours.create_table(f"{database}.t", schema())
    assert ours.list_tables(database) == ["mine", "t"]
    java.one("rename_table", table="mine", to="theirs")
    ours.rename_table(f"{database}.t", f"{database}.renamed")
    assert java.one("list_tables")["tables"] == ["renamed", "theirs"]
    append(ours.get_table(f"{database}.renamed"), [1])
    java.one("write", table="renamed", rows=[[2, "java"]])
    assert java.rows(table="renamed") == [["+I", 1, "ours"], ["+I", 2, "java"]]
    latest = ours.get_table(f"{database}.renamed").snapshots.latest()
    assert latest is not None
    assert latest.id == 2
    with pytest.raises(InvalidArgument, match="not empty"):
        ours.drop_database(database)
    ours.drop_table(f"{database}.renamed")
    java.one("drop_table", table="theirs")
    with pytest.raises(NotFound):
        ours.get_table(f"{database}.theirs")
    with pytest.raises(NotFound):
        ours.drop_table(f"{database}.theirs")
    ours.drop_database(database)
    assert database not in java.one("list_databases")["databases"]


def test_schema_changes_go_through_the_server(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database)
    changed = ours.alter_table(
        name,
        [
            {"change": "set_option", "key": "x.ours", "value": "1"},
            {"change": "add_column", "name": "w", "type": "DECIMAL(10, 2)", "after": "id"},
            {"change": "rename_column", "name": "v", "to": "text"},
            {"change": "update_comment", "name": "w", "comment": "added"},
            {"change": "update_table_comment", "comment": "changed"},
        ],
        now_millis=1,
    )
    assert list(changed.names) == ["id", "w", "text"]
    java.one(
        "alter_table", changes=[{"change": "update_type", "name": "w", "type": "DECIMAL(12, 2)"}]
    )
    ours.alter_table(
        name,
        [
            {"change": "remove_option", "key": "x.ours"},
            {"change": "update_position", "name": "text", "first": True},
            {"change": "update_nullability", "name": "id", "nullable": True},
        ],
        now_millis=1,
    )
    table = ours.get_table(name)
    assert [f.name for f in table.schema.fields] == ["text", "id", "w"]
    assert table.schema.comment == "changed"
    assert "x.ours" not in table.options
    assert java.one("get_table")["comment"] == "changed"
    ours.alter_table(name, [{"change": "drop_column", "name": "w"}], now_millis=1)
    assert sorted(s["id"] for s in java.one("schemas")["schemas"]) == [0, 1, 2, 3, 4]


def test_our_commits_are_the_servers(
    java: Oracle, ours: RestCatalog, rest_server: RestServer, database: str
) -> None:
    name = _made(java, database)
    table = ours.get_table(name)
    assert table.snapshots.latest() is None
    assert append(table, [1]) == 1
    java.one("write", rows=[[2, "java"]])
    assert append(table, [3]) == 3
    assert sorted(java.rows()) == [["+I", 1, "ours"], ["+I", 2, "java"], ["+I", 3, "ours"]]
    commits = [r for r in rest_server.requests() if r["path"].endswith("/t/commit")]
    assert len([r for r in commits if database in r["path"]]) == 3
    assert table.snapshots.latest_id() == 3


def test_partitions_are_kept_by_the_server_as_javas_commits_keep_them(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    columns = [*COLUMNS, {"name": "dt", "type": "STRING"}]
    options = {**RETRIES, "metastore.partitioned-table": "true"}
    # The server lists the partitions of all tables of this name, whatever their database.
    java.defaults(table="partitioned")
    _made(java, database, columns=columns, partition_keys=["dt"], options=options)
    name = f"{database}.partitioned"
    java.one("write", rows=[[1, "java", "a"], [2, "java", "b"]])
    table = ours.get_table(name)
    env = system_environment()
    writer = RowWriter(table, env=env)
    ids, days = pa.array([3, 4, 5], pa.int64()), ["b", "c", "c"]
    writer.write(pa.table({"id": ids, "v": ["ours"] * 3, "dt": days}))
    commit(table, writer.prepare_commit(), user=env.new_uuid(), env=env)
    found = {p.statistics.spec["dt"]: p.statistics for p in ours.list_partitions(name)}
    assert {day: (s.record_count, s.file_count) for day, s in found.items()} == {
        "a": (1, 1),
        "b": (2, 2),
        "c": (2, 1),
    }
    sizes = {day: s.file_size for day, s in found.items()}
    live = java.one("files")["files"]
    assert sum(sizes.values()) == sum(f["size"] for f in live)
    theirs = java.one("list_partitions")["partitions"]
    assert {p["spec"]["dt"] for p in theirs} == {"a", "b", "c"}


def test_partitions_come_from_the_files_where_the_server_keeps_none(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database)
    append(ours.get_table(name), [1, 2])
    (whole,) = ours.list_partitions(name)
    assert whole.statistics.record_count == 2


def test_a_file_of_a_snapshot_is_never_made_nor_removed_by_us(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database)
    table = ours.get_table(name)
    for i in range(3):
        append(table, [i])
    latest = table.snapshots.latest()
    assert latest is not None
    refused: Iterable[Callable[[], object]] = (
        lambda: table.io.create_if_absent(table.paths.snapshot(4), b"{}"),
        lambda: table.io.write_bytes(table.paths.snapshot(4), b"{}"),
        lambda: table.io.open_output(table.paths.snapshot(4)),
        lambda: table.io.overwrite(table.paths.snapshot(3), b"{}"),
        lambda: table.io.delete(table.paths.snapshot(3)),
        lambda: table.io.rename(table.paths.snapshot(3), table.paths.snapshot(4)),
        lambda: table.io.rename(table.paths.manifest("m"), table.paths.snapshot(4)),
        lambda: table.io.delete_dir(table.paths.snapshot_dir),
        lambda: table.io.delete_dir(table.root),
        lambda: table.snapshots.create(latest),
        lambda: table.snapshots.delete(3),
        lambda: table.schemas.commit_new(table.schema),
        lambda: table.io.delete(table.paths.schema(0)),
        lambda: table.branches.create("b"),
    )
    for attempt in refused:
        with pytest.raises(UnsupportedFeature, match="REST catalog"):
            attempt()
    assert [s["id"] for s in java.one("snapshots")["snapshots"]] == [1, 2, 3]
    assert table.snapshots.delete(1)  # expiry


def test_a_table_that_was_dropped_and_made_again_is_not_committed_to(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database)
    table = ours.get_table(name)
    java.one("drop_table")
    with pytest.raises(NotFound):
        append(table, [1])
    java.one("create_table", columns=COLUMNS)
    with pytest.raises(TableGone, match=f"table {name} was dropped and created again"):
        append(table, [1])
    with pytest.raises(TableGone, match=f"table {name} was dropped and created again"):
        check_same_table(table)
    assert java.rows() == []
    check_same_table(ours.get_table(name))


def test_other_objects_are_skipped_by_name(java: Oracle, ours: RestCatalog, database: str) -> None:
    _made(java, database)
    java.one(
        "create_table",
        table="f",
        columns=COLUMNS,
        options={"type": "format-table", "file.format": "parquet"},
    )
    ours.client.post(
        ours.client.path("databases", database, "views"),
        {
            "identifier": {"database": database, "object": "v"},
            "schema": {"fields": [], "query": "SELECT 1", "dialects": {}, "options": {}},
        },
    )
    assert ours.list_tables(database) == ["t"]
    assert ours.list_others(database) == [
        OtherObject("f", "format-table"),
        OtherObject("v", "view"),
    ]
    with pytest.raises(UnsupportedFeature, match="format-table"):
        ours.get_table(f"{database}.f")


def test_the_server_says_who_made_what(java: Oracle, ours: RestCatalog, database: str) -> None:
    assert ours.get_table(_made(java, database)).catalog_properties == AUDIT
    assert ours.get_database(database).properties == AUDIT


def test_a_wrong_token_is_refused_without_being_shown(rest_server: RestServer) -> None:
    with pytest.raises(StorageAccessDenied) as denied:
        open_catalog({**rest_server.options, "token": "s3cret"})
    assert "s3cret" not in str(denied.value)
    assert rest_server.ready["token"] not in repr(open_catalog(rest_server.options))


def test_branches_and_rollback_go_through_the_server(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database)
    table = ours.get_table(name)
    for i in range(3):
        append(table, [i])
    java.one("create_tag", name="two", snapshot=2)
    versions = table.versions
    assert versions is not None
    versions.create_branch("b", tag="two")
    assert table.branches.names() == ["b"]
    assert ours.list_tables(database) == ["t"]
    branch = ours.get_table(name, branch="b")
    assert branch.snapshots.latest_id() == 2
    assert append(branch, [10]) == 3
    assert [r[1] for r in java.rows(branch="b")] == [0, 1, 10]
    assert [r[1] for r in java.rows()] == [0, 1, 2]
    with pytest.raises(StorageError):
        versions.rollback_to(1, base=2)
    versions.rollback_to(2, base=3)
    assert table.snapshots.latest_id() == 2
    assert append(table, [20]) == 3
    versions.rollback_to(2, tag="two", base=3)
    assert [r[1] for r in java.rows()] == [0, 1]
    versions.drop_branch("b")
    assert java.one("branches")["branches"] == []


def test_two_writers_lose_and_double_nothing(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    name = _made(java, database, options={"write-only": "true", **RETRIES})
    _race(java, lambda ids: append_one_by_one(ours, name, ids), ours.get_table(name))


def test_lost_replies_lose_and_double_nothing(
    oracle_1_4_2: Oracle, start_rest_server: Callable[..., RestServer]
) -> None:
    server = start_rest_server("--lost-replies=3")
    java = oracle_1_4_2.defaults(catalog=server.options, database="db", table="t")
    ours = RestCatalog.connect(server.options)
    name = _made(java, "db", options={"write-only": "true", **RETRIES})
    _race(java, lambda ids: append_one_by_one(ours, name, ids), ours.get_table(name))
    commits = [r for r in server.requests() if r["path"].endswith("/commit")]
    # Of those that succeed, the server answers every third with an error; how many are repeated
    # depends on who meets whom.
    assert len([r for r in commits if r["status"] == 500]) >= COMMITS // 3


def _race(java: Oracle, write: Callable[[Iterable[int]], None], table: FileStoreTable) -> None:
    failed: list[Exception] = []

    def run() -> None:
        try:
            write(range(COMMITS))
        except Exception as e:  # noqa: BLE001 - shown by the test
            failed.append(e)

    writer = threading.Thread(target=run)
    writer.start()
    java([{"op": "write", "rows": [[1000 + i, "java"]]} for i in range(COMMITS)])
    writer.join(120)
    assert not failed, failed
    rows = sorted(row[1] for row in java.rows())
    assert rows == [*range(COMMITS), *range(1000, 1000 + COMMITS)]
    assert [s.id for s in table.snapshots.all()] == list(range(1, 2 * COMMITS + 1))


def test_a_lost_reply_that_cannot_be_looked_up_is_unknown(
    oracle_1_4_2: Oracle, start_rest_server: Callable[..., RestServer]
) -> None:
    server = start_rest_server("--lost-replies")
    java = oracle_1_4_2.defaults(catalog=server.options, database="db", table="t")
    name = _made(java, "db")
    ours = RestCatalog.connect(server.options)
    assert append(ours.get_table(name), [1]) == 1
    table = ours.get_table(name)
    env = system_environment()
    writer = RowWriter(table, env=env)
    writer.write(pa.table({"id": pa.array([2], pa.int64()), "v": ["ours"]}))
    messages = writer.prepare_commit()
    commit_path = table.snapshots.snapshot_commit
    assert commit_path is not None
    original = type(commit_path).commit

    def lost(*args: Any) -> bool:
        try:
            return original(*args)
        finally:
            server.end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(commit_path), "commit", lost)
        with pytest.raises(CommitStateUnknown):
            commit(table, messages, user=env.new_uuid(), env=env)
    # Nothing was deleted: the server had made the commit.
    assert table.io.exists(table.paths.snapshot(2))
    assert all(
        table.io.exists(table.paths.data_file(m.partition, m.bucket, f))
        for m in messages
        for f in m.new_files
    )


def test_our_tables_keep_their_keys_on_the_server(
    java: Oracle, ours: RestCatalog, database: str
) -> None:
    ours.create_database(database)
    made = create_schema(
        [Column("k", "INT"), Column("p", "STRING"), Column("v", "ROW<a INT, b ARRAY<STRING>>")],
        now_millis=1,
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": "2"},
        comment="keys",
    )
    ours.create_table(f"{database}.t", made)
    java.one("write", rows=[[1, "a", {"a": 1, "b": ["x"]}], [1, "a", {"a": 2, "b": []}]])
    assert [row[1:] for row in java.rows()] == [[1, "a", {"a": 2, "b": []}]]
    there = ours.get_table(f"{database}.t").schema
    assert (there.primary_keys, there.partition_keys) == (("k", "p"), ("p",))
    assert there.fields == made.fields
    assert there.comment == "keys"


def test_java_2_0_and_ours_follow_each_other(
    oracle_2_0_0: Oracle, ours: RestCatalog, rest_server: RestServer, database: str
) -> None:
    java = oracle_2_0_0.defaults(catalog=rest_server.options, database=database, table="t")
    name = _made(java, database)
    java.one("write", rows=[[1, "java"]])
    append(ours.get_table(name), [2])
    java.one("write", rows=[[3, "java"]])
    append(ours.get_table(name), [4])
    assert sorted(row[1] for row in java.rows()) == [1, 2, 3, 4]
    assert ours.get_table(name).snapshots.latest_id() == 4


def test_files_are_read_and_written_with_the_servers_token(
    java: Oracle, rest_server: RestServer, database: str
) -> None:
    """Java runs without: told to use tokens, its test server gives tables a path of its own."""
    name = _made(java, database)
    ours = RestCatalog.connect({**rest_server.options, "data-token.enabled": "true"})
    java.one("write", rows=[[1, "java"]])
    table = ours.get_table(name)
    assert append(table, [2]) == 2
    assert append(pickle.loads(pickle.dumps(table)), [3]) == 3
    assert sorted(row[1] for row in java.rows()) == [1, 2, 3]
    asked = [r for r in rest_server.requests() if r["path"].endswith(f"{database}/tables/t/token")]
    assert [r["status"] for r in asked] == [200]


def test_external_tables_lie_where_the_option_says(
    java: Oracle, ours: RestCatalog, database: str, tmp_path: Path
) -> None:
    java.one("create_database")
    place = tmp_path / "elsewhere"
    name = f"{database}.ext"
    ours.create_table(name, schema(bucket="-1", path=str(place)))
    java.one("write", table="ext", rows=[[1, "java"]])
    append(ours.get_table(name), [2])
    assert ours.get_table(name).root == str(place)
    assert java.rows(table="ext") == [["+I", 1, "java"], ["+I", 2, "ours"]]
    ours.drop_table(name)
    other = create_schema([Column("x", "INT")], now_millis=1, options={"path": str(place)})
    with pytest.raises(SchemaError, match="other columns"):
        ours.create_table(name, other)
    ours.create_table(name, schema(path=str(place)))
    assert len(java.rows(table="ext")) == 2
    java.one("drop_table", table="ext")
    ours.create_table(name, create_schema([], now_millis=1, options={"path": str(place)}))
    assert len(java.rows(table="ext")) == 2
    java.one("drop_table", table="ext")
    nowhere = create_schema([], now_millis=1, options={"path": str(tmp_path / "nowhere")})
    with pytest.raises(SchemaError, match="no table to take them from"):
        ours.create_table(name, nowhere)
    java.one("create_table", table="ext", columns=COLUMNS, options={"path": str(place)})
    append(ours.get_table(name), [3])
    assert len(java.rows(table="ext")) == 3
