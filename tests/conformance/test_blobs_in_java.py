"""BLOBs: Flink reads the files that the tests write, and ours reads the packs that Flink writes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import caretaker
from lakes import age_all
from sql_sessions import Sql

from oracle import FlinkSql
from paimon_core.environment import system_environment
from paimon_core.format.blob.descriptor import BlobDescriptor, parse_descriptor
from paimon_core.format.blob.view import BlobView
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import write_rows
from paimon_core.types.arrow import arrow_schema
from paimon_maintenance.job.exit_codes import ExitCode

KINDS = Path(__file__).parents[1] / "golden" / "newer" / "kinds"
OURS = """
USE db;
CREATE TABLE o (k INT, b BINARY, s STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true',
  'data-evolution.enabled' = 'true', 'blob-field' = 'b');
INSERT INTO o VALUES (1, X'01FF', 'one'), (2, NULL, 'old'), (3, X'', '3');
CREATE TABLE many (k INT, a ARRAY<BINARY> COMMENT '__BLOB_FIELD; pictures') TBLPROPERTIES (
  'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
ALTER TABLE many ADD COLUMN m MAP<STRING, BINARY> COMMENT '__BLOB_FIELD';
ALTER TABLE many ADD COLUMN n MAP<BIGINT, BINARY> COMMENT '__BLOB_FIELD';
CREATE TABLE descs (k INT, d BINARY COMMENT '__BLOB_DESCRIPTOR_FIELD', b BINARY COMMENT '__BLOB_FIELD')
TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
CREATE TABLE vec (k INT, e ARRAY<FLOAT>) TBLPROPERTIES (
  'vector-field' = 'e', 'field.e.vector-dim' = '2');
CREATE TABLE mine (k INT, b BINARY, a ARRAY<BINARY>, m MAP<STRING, BINARY>) TBLPROPERTIES (
  'primary-key' = 'k', 'bucket' = '1', 'write-only' = 'true', 'blob-field' = 'b, a, m');
CREATE TABLE looks (k INT, v BINARY COMMENT '__BLOB_VIEW_FIELD') TBLPROPERTIES (
  'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
UPDATE o SET s = 'two' WHERE k = 2;
INSERT INTO o VALUES (4, X'04', '4'), (5, X'05', '5'), (6, X'06', '6');
UPDATE o SET b = X'44' WHERE k = 4;
UPDATE o SET b = NULL, s = 'none' WHERE k = 6;
"""
PACKS = """
CREATE TABLE p (k INT, b BYTES COMMENT '__BLOB_FIELD', a ARRAY<BYTES> COMMENT '__BLOB_FIELD',
  m MAP<STRING, BYTES> COMMENT '__BLOB_FIELD', PRIMARY KEY (k) NOT ENFORCED
) WITH ('bucket' = '1', 'write-only' = 'true');
INSERT INTO p SELECT k, b, ARRAY[b, c], MAP['x', b] FROM
  (VALUES (1, X'01', X'0102'), (2, X'02', X'')) AS v (k, b, c);
INSERT INTO p (k, b) VALUES (2, X'22'), (3, CAST(NULL AS BYTES));
SELECT * FROM p;
"""
MANY = (
    [{"k": 1, "a": [b"\1", None, b""]}, {"k": 2}, {"k": 3, "a": []}],
    [{"k": 4, "a": [b"\2\3"], "m": [("a", b"\4"), ("b", None)], "n": [(-7, b"\5")]}],
)
PACKED = (
    [
        {"k": 1, "b": b"\1", "a": [b"\2", None], "m": [("x", b"\3"), ("y", None)]},
        {"k": 2, "b": b""},
    ],
    [{"k": 2, "b": b"\4"}, {"k": 3, "b": b"\5", "a": []}, {"k": 4, "b": b"\6"}],
)
VECTORS = [{"k": 1, "e": [1.5, 2.0]}, {"k": 2}]


@pytest.mark.long
def test_blobs_of_either_are_read_by_the_other(flink_sql: FlinkSql, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(KINDS / "blob_values" / "warehouse", lake)
    Sql(lake)(OURS)
    photo = tmp_path / "photo"
    photo.write_bytes(b"\7\7")
    described = [{"k": 1, "d": BlobDescriptor(f"file:{photo}").to_bytes(), "b": b"\1"}, {"k": 2}]
    for name, rows in (
        *(("many", m) for m in MANY),
        *(("mine", m) for m in PACKED),
        ("vec", VECTORS),
        ("descs", described),
    ):
        written = open_table(str(lake), f"db.{name}")
        batch = pa.Table.from_pylist(rows, arrow_schema(written.schema.row_type))
        write_rows(written, batch, env=system_environment())
    Sql(lake)("USE db; DELETE FROM mine WHERE k = 4")
    viewed = open_table(str(lake), "db.o").schema.fields[1].id
    view = BlobView("db.o", viewed, 0).to_bytes()
    Sql(lake)(f"USE db; INSERT INTO looks VALUES (1, X'{view.hex()}')")
    table = open_table(str(lake), "db.t")
    commit_blob_file(table, "b", 0, [PLACEHOLDER, b"new", PLACEHOLDER, None])
    commit_blob_file(table, "b", 1, [PLACEHOLDER, b"newer", PLACEHOLDER])
    merge_small = ("--engine", "local", "--options", "compaction.min.file-num=2")
    for name in ("db.t", "db.o"):
        ran = caretaker("run", "compact", name, "-w", lake, *merge_small)
        assert ran.code == ExitCode.SUCCESS, ran.err
    lines = flink_sql(
        f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}');\n"
        "USE CATALOG c;\nUSE db;\nSET 'table.dml-sync' = 'true';\n"
        "SET 'parallelism.default' = '1';\n" + PACKS + "SELECT k, b FROM t;\n"
        "INSERT INTO o VALUES (9, X'09', 'flink');\n"
        "SELECT 'ours', k, b, s FROM o;\n"
        "SELECT 'many', k, a, m, n FROM many;\n"
        "SELECT 'vec', k, e FROM vec;\n"
        f"INSERT INTO descs SELECT 3, sys.path_to_descriptor('file:{photo}'), X'03';\n"
        "SELECT 'descs', k, d, b FROM descs;\n"
        "SELECT 'mine', k, b, a, m FROM mine;\n"
        "INSERT INTO looks SELECT 2, sys.blob_view('db.o', 'b', CAST(0 AS BIGINT));\n"
        "SELECT 'looks', k, v FROM looks;\n"
        "INSERT INTO mine (k, b) VALUES (3, X'33');\n"
        "CALL sys.compact(`table` => 'db.mine', options => 'write-only=false');\n"
    )
    both = [line for line in lines if line.startswith("+I[ours")]
    assert sorted(both) == [
        "+I[ours, 1, [1, -1], one]",
        "+I[ours, 2, null, two]",
        "+I[ours, 3, [], 3]",
        "+I[ours, 4, [68], 4]",
        "+I[ours, 5, [5], 5]",
        "+I[ours, 6, null, none]",
        "+I[ours, 9, [9], flink]",
    ]
    assert sorted(line for line in lines if line.startswith("+I[many")) == [
        "+I[many, 1, [[1], null, []], null, null]",
        "+I[many, 2, null, null, null]",
        "+I[many, 3, [], null, null]",
        "+I[many, 4, [[2, 3]], {a=[4], b=null}, {-7=[5]}]",
    ]
    assert sorted(line for line in lines if line.startswith("+I[descs")) == [
        "+I[descs, 1, [7, 7], [1]]",
        "+I[descs, 2, null, null]",
        "+I[descs, 3, [7, 7], [3]]",
    ]
    descs = open_table(str(lake), "db.descs", dynamic_options={"blob-as-descriptor": "true"})
    found = {
        row["k"]: row["d"] and parse_descriptor(row["d"]).uri.removeprefix("file:")
        for batch in read_table(descs, descs.latest_or_not_found(), columns=["k", "d"])
        for row in batch.to_pylist()
    }
    assert found == {1: str(photo), 2: None, 3: str(photo)}
    assert sorted(line for line in lines if line.startswith("+I[mine")) == [
        "+I[mine, 1, [1], [[2], null], {x=[3], y=null}]",
        "+I[mine, 2, [4], null, null]",
        "+I[mine, 3, [5], [], null]",
    ]
    both = sorted(line for line in lines if line.startswith("+I[looks"))
    assert both == ["+I[looks, 1, [1, -1]]", "+I[looks, 2, [1, -1]]"]
    views = open_table(
        str(lake), "db.looks", dynamic_options={"blob-view.resolve.enabled": "false"}
    )
    stored = [r for b in read_table(views, views.latest_or_not_found()) for r in b.to_pylist()]
    assert sorted((r["k"], r["v"]) for r in stored) == [(1, view), (2, view)]
    mine = caretaker("read", "db.mine", "-w", lake, "--columns", "k,b")
    assert sorted(row[1:] for row in mine.rows) == [[1, "01"], [2, "04"], [3, "33"]]
    assert caretaker("verify", "db.mine", "-w", lake, "--deep").code == ExitCode.SUCCESS
    vectors = sorted(line for line in lines if line.startswith("+I[vec"))
    assert vectors == ["+I[vec, 1, [1.5, 2.0]]", "+I[vec, 2, null]"]
    ours = open_table(str(lake), "db.o")
    written = read_table(ours, ours.latest_or_not_found())
    assert sorted((r["k"], r["b"]) for b in written for r in b.to_pylist()) == [
        (1, b"\x01\xff"),
        (2, None),
        (3, b""),
        (4, b"\x44"),
        (5, b"\x05"),
        (6, None),
        (9, b"\x09"),
    ]
    theirs = {line for line in lines if re.match(r"\+I\[\d", line)}
    expected = {
        _as_flink(r) for r in caretaker("read", "db.t", "-w", lake, "--columns", "k,b").rows
    }
    assert len(expected) == 11
    packs = caretaker("read", "db.p", "-w", lake)
    assert packs.code == ExitCode.SUCCESS, packs.err
    assert theirs == expected | {_as_flink(row) for row in packs.rows}
    for words in (
        ("create_tag", "--tag", "kept"),
        ("compact_manifest",),
        ("expire_snapshots", "--retain-max", 1, "--retain-min", 1, "--older-than", "2100-01-01"),
        ("remove_orphan_files", "--unknown-kinds"),
    ):
        age_all(lake)
        ran = caretaker("run", words[0], "db.p", "-w", lake, "--force", *words[1:])
        assert ran.code in {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}, ran.err
        assert caretaker("read", "db.p", "-w", lake).rows == packs.rows
    assert caretaker("verify", "db.p", "-w", lake, "--deep").code == ExitCode.SUCCESS


def _as_flink(row: list[object]) -> str:
    """The row as Flink prints it; maps of one entry only."""
    return f"+I[{', '.join(_value(v) for v in row[1:])}]"


def _value(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return str([b - 256 if b > 127 else b for b in bytes.fromhex(value)])
        case [[str(key), str(blob)]]:
            return f"{{{key}={_value(blob)}}}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return str(value)
