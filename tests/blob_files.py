"""Writes BLOB files as Java does (`format/blob/BlobFormatWriter`), and commits them to tables."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from lakes import ENV

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, FileKind, FileSource, ManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind

PLACEHOLDER: Final = object()
"""A value that an update leaves as it is."""


def delta_varints(numbers: Sequence[int]) -> bytes:
    """The numbers as Java's `DeltaVarintCompressor` writes them."""
    out = bytearray()
    last = 0
    for number in numbers:
        delta, last = number - last, number
        zigzag = (delta << 1) ^ (delta >> 63)
        while zigzag > 0x7F:
            out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        out.append(zigzag)
    return bytes(out)


def blob_file(values: Sequence[object]) -> bytes:
    """A BLOB file with these values: bytes, None, or PLACEHOLDER."""
    out = bytearray()
    lengths = []
    for value in values:
        if not isinstance(value, bytes):
            lengths.append(-1 if value is None else -2)
            continue
        length = len(value) + 16
        element = struct.pack("<i", 1_481_511_375) + value + struct.pack("<q", length)
        out += element + struct.pack("<I", zlib.crc32(element))
        lengths.append(length)
    index = delta_varints(lengths)
    return bytes(out + index + struct.pack("<iB", len(index), 1))


def commit_blob_file(
    table: FileStoreTable, column: str, first_row_id: int, values: Sequence[object]
) -> str:
    """Commit a file with new values of a BLOB column from this row on; its path."""
    rows = next(
        e
        for e in scan_files(table, table.latest_or_not_found())
        if 0 <= first_row_id - (e.file.first_row_id or 0) < e.file.row_count
    )
    content = blob_file(values)
    file = DataFileMeta(
        file_name=f"data-{ENV.new_uuid()}-0.blob",
        file_size=len(content),
        row_count=len(values),
        schema_id=table.schema.id,
        creation_time=ENV.local_millis(),
        delete_row_count=0,
        file_source=FileSource.APPEND,
        value_stats_cols=(),
        first_row_id=first_row_id,
        write_cols=(column,),
    )
    path = table.paths.data_file(rows.partition, rows.bucket, file)
    table.io.write_bytes(path, content)
    entry = ManifestEntry(FileKind.ADD, rows.partition, rows.bucket, rows.total_buckets, file)
    request = CommitRequest(user=ENV.new_uuid(), kind=CommitKind.APPEND, check=False)
    commit_changes(table, lambda _: ManifestChanges((entry,)), request, env=ENV)
    return path
