"""Rewrites files of a bucket=-1 table so that similar rows are adjacent.

Java: `SortCompactAction`.  Java overwrites the partition and loses concurrent appends
(apache/paimon #4802).  Here the result replaces exactly the files that were read, like a
compaction.

One task sorts a whole partition (`sort_files`), or several tasks share it::

    sample   of every group of files            -> cuts: codes between the tasks' ranges
    split    each group's rows by these cuts    -> chunks of rows, which the engine brings together
    join     all chunks of one range            -> files, in the order of the codes

Only files with new names are written, and nothing is committed.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.compaction.unit import CompactResult, CompactUnit
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.io.arrow_files import packed
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.read.data_file import read_table_file
from paimon_core.read.read_ahead import one_after_the_other, source_of
from paimon_core.read.section import MOST_ROWS
from paimon_core.read.table_read import deletion_vectors
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.buffers import RecordBatches
from paimon_core.types.data_types import RowType
from paimon_core.write.data_file_writer import RollingAppendWriter
from paimon_core.write.external_sort import (
    EXPANSION,
    Clustering,
    OrderStrategy,
    cuts_of,
    divided_rows,
    sorted_rows,
    words_of,
)
from paimon_core.write.on_failure import write_all

_FORMAT: Final = 1
_CHUNK_BYTES: Final = 1024**2
_WAITING_BYTES: Final = 64 * 1024**2
"""The limit for rows of all ranges that a splitting task buffers, to emit larger chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortUnit:
    """The files of one partition, and the clustering of their rows.

    `source` holds them as `append_files`; deletion vectors are read from `snapshot`, None if there
    are none.
    """

    source: CompactUnit
    clustering: Clustering
    snapshot: int | None = None

    @property
    def read_bytes(self) -> int:
        return self.source.rewritten_bytes

    def to_bytes(self) -> bytes:
        """Encode the unit for `from_bytes` of the same version of this library."""
        return json.dumps(
            {
                "format": _FORMAT,
                "source": base64.b64encode(self.source.to_bytes()).decode("ascii"),
                "strategy": str(self.clustering.strategy),
                "columns": list(self.clustering.columns),
                "text_bytes": self.clustering.text_bytes,
                "snapshot": self.snapshot,
            }
        ).encode()

    @staticmethod
    def from_bytes(data: bytes) -> SortUnit:
        """Decode the result of `to_bytes`; InvalidArgument for anything else."""
        try:
            obj: dict[str, Any] = json.loads(data)
        except ValueError as e:
            raise InvalidArgument(f"not the bytes of a sort unit: {e}") from e
        if obj.get("format") != _FORMAT:
            raise InvalidArgument("not the bytes of a sort unit, or of another version")
        return SortUnit(
            source=CompactUnit.from_bytes(base64.b64decode(obj["source"])),
            clustering=Clustering(
                strategy=OrderStrategy(obj["strategy"]),
                columns=tuple(obj["columns"]),
                text_bytes=obj["text_bytes"],
            ),
            snapshot=obj["snapshot"],
        )


def sort_files(
    table: FileStoreTable,
    unit: SortUnit,
    *,
    env: Environment,
) -> CompactResult:
    """Sort the unit; return the removed and the added files, which exist when this returns."""
    written = _write(
        table,
        unit,
        coded_rows(table, unit),
        expected_bytes=EXPANSION * unit.read_bytes,
        env=env,
    )
    return _result(unit, before=unit.source.append_files, after=written)


def sample_codes(table: FileStoreTable, unit: SortUnit, *, most: int) -> bytes:
    """Return about `most` codes of the unit's rows, concatenated. Reads only the needed columns."""
    row_type = table.schema.row_type.project(unit.clustering.columns)
    stride = max(1, unit.source.rewritten_rows // max(1, most))
    return b"".join(words_of(b)[::stride].tobytes() for b in coded_rows(table, unit, row_type))


def range_cuts(samples: Iterable[bytes], width: int, parts: int) -> list[bytes]:
    """Return codes (each of `width` bytes) that cut the samples into about `parts` ranges."""
    words = np.frombuffer(b"".join(samples), f"S{width}")
    if not len(words):
        return []
    # NumPy drops trailing zeros of a byte string.
    return [bytes(c).ljust(width, b"\0") for c in cuts_of(words, parts).tolist()]


def code_width(table: FileStoreTable, clustering: Clustering) -> int:
    """Return the size in bytes of a code of this table's rows."""
    row_type = table.schema.row_type.project(clustering.columns)
    nulls = [pa.nulls(1, field.type) for field in arrow_schema(row_type)]
    row = pa.RecordBatch.from_arrays(nulls, names=row_type.names)
    return int(words_of(clustering.with_codes(row, row_type)).itemsize)


def split_rows(
    table: FileStoreTable, unit: SortUnit, cuts: Sequence[bytes], width: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the range, a chunk of its rows) for all rows of the unit."""
    borders = np.frombuffer(b"".join(cuts), f"S{width}") if cuts else np.empty(0, f"S{width}")
    waiting: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)
    for batch in coded_rows(table, unit):
        numbers = np.searchsorted(borders, words_of(batch), side="right")
        for number, rows in divided_rows(batch, numbers):
            waiting[number].append(rows)
            sizes[number] += rows.nbytes
            if sizes[number] >= _CHUNK_BYTES:
                yield number, _chunk(waiting.pop(number))
                del sizes[number]
        while sum(sizes.values()) > _WAITING_BYTES:
            number = max(sizes, key=sizes.__getitem__)
            yield number, _chunk(waiting.pop(number))
            del sizes[number]
    for number in sorted(waiting):
        yield number, _chunk(waiting[number])


def join_range(
    table: FileStoreTable,
    unit: SortUnit,
    chunks: Iterable[bytes],
    *,
    expected_bytes: int,
    env: Environment,
) -> CompactResult:
    """Write the new files of one range; `unit` names the partition, its files are not read."""
    written = _write(
        table,
        unit,
        (batch for chunk in chunks for batch in pa.ipc.open_stream(chunk)),
        expected_bytes=expected_bytes,
        env=env,
    )
    return _result(unit, before=(), after=written)


def coded_rows(
    table: FileStoreTable, unit: SortUnit, row_type: RowType | None = None
) -> RecordBatches:
    """Yield the live rows of the unit's files with their codes, optionally only some columns."""
    read_type = row_type or table.schema.row_type
    at = unit.snapshot
    mine = [(unit.source.partition, unit.source.bucket)]
    vectors = {} if at is None else deletion_vectors(table, table.snapshots.get(at), mine)
    files = unit.source.append_files
    sources = [source_of(f.file_size, _rows, table, unit, f, read_type, vectors) for f in files]
    for batch in one_after_the_other(table.io, sources):
        yield unit.clustering.with_codes(batch, read_type)


def _rows(
    table: FileStoreTable,
    unit: SortUnit,
    file: DataFileMeta,
    read_type: RowType,
    vectors: Mapping[str, Positions],
) -> RecordBatches:
    source = unit.source
    batches = read_table_file(
        table, source.partition, source.bucket, file, read_type, batch_rows=MOST_ROWS
    )
    return without_deleted(batches, vectors.get(file.file_name))


def _write(
    table: FileStoreTable,
    unit: SortUnit,
    coded: RecordBatches,
    *,
    expected_bytes: int,
    env: Environment,
) -> tuple[DataFileMeta, ...]:
    source = unit.source
    writer = RollingAppendWriter(
        table.io,
        table.paths,
        source.partition,
        source.bucket,
        table.schema,
        file_source=FileSource.COMPACT,
        env=env,
    )
    return tuple(
        write_all(writer, sorted_rows(coded, unit.clustering, expected_bytes=expected_bytes))
    )


def _result(
    unit: SortUnit, *, before: tuple[DataFileMeta, ...], after: tuple[DataFileMeta, ...]
) -> CompactResult:
    return CompactResult(
        partition=unit.source.partition,
        bucket=unit.source.bucket,
        total_buckets=unit.source.total_buckets,
        before=before,
        after=after,
    )


def _chunk(batches: Sequence[pa.RecordBatch]) -> bytes:
    return packed([pa.concat_batches(batches)])
