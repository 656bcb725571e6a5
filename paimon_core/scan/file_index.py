"""Rules out files by their file indexes (Java: `io/FileIndexEvaluator`).

Small indexes are embedded in the manifest and prune the plan; larger ones are separate files that
are read right before their data file (`without_ruled_out`).  A file remains if its index does not
apply, for example because the column has changed its type.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.file_index.evaluate import rows_that_may_match
from paimon_core.index.file_index.writer import INDEX_SUFFIX
from paimon_core.io.file_io import map_parallel
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import FILE_INDEX_READ_ENABLED
from paimon_core.predicate import Predicate, conjunction, fields_of, renamed, split_conjuncts
from paimon_core.schema.table_schema import TableSchema


def reads_file_indexes(table: FileStoreTable) -> bool:
    """Return whether the table enables reading its file indexes."""
    return table.options.value(FILE_INDEX_READ_ENABLED)


def rules_out_embedded(table: FileStoreTable, file: DataFileMeta, predicate: Predicate) -> bool:
    """Return whether the embedded index shows that no row of the file can match."""
    if file.embedded_index is None:
        return False
    return _rules_out(table, file, file.embedded_index, predicate, where=file.file_name)


def without_ruled_out(
    table: FileStoreTable, entries: Sequence[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    """Return the entries whose separate index file allows matching rows.

    Reads those indexes; only valid for files whose rows do not hide each other.
    """
    if not reads_file_indexes(table) or not any(_index_name(e.file) for e in entries):
        return list(entries)
    ruled_out = map_parallel(table.io, lambda e: _beside(table, e, predicate), entries)
    return [e for e, out in zip(entries, ruled_out, strict=True) if not out]


def _index_name(file: DataFileMeta) -> str | None:
    return next((n for n in file.extra_files if n.endswith(INDEX_SUFFIX)), None)


def _beside(table: FileStoreTable, entry: ManifestEntry, predicate: Predicate) -> bool:
    name = _index_name(entry.file)
    if name is None or entry.file.embedded_index is not None:
        return False
    path = table.paths.extra_file(entry.partition, entry.bucket, entry.file, name)
    try:
        index = read_whole(table.io, path)
    except FileNotFoundError:
        return False  # the data file has all rows; `caretaker verify` reports the missing index
    return _rules_out(table, entry.file, index, predicate, where=path)


def _rules_out(
    table: FileStoreTable, file: DataFileMeta, index: bytes, predicate: Predicate, *, where: str
) -> bool:
    written = table.schema_of(file.schema_id)
    asked = in_terms_of(written, table.schema, predicate)
    if asked is None:
        return False
    try:
        rows = rows_that_may_match(index, asked, written.row_type)
    except UnsupportedFeature:
        return False  # an unknown kind or version of index rules out nothing
    except CorruptTable as e:
        e.table, e.file = table.name, where
        raise
    return rows is not None and not rows


def in_terms_of(
    written: TableSchema, current: TableSchema, predicate: Predicate
) -> Predicate | None:
    """Return the part of the predicate that applies to a file with schema `written`, or None.

    Only whole conditions are left out, so the rest is true wherever the predicate is.
    """
    if written.id == current.id:
        return predicate
    old = {f.id: f for f in written.fields}
    names: dict[str, str] = {}
    for field in current.fields:
        before = old.get(field.id)
        if before is not None and before.type.with_nullable(True) == field.type.with_nullable(True):
            names[field.name] = before.name
    kept = [c for c in split_conjuncts(predicate) if fields_of(c) <= names.keys()]
    return renamed(conjunction(kept), names) if kept else None
