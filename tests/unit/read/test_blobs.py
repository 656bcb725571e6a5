"""BLOB columns: newer files with placeholders, files that do not fit, and packs of primary-key tables."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from blob_files import PLACEHOLDER, commit_blob_file
from command_line import caretaker, in_order

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read import blob_ranges
from paimon_core.read.blob_column import read_blob_column
from paimon_core.read.managed_blobs import with_managed_blobs
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode

KINDS = Path(__file__).parents[2] / "golden" / "newer" / "kinds"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    shutil.copytree(KINDS / "blob_values" / "warehouse", tmp_path / "lake")
    return tmp_path / "lake"


def _table(lake: Path) -> FileStoreTable:
    return open_table(str(lake), "db.t")


def _column(table: FileStoreTable, name: str) -> list[object]:
    batches = read_table(table, table.latest_or_not_found(), columns=[name])
    return [v for b in batches for v in b.column(name).to_pylist()]


def test_updates_leave_values_with_placeholders(lake: Path) -> None:
    table = _table(lake)
    before = _column(table, "b")
    assert before[:4] == [
        b"\x01\x02",
        b"",
        bytes.fromhex("00112233445566778899aabbccddeeff" * 4),
        b"\x05",
    ]
    commit_blob_file(table, "b", 0, [PLACEHOLDER, b"new", PLACEHOLDER, None])
    commit_blob_file(table, "b", 1, [PLACEHOLDER, b"newer", PLACEHOLDER])
    assert _column(table, "b") == [before[0], b"new", b"newer", None, *before[4:]]
    ran = caretaker("read", "db.t", "-w", lake, "--where", "k = 4", "--columns", "s,b,k")
    assert ran.rows == [["+I", "four", b"newer".hex(), 4]]


def test_a_value_of_placeholders_only_is_null(lake: Path) -> None:
    table = _table(lake)
    at = len(_column(table, "n")) - 1
    commit_blob_file(table, "n", 10, [PLACEHOLDER])
    assert _column(table, "n")[at] == b"\x08\x08"


def test_small_batches_give_the_same_rows(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = caretaker("read", "db.t", "-w", lake).rows
    monkeypatch.setattr(blob_ranges, "BATCH_BYTES", 20)
    assert caretaker("read", "db.t", "-w", lake).rows == whole


def test_files_that_do_not_fit_are_refused(lake: Path) -> None:
    table = _table(lake)
    commit_blob_file(table, "b", 2, [b"1", b"2", b"beyond"])
    with pytest.raises(UnsupportedFeature, match="some rows"):
        _column(table, "b")


def test_files_that_lack_rows_or_hold_them_twice_are_refused(lake: Path) -> None:
    table = _table(lake)
    (field,) = (f for f in table.schema.fields if f.name == "b")
    commit_blob_file(table, "b", 0, [b"0", b"1", b"2", b"3"])
    files = [
        e
        for e in scan_files(table, table.latest_or_not_found())
        if e.file.write_cols == ("b",) and (e.file.first_row_id or 0) < 4
    ]
    newest = max(files, key=lambda e: e.file.max_sequence_number)
    with pytest.raises(UnsupportedFeature, match="lack some rows"):
        list(read_blob_column(table, field, [newest], range(5), 10))
    twice = replace(newest, file=replace(newest.file, first_row_id=2))
    with pytest.raises(CorruptTable, match="same rows"):
        list(read_blob_column(table, field, [newest, twice], range(6), 10))


def test_a_damaged_or_missing_file_is_reported(lake: Path) -> None:
    table = _table(lake)
    path = commit_blob_file(table, "b", 0, [b"0", b"1", b"2", b"3"])
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[:5] + bytes([content[5] ^ 1]) + content[6:])
    with pytest.raises(CorruptTable, match=r"checksum|header"):
        _column(table, "b")
    assert "wrong header" in caretaker("verify", "db.t", "-w", lake, "--deep").out
    Path(path).unlink()
    with pytest.raises(CorruptTable, match="missing"):
        _column(table, "b")


@pytest.mark.parametrize(
    "option",
    [
        ("blob-descriptor-field", "b"),
        ("blob-view-field", "a, b"),
        ("data-evolution.enabled", "false"),
    ],
)
def test_other_ways_to_store_blobs_are_refused_by_name(lake: Path, option: tuple[str, str]) -> None:
    schema = lake / "db.db" / "t" / "schema" / "schema-1"
    content = json.loads(schema.read_text())
    content["options"] |= [option]
    schema.write_text(json.dumps(content))
    ran = caretaker("read", "db.t", "-w", lake, "--columns", "k,b")
    assert ran.code == ExitCode.REFUSED
    assert option[0] in ran.err


def test_changes_are_refused(lake: Path) -> None:
    ran = caretaker("read", "db.t", "-w", lake, "--from-snapshot", 1, "--to-snapshot", 2)
    assert ran.code != ExitCode.SUCCESS


# --- primary-key tables -------------------------------------------------------------------------


def _descriptor(path: Path | str, offset: int, length: int, version: int = 2) -> bytes:
    uri = str(path).encode()
    head = struct.pack("<bqi", version, 0x424C4F4244455343, len(uri))
    return head + uri + struct.pack("<qq", offset, length)


@pytest.fixture
def managed(tmp_path: Path) -> FileStoreTable:
    shutil.copytree(KINDS / "blob_managed" / "warehouse", tmp_path / "lake")
    return open_table(str(tmp_path / "lake"), "db.t")


def _fetched(table: FileStoreTable, values: list[bytes | None]) -> Iterator[object]:
    batch = pa.RecordBatch.from_pydict(
        {"k": list(range(len(values))), "b": pa.array(values, pa.binary())}
    )
    for found in with_managed_blobs(table, iter([batch]), 2):
        yield from found.column("b").to_pylist()


def test_descriptors_are_replaced_by_their_values(managed: FileStoreTable) -> None:
    pack = Path(managed.root) / "bucket-0" / "x.managed.blob"
    pack.write_bytes(b"0123456789")
    values = [
        _descriptor(pack, 2, 3),
        None,
        _descriptor(f"file:{pack}", 4, -1),
        _descriptor(pack, 0, 0),
    ]
    assert list(_fetched(managed, values)) == [b"234", None, b"456789", b""]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (_descriptor("/etc/passwd", 0, -1), "outside"),
        (_descriptor("http://127.0.0.1:1/x", 0, -1), "outside"),
        (_descriptor("/x", 0, 1, version=3), "version 3"),
        (b"plain bytes", "within rows"),
    ],
)
def test_other_descriptors_are_refused(managed: FileStoreTable, value: bytes, error: str) -> None:
    with pytest.raises(UnsupportedFeature, match=error):
        list(_fetched(managed, [value]))


def test_a_table_that_was_moved_is_refused(managed: FileStoreTable) -> None:
    ran = caretaker("read", "db.t", "-w", Path(managed.root).parents[1])
    assert ran.code == ExitCode.REFUSED
    assert "outside the table's folder" in ran.err


def test_a_missing_or_short_pack_is_reported(managed: FileStoreTable) -> None:
    pack = Path(managed.root) / "bucket-0" / "x.managed.blob"
    pack.write_bytes(b"0123456789")
    with pytest.raises(CorruptTable, match="ends before"):
        list(_fetched(managed, [_descriptor(pack, 8, 5)]))
    with pytest.raises(CorruptTable, match="missing"):
        list(_fetched(managed, [_descriptor(pack.with_name("y.managed.blob"), 0, 1)]))


def test_rows_of_java_are_all_there(lake: Path) -> None:
    expected = json.loads((KINDS / "blob_values" / "rows.json").read_text())
    assert in_order(caretaker("read", "db.t", "-w", lake).rows) == in_order(expected["rows"])
