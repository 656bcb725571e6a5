"""BLOB columns in SQL: written to files of their own, read as binary or as descriptors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sql_sessions import Sql

from paimon_core.errors import InvalidArgument, NotFound, SchemaError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import BlobDescriptor, parse_descriptor
from paimon_core.format.blob.pack_references import pack_paths
from paimon_core.format.blob.view import BlobView
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.write_session import write_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_core.table.source.blob_views import with_viewed_blobs
from paimon_core.table.statistics import read_statistics
from paimon_core.types.arrow import arrow_schema
from paimon_core.write import data_file_writer
from paimon_spark.sql.dml.targets import open_target

OPTIONS = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'"
PICTURES = (
    "CREATE TABLE t (id INT, picture BINARY, name STRING, thumb BINARY) "
    f"TBLPROPERTIES ({OPTIONS}, 'blob-field' = 'picture, thumb')"
)


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path / "lake")


def _table(sql: Sql) -> FileStoreTable:
    return sql.session.catalog.get_table("default.t")


def _rows(sql: Sql) -> list[dict[str, object]]:
    table = _table(sql)
    batches = read_table(table, table.latest_or_not_found())
    rows = [r for b in batches for r in b.select(table.schema.names).to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def test_blobs_have_files_of_their_own(sql: Sql) -> None:
    sql(PICTURES)
    assert [row[1] for row in sql("DESCRIBE t")] == ["int", "binary", "string", "binary"]
    sql("INSERT INTO t VALUES (1, X'0102', 'a', NULL), (2, X'', 'b', X'FF'), (3, NULL, 'c', X'03')")
    sql("INSERT INTO t VALUES (4, X'04', 'd', X'0405')")
    assert _rows(sql) == [
        {"id": 1, "picture": b"\x01\x02", "name": "a", "thumb": None},
        {"id": 2, "picture": b"", "name": "b", "thumb": b"\xff"},
        {"id": 3, "picture": None, "name": "c", "thumb": b"\x03"},
        {"id": 4, "picture": b"\x04", "name": "d", "thumb": b"\x04\x05"},
    ]
    table = _table(sql)
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    assert sorted((f.first_row_id, f.row_count, f.write_cols) for f in files) == [
        (0, 3, ("id", "name")),
        (0, 3, ("picture",)),
        (0, 3, ("thumb",)),
        (3, 1, ("id", "name")),
        (3, 1, ("picture",)),
        (3, 1, ("thumb",)),
    ]


def test_a_value_may_describe_where_its_bytes_are(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(b"0123456789")
    sql(PICTURES)
    part = BlobDescriptor(f"file:{tmp_path}/photo", 2, 3).to_bytes().hex()
    sql(
        f"INSERT INTO t VALUES (1, sys.path_to_descriptor('{tmp_path}/photo'), 'all', X'FFD8'), "
        f"(2, paimon.sys.path_to_descriptor('file://{tmp_path}/photo'), 'all', X'{part}')"
    )
    assert [(r["picture"], r["thumb"]) for r in _rows(sql)] == [
        (b"0123456789", b"\xff\xd8"),
        (b"0123456789", b"234"),
    ]
    sql("ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'true')")
    described = parse_descriptor(_rows(sql)[1]["thumb"])
    assert Path(described.uri).read_bytes()[described.offset :][: described.length] == b"234"


@pytest.mark.parametrize("uri", ["/no/such/file", "s3://bucket/key", "https://host/key"])
def test_bytes_that_cannot_be_fetched_leave_no_file(sql: Sql, uri: str) -> None:
    sql(PICTURES)
    with pytest.raises((InvalidArgument, UnsupportedFeature)):
        sql(f"INSERT INTO t VALUES (1, X'01', 'a', sys.path_to_descriptor('{uri}'))")
    assert not [p for p in Path(_table(sql).root).rglob("bucket-*/*") if p.is_file()]
    assert _table(sql).snapshots.latest() is None


def test_files_of_blobs_end_at_their_own_size(sql: Sql) -> None:
    sql(PICTURES.replace("'blob-field'", "'blob.target-file-size' = '40 b', 'blob-field'"))
    sql("INSERT INTO t VALUES " + ", ".join(f"({i}, X'{i:032x}', 'n', NULL)" for i in range(5)))
    table = _table(sql)
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    assert sorted((f.first_row_id, f.row_count) for f in files if f.write_cols == ("picture",)) == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
    assert [r["picture"] for r in _rows(sql)] == [bytes.fromhex(f"{i:032x}") for i in range(5)]


def test_blobs_need_data_evolution_and_bytes(sql: Sql) -> None:
    with pytest.raises(SchemaError, match="Data evolution config must enabled"):
        sql("CREATE TABLE t (id INT, b BINARY) TBLPROPERTIES ('blob-field' = 'b')")
    with pytest.raises(SchemaError, match="must have other normal columns"):
        sql(f"CREATE TABLE t (b BINARY) TBLPROPERTIES ({OPTIONS}, 'blob-field' = 'b')")
    with pytest.raises(InvalidArgument, match="must be binary"):
        sql(f"CREATE TABLE t (id INT, b STRING) TBLPROPERTIES ({OPTIONS}, 'blob-field' = 'b')")


def test_descriptors_are_stored_and_returned_as_they_are(sql: Sql, tmp_path: Path) -> None:
    sql(PICTURES.replace("'blob-field'", "'blob-descriptor-field' = 'thumb', 'blob-field'"))
    with pytest.raises(InvalidArgument, match="stores descriptors of BLOBs"):
        sql("INSERT INTO t VALUES (1, X'01', 'a', X'01')")
    sql(
        f"INSERT INTO t VALUES (1, X'01', 'a', sys.path_to_descriptor('{tmp_path}/no')), "
        "(2, X'02', 'b', NULL)"
    )
    table = _table(sql)
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    assert sorted(f.write_cols or () for f in files) == [("id", "name", "thumb"), ("picture",)]
    with pytest.raises(UnsupportedFeature, match="thumb without blob-as-descriptor=true"):
        _rows(sql)
    others = read_table(table, table.latest_or_not_found(), columns=["id", "picture"])
    assert [b.num_rows for b in others] == [2]
    sql("ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'true')")
    first, second = _rows(sql)
    assert parse_descriptor(first["thumb"]).uri == f"{tmp_path}/no"
    assert second["thumb"] is None


def test_views_of_blobs_of_other_tables(sql: Sql) -> None:
    sql(PICTURES)
    sql("INSERT INTO t VALUES (1, X'0102', 'a', NULL), (2, X'03', 'b', X'04')")
    sql("ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.modifiable' = 'true')")
    sql("ALTER TABLE t SET TBLPROPERTIES ('deletion-vectors.enabled' = 'true')")
    picture, thumb = (_table(sql).schema.fields[i].id for i in (1, 3))
    sql(
        f"CREATE TABLE v (id INT, a BINARY, b BINARY) TBLPROPERTIES ({OPTIONS}, 'blob-view-field' = 'a, b')"
    )
    with pytest.raises(InvalidArgument, match="stores views"):
        sql("INSERT INTO v VALUES (1, X'01', NULL)")

    def view(field: int, row: int, table: str = "default.t") -> str:
        return f"X'{BlobView(table, field, row).to_bytes().hex()}'"

    sql(
        f"INSERT INTO v VALUES (1, {view(picture, 0)}, NULL), (2, {view(thumb, 1)}, {view(thumb, 0)})"
    )
    table = sql.session.catalog.get_table("default.v")
    assert {f.file.write_cols for f in scan_files(table, table.latest_or_not_found())} == {
        ("id", "a", "b")
    }
    with pytest.raises(UnsupportedFeature, match=r"blob-view\.resolve\.enabled=false"):
        read_table(table, table.latest_or_not_found())
    raw = sql.session.catalog.get_table(
        "default.v", dynamic_options={"blob-view.resolve.enabled": "false"}
    )

    def blobs() -> list[list[bytes | None]]:
        rows = pa.Table.from_batches(read_table(raw, raw.latest_or_not_found())).sort_by("id")
        found = with_viewed_blobs(rows, ["a", "b"], sql.session.catalog.get_table)
        return [
            list(pair) for pair in zip(*(found.column(n).to_pylist() for n in "ab"), strict=True)
        ]

    assert blobs() == [[b"\x01\x02", None], [b"\x04", None]]
    sql("UPDATE v SET id = 3 WHERE id = 2")
    assert blobs()[1] == [b"\x04", None]
    # A view of a view.
    sql(f"INSERT INTO v VALUES (4, {view(table.schema.fields[1].id, 0, 'default.v')}, NULL)")
    assert blobs()[2] == [b"\x01\x02", None]
    sql("UPDATE t SET picture = X'FF' WHERE id = 1")
    assert blobs()[0][0] == b"\xff"
    sql("DELETE FROM t WHERE id = 2")
    with pytest.raises(NotFound, match=r"names row 1 of table default\.t"):
        blobs()


def test_statistics_count_each_row_once(sql: Sql) -> None:
    sql(PICTURES)
    sql("INSERT INTO t VALUES (1, X'01', 'a', NULL), (2, X'02', 'b', NULL), (3, NULL, 'b', NULL)")
    sql("UPDATE t SET name = 'new' WHERE id = 1")
    sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    table = _table(sql)
    found = read_statistics(table, table.latest_or_not_found())
    assert found is not None
    assert found.merged_record_count == 3
    assert found.columns["id"].distinct_count == 3
    assert found.columns["name"].distinct_count == 2
    assert "picture" not in found.columns


def _blob_files(sql: Sql, column: str) -> list[tuple[int, int, int]]:
    """First row, rows and commit of the files of a column."""
    table = _table(sql)
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    return sorted(
        (f.first_row_id or 0, f.row_count, f.max_sequence_number)
        for f in files
        if f.write_cols == (column,)
    )


def _changed(sql: Sql, values: dict[int, dict[str, object]]) -> None:
    """Commit new values by id, as MERGE does."""
    target = open_target(sql.session, sql.session.target_name(("t",)), "MERGE")
    ids = target.rows.column("id").to_pylist()
    rows = [{**r, **values[r["id"]]} for r in target.rows.to_pylist() if r["id"] in values]
    numbers = np.array([i for i, at in enumerate(ids) if at in values], np.int64)
    added = pa.Table.from_pylist(rows, target.rows.schema)
    names = sorted({name for row in values.values() for name in row})
    target.commit(np.empty(0, np.int64), added, origins=numbers, columns=names)


def test_updates_write_only_new_values(sql: Sql) -> None:
    sql(PICTURES.replace("'blob-field'", "'blob.target-file-size' = '30 b', 'blob-field'"))
    sql("INSERT INTO t VALUES " + ", ".join(f"({i}, X'{i:040x}', 'n', X'0{i}')" for i in range(4)))
    before = _rows(sql)
    sql("UPDATE t SET picture = X'FF' WHERE id IN (1, 3)")
    before[1]["picture"] = before[3]["picture"] = b"\xff"
    assert _rows(sql) == before
    assert [f for f in _blob_files(sql, "picture") if f[2] > 1] == [(0, 4, 2)]
    assert [f[2] for f in _blob_files(sql, "thumb")] == [1] * len(_blob_files(sql, "thumb"))
    # The same value again is none; null is one.
    _changed(sql, {1: {"picture": b"\xff", "thumb": None}, 2: {"name": "new"}})
    before[1]["thumb"], before[2]["name"] = None, "new"
    assert _rows(sql) == before
    assert [f for f in _blob_files(sql, "picture") if f[2] > 2] == []
    assert [f for f in _blob_files(sql, "thumb") if f[2] > 1] == [(0, 4, 3)]
    sql("ALTER TABLE t ADD COLUMN late BINARY COMMENT '__BLOB_FIELD'")
    sql("UPDATE t SET late = X'AA' WHERE id = 0")
    assert [row["late"] for row in _rows(sql)] == [b"\xaa", None, None, None]


def test_updates_of_arrays_and_maps(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT, a ARRAY<BINARY>, m MAP<STRING, BINARY>) "
        f"TBLPROPERTIES ({OPTIONS}, 'blob-field' = 'a, m')"
    )
    table = _table(sql)
    rows = [{"id": 1, "a": [b"1", None], "m": [("k", b"2"), ("none", None)]}, {"id": 2}]
    batch = pa.Table.from_pylist(rows, arrow_schema(table.schema.row_type))
    write_rows(table, batch, env=sql.session.env)
    _changed(sql, {2: {"a": [b"22", b""], "m": [("x", b"333")]}})
    expected = [rows[0], {"id": 2, "a": [b"22", b""], "m": [("x", b"333")]}]
    assert _rows(sql) == expected
    sql("ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'true')")

    def content(value: bytes | None) -> bytes | None:
        if value is None:
            return None
        found = parse_descriptor(value)
        return Path(found.uri).read_bytes()[found.offset :][: found.length]

    described = [
        {
            "id": row["id"],
            "a": [content(v) for v in row["a"]],
            "m": [(k, content(v)) for k, v in row["m"]],
        }
        for row in _rows(sql)
    ]
    assert described == expected
    # Descriptors that come back are the values that are there.
    found = _rows(sql)
    _changed(sql, {1: {"a": found[1]["a"]}, 2: {"m": found[1]["m"]}})
    sql("ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'false')")
    assert _rows(sql) == [{**expected[0], "a": expected[1]["a"]}, expected[1]]
    assert [f for f in _blob_files(sql, "m") if f[2] > 2] == []


def test_updates_of_other_columns_fetch_no_blobs(sql: Sql, tmp_path: Path) -> None:
    sql(PICTURES.replace("'blob-field'", "'blob-descriptor-field' = 'thumb', 'blob-field'"))
    sql(f"INSERT INTO t VALUES (1, X'01', 'a', sys.path_to_descriptor('{tmp_path}/no'))")
    sql("UPDATE t SET name = 'b' WHERE id = 1")
    table = _table(sql)
    others = read_table(table, table.latest_or_not_found(), columns=["name", "picture"])
    assert [b.select(["name", "picture"]).to_pylist() for b in others] == [
        [{"name": "b", "picture": b"\x01"}]
    ]
    with pytest.raises(UnsupportedFeature, match="thumb without blob-as-descriptor=true"):
        sql("UPDATE t SET thumb = NULL WHERE id = 1")
    sql("ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'true')")
    with pytest.raises(InvalidArgument, match="stores descriptors of BLOBs"):
        sql("UPDATE t SET thumb = X'01' WHERE id = 1")
    sql(f"UPDATE t SET thumb = X'{BlobDescriptor('/other').to_bytes().hex()}' WHERE id = 1")
    assert parse_descriptor(_rows(sql)[0]["thumb"]).uri == "/other"


def test_blobs_of_primary_keys_are_in_packs(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT, b BINARY, a ARRAY<BINARY>, v STRING) TBLPROPERTIES ('primary-key' = 'id', "
        "'bucket' = '1', 'write-only' = 'true', 'blob-field' = 'b, a', 'blob.target-file-size' = '40 b')"
    )
    table = _table(sql)
    schema = arrow_schema(table.schema.row_type)
    for rows in (
        [{"id": 1, "b": bytes(20), "a": [b"1", None]}, {"id": 2, "b": bytes(21)}, {"id": 3}],
        [{"id": 2, "b": b"", "v": "new"}, {"id": 3, "b": b"3" * 30}],
    ):
        write_rows(table, pa.Table.from_pylist(rows, schema), env=sql.session.env)
    sql("UPDATE t SET v = 'also new', b = X'FF' WHERE id = 3")
    sql("DELETE FROM t WHERE id = 2")
    expected = [
        {"id": 1, "b": bytes(20), "a": [b"1", None], "v": None},
        {"id": 3, "b": b"\xff", "a": None, "v": "also new"},
    ]
    assert _rows(sql) == expected
    folder = Path(table.root) / "bucket-0"
    packs = {str(p) for p in folder.glob("*.managed.blob")}
    assert len(packs) == 4
    files = [e.file for e in scan_files(table, table.latest_or_not_found())]
    named = set()
    for file in files:
        assert file.extra_files == (f"{file.file_name}.blobref",)
        found = pack_paths((folder / file.extra_files[0]).read_bytes())
        named |= {path.removeprefix("file:") for path in found}
    assert named <= packs

    sql("CALL sys.compact('t')")
    assert _rows(sql) == expected
    (merged,) = [e.file for e in scan_files(table, table.latest_or_not_found())]
    assert merged.level > 0
    left = pack_paths((folder / f"{merged.file_name}.blobref").read_bytes())
    assert len(left) == 3
    assert {str(p) for p in folder.glob("*.managed.blob")} == packs
    described = replace(table, schema=table.schema.with_options({"blob-as-descriptor": "true"}))
    batches = read_table(described, table.latest_or_not_found(), columns=["id", "b"])
    uris = {parse_descriptor(r["b"]).uri for b in batches for r in b.to_pylist()}
    assert uris <= set(left)
    packs_now = set(folder.glob("*.managed.blob"))
    with pytest.raises(InvalidArgument, match="cannot read the BLOB"):
        sql("INSERT INTO t (id, b) VALUES (7, X'01'), (8, sys.path_to_descriptor('/no/such/file'))")
    assert set(folder.glob("*.managed.blob")) == packs_now
    with pytest.MonkeyPatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError("no space left")

        # The packs are closed by then.
        patch.setattr(data_file_writer, "references", full)
        with pytest.raises(OSError, match="no space"):
            sql("INSERT INTO t (id, b) VALUES (7, X'01')")
    assert set(folder.glob("*.managed.blob")) == packs_now
    sql("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'false')")
    sql("INSERT INTO t (id, b) VALUES (9, X'09')")
    assert [row["id"] for row in _rows(sql)] == [1, 3, 9]


def test_postponed_blobs(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT, b BINARY) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2', "
        "'blob-field' = 'b', 'postpone.merge-on-read' = 'true')"
    )
    table = _table(sql)
    rows = pa.Table.from_pylist([{"id": 1, "b": b"1"}], arrow_schema(table.schema.row_type))
    write_rows(table, rows, env=sql.session.env)
    scan = batch_scan_of(table)
    assert [b.to_pylist() for b in read_batch(scan, columns=["b"])] == [
        [{"_VALUE_KIND": 0, "b": b"1"}]
    ]
    sql("CALL sys.compact('t')")
    assert _rows(sql) == [{"id": 1, "b": b"1"}]


def test_descriptors_of_files_on_another_store(sql: Sql) -> None:
    import fsspec

    with fsspec.open("memory://bucket/photo", "wb") as file:
        file.write(b"0123456789")
    sql(PICTURES)
    value = f"X'{BlobDescriptor('memory://bucket/photo', 2, 3).to_bytes().hex()}'"
    with pytest.raises(UnsupportedFeature, match="with the prefix blob-descriptor"):
        sql(f"INSERT INTO t VALUES (1, {value}, 'a', NULL)")
    sql("SET spark.paimon.blob-descriptor.any=option")
    sql(f"INSERT INTO t VALUES (1, {value}, 'a', NULL)")
    assert _rows(sql)[0]["picture"] == b"234"
