"""A BLOB column of rows whose files share row ids (Java: `operation/BlobFallbackRecordReader`).

Several files hold the column: each a part of the rows, and an update adds files with higher
sequence numbers.  The newest file that has a row decides, unless it has a placeholder there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import BlobDescriptor
from paimon_core.format.blob.elements import (
    Decode,
    Locate,
    Read,
    decoder_of,
    locator_of,
    with_blobs,
)
from paimon_core.format.blob.reader import (
    MAGIC,
    OVERHEAD,
    PLACEHOLDER,
    BlobIndex,
    read_elements,
    read_index,
)
from paimon_core.format.data_format import decoding
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import BLOB_AS_DESCRIPTOR
from paimon_core.read.blob_ranges import OpenFiles, batches_of
from paimon_core.read.data_file import missing_data_file
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import DataField

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Part:
    path: str
    index: BlobIndex


@dataclass(frozen=True, slots=True)
class _Places:
    """For each row, the number of the part that has it and its row there; _NOWHERE for null."""

    part: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def read_blob_column(
    table: FileStoreTable,
    field: DataField,
    entries: Sequence[ManifestEntry],
    row_ids: range,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the column for these rows, in batches of bounded size; `entries` are its BLOB files.

    With `blob-as-descriptor`, the values are descriptors of BLOBs (Java: `data/BlobDescriptor`).

    Raises UnsupportedFeature for files that leave out some of the rows, CorruptTable for files that
    are missing, damaged or contradict each other.
    """
    decode, locate = decoder_of(field.type), locator_of(field.type)
    if decode is None or locate is None:
        raise UnsupportedFeature(f"BLOB files with the type of column {field.name}")
    newest = sorted(entries, key=lambda e: (-e.file.max_sequence_number, e.file.first_row_id or 0))
    _check_overlaps(newest)
    with closing(OpenFiles(table.io)) as files:
        parts = [_part(table, entry, files) for entry in newest]
        places = _places(newest, parts, row_ids)
        kind = arrow_type(field.type)
        for rows in batches_of(places.sizes, batch_rows, parts[0].path):
            if table.options.value(BLOB_AS_DESCRIPTOR):
                values = list(_descriptors(places, parts, rows, files, locate))
            else:
                values = list(_values(places, parts, rows, files, decode))
            yield pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[field.name])


def _check_overlaps(newest: Sequence[ManifestEntry]) -> None:
    for a, b in pairwise(e.file for e in newest):
        end = (a.first_row_id or 0) + a.row_count
        if a.max_sequence_number == b.max_sequence_number and (b.first_row_id or 0) < end:
            raise CorruptTable("two BLOB files of one commit hold the same rows", file=b.file_name)


def _part(table: FileStoreTable, entry: ManifestEntry, files: OpenFiles) -> _Part:
    path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    try:
        with decoding(path):
            index = read_index(files(path))
    except FileNotFoundError as e:
        raise missing_data_file(path) from e
    if len(index.lengths) != entry.file.row_count:
        raise CorruptTable(
            f"a BLOB file holds {len(index.lengths)} rows where its metadata says "
            f"{entry.file.row_count}",
            file=path,
        )
    return _Part(path, index)


def _places(newest: Sequence[ManifestEntry], parts: Sequence[_Part], row_ids: range) -> _Places:
    part = np.full(len(row_ids), _NOWHERE, np.int32)
    row = np.zeros(len(row_ids), np.int64)
    sizes = np.zeros(len(row_ids), np.int64)
    covered = np.zeros(len(row_ids), np.bool_)
    for number, (entry, source) in enumerate(zip(newest, parts, strict=True)):
        begin = (entry.file.first_row_id or 0) - row_ids.start
        end = begin + entry.file.row_count
        if begin < 0 or end > len(row_ids):
            raise CorruptTable("a BLOB file holds rows that its data file lacks", file=source.path)
        lengths = source.index.lengths
        taken = np.flatnonzero((part[begin:end] == _NOWHERE) & (lengths != PLACEHOLDER))
        part[begin + taken] = number
        row[begin + taken] = taken
        sizes[begin + taken] = np.maximum(lengths[taken], 0)
        covered[begin:end] = True
    if not covered.all():
        raise UnsupportedFeature("BLOB files that lack some rows", file=parts[0].path)
    return _Places(part, row, sizes)


def _values(
    places: _Places, parts: Sequence[_Part], rows: range, files: OpenFiles, decode: Decode
) -> Iterator[Any]:
    part, row = places.part[rows.start : rows.stop], places.row[rows.start : rows.stop]
    # Rows that follow each other in one file are fetched by one read.
    breaks = np.flatnonzero((np.diff(part) != 0) | (np.diff(row) != 1)) + 1
    for first, last in pairwise([0, *breaks.tolist(), len(part)]):
        if part[first] == _NOWHERE:
            yield from [None] * (last - first)
            continue
        source = parts[part[first]]
        with decoding(source.path):
            start = int(row[first])
            found = read_elements(files(source.path), source.index, start, start + last - first)
            yield from (None if v is None else decode(v) for v in found)


def _descriptors(
    places: _Places, parts: Sequence[_Part], rows: range, files: OpenFiles, locate: Locate
) -> Iterator[Any]:
    for at in rows:
        if places.part[at] == _NOWHERE or not places.sizes[at]:
            yield None
            continue
        source = parts[places.part[at]]
        offset = int(source.index.offsets[places.row[at]]) + len(MAGIC)
        with decoding(source.path):
            value = locate(_reader(files, source.path, offset), int(places.sizes[at]) - OVERHEAD)
        yield with_blobs(value, _describer(source.path, offset))


def _reader(files: OpenFiles, path: str, offset: int) -> Read:
    """Return the function that reads a value, which begins there."""
    return lambda at, size: bytes(files(path).read_at(size, offset + at))


def _describer(path: str, offset: int) -> Callable[[range], bytes]:
    return lambda r: BlobDescriptor(path, offset + r.start, len(r)).to_bytes()
