"""Which files the indexes of single files rule out (Java: `io/FileIndexEvaluator`).

An index is looked at in two places: small ones stand in the manifest and prune the plan; larger
ones lie beside their data file and are read right before it (`without_ruled_out`).  What an index
cannot tell, because it speaks of a column that has another type by now, remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.file_index.evaluate import rows_that_may_match
from paimon_core.io.file_io import map_parallel
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.options import FILE_INDEX_READ_ENABLED
from paimon_core.predicate import Predicate, conjunction, fields_of, renamed, split_conjuncts
from paimon_core.schema.table_schema import TableSchema

INDEX_SUFFIX: Final = ".index"


def reads_file_indexes(table: FileStoreTable) -> bool:
    """Whether the table lets its file indexes be used."""
    return table.options.value(FILE_INDEX_READ_ENABLED)


def rules_out_embedded(table: FileStoreTable, file: DataFileMeta, predicate: Predicate) -> bool:
    """Whether the index in the manifest entry says that no row of the file can match."""
    if file.embedded_index is None:
        return False
    return _rules_out(table, file, file.embedded_index, predicate, where=file.file_name)


def without_ruled_out(
    table: FileStoreTable, entries: Sequence[ManifestEntry], predicate: Predicate
) -> list[ManifestEntry]:
    """The entries whose index file, beside the data file, leaves room for matching rows.

    Reads those indexes; only for files of which no row hides another's.
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
        return False  # rows are all in the data file; `caretaker verify` finds what is missing
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
        return False  # a kind or version of index from the future tells nothing
    except CorruptTable as e:
        e.table, e.file = table.name, where
        raise
    return rows is not None and not rows


def in_terms_of(
    written: TableSchema, current: TableSchema, predicate: Predicate
) -> Predicate | None:
    """What of the predicate can be asked of a file with the schema `written`; None if nothing.

    Only whole conditions are left out, so what remains is true wherever the predicate is.
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
