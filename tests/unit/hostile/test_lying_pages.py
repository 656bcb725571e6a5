"""Data files whose pages or rows are not what they should be: compaction names the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import caretaker, read_rows
from lakes import ENV, Lake
from small_pages import small_pages

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.format.parquet.footer import FILE_ROW_GROUPS, footer_bytes, structs_of
from paimon_core.format.parquet.thrift_compact import decode_struct, encode_struct
from paimon_core.manifest.data_file import FileKind
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.write import page_writer
from paimon_maintenance.job.exit_codes import ExitCode


def _largest(lake: Lake) -> Path:
    table = lake.table()
    entries = scan_files(table, table.latest_or_not_found())
    entry = max(entries, key=lambda e: e.file.file_size)
    return Path(table.paths.data_file(entry.partition, entry.bucket, entry.file))


def test_a_page_that_is_copied(lake: Lake) -> None:
    lake.primary_key()
    with small_pages(50):
        lake.append({"k": range(1000), "v": [f"value {i}" for i in range(1000)]})
        assert caretaker("run", "compact", "db.t", "-w", lake.warehouse).code == 0
        lake.append({"k": range(500, 510), "v": ["new"] * 10})
        path = _largest(lake)
        metadata = pq.read_metadata(path)
        chunk = metadata.row_group(0).column(metadata.schema.names.index("v"))
        content = bytearray(path.read_bytes())
        content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
        path.write_bytes(content)
        ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.CORRUPT_TABLE, ran.err
    assert "does not have its checksum" in ran.err
    assert path.name in ran.err


def test_a_row_group_that_claims_more_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers go by what the pages hold, so its rows can be read, and have to stay readable."""
    monkeypatch.setattr(page_writer, "PAGE_ROWS", 0)
    lake.log(**{"compaction.min.file-num": "2"})
    for first in (0, 1000):
        lake.append({"k": range(first, first + 1000), "v": [str(i) for i in range(1000)]})
    path, rows = _largest(lake), read_rows(lake.warehouse)
    content = path.read_bytes()
    old = footer_bytes(pa.BufferReader(content))
    footer = decode_struct(old)
    (group,) = structs_of(footer, FILE_ROW_GROUPS)
    (count,) = [f for f in group if f.id == 3]
    count.value = 1001
    new = encode_struct(footer)
    assert len(new) == len(old)
    path.write_bytes(content.replace(old, new))
    assert read_rows(lake.warehouse) == rows
    ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert read_rows(lake.warehouse) == rows


def test_a_file_that_is_not_sorted(lake: Lake) -> None:
    lake.primary_key()
    lake.append({"k": range(10), "v": ["x"] * 10})
    lake.append({"k": range(5, 8), "v": ["y"] * 3})
    path, table = _largest(lake), lake.table()
    pq.write_table(pq.read_table(path).take([*range(9, -1, -1)]), path)
    entries = scan_files(table, table.latest_or_not_found())
    (entry,) = [e for e in entries if e.file.file_name == path.name]
    file = replace(entry.file, file_size=path.stat().st_size)
    changes = ManifestChanges((replace(entry, kind=FileKind.DELETE), replace(entry, file=file)))
    request = CommitRequest(user="liar", kind=CommitKind.OVERWRITE, check=False)
    commit_changes(table, lambda _: changes, request, env=ENV)
    for words in (["read"], ["run", "compact"]):
        ran = caretaker(*words, "db.t", "-w", lake.warehouse)
        assert ran.code == ExitCode.CORRUPT_TABLE, (words, ran.err)
        assert "is not sorted by its key" in ran.err
        assert path.name in ran.err
