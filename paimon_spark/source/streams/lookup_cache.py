"""A local copy of some columns of a table, by key, which follows the table's stream.

Rows are in a temporary SQLite database: up to `memory` bytes of its pages are in memory, the rest
in a file that is deleted with the process.  The copy is made of a snapshot, and then of the changes
that a stream reads.  It is made again where changes do not say what a row has become: after an
overwrite, a rollback, a change of the schema or a gap in the snapshots, and with each commit to
tables that merge in a way of their own and keep no changelog.

Java: `flink/lookup/FileStoreLookupFunction`, `FullCacheLookupTable`.
"""

from __future__ import annotations

import pickle
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from threading import RLock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.lsm.engines.traits import newest_file_wins
from paimon_core.lsm.key_column import kind_values
from paimon_core.lsm.merge_engine import is_retract
from paimon_core.read.stream import Start
from paimon_core.schema.scan_options import SCAN_OPTIONS, scan_mode
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.source.stream import CONSUMER_ID, Stream, stream_of
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.rows import arrow_schema_of, converted
from paimon_spark.source.spark_types import spark_schema

STREAM_BOUNDS: Final = (*SCAN_OPTIONS, CONSUMER_ID, "scan.bounded.watermark")
"""Options that choose which part of a table's history a stream shows."""
_ROWS: Final = 20_000
"""How many rows are turned into Python values at once."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Which rows a cache holds: the source's options, lookup keys and columns; bytes of memory."""

    options: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    memory: int


@dataclass(slots=True)
class LookupCache:
    """The rows of one table; threads take turns."""

    key: CacheKey
    checked: float | None = None
    _lock: RLock = field(default_factory=RLock)
    _stream: Stream | None = None
    _seen: tuple[int, str, int] | None = None
    _database: sqlite3.Connection | None = None
    _schema: pa.Schema | None = None

    def refresh(self, every_seconds: float) -> None:
        """Apply new commits, unless that happened in the last `every_seconds`."""
        with self._lock:
            now = time.monotonic()
            if self.checked is not None and now - self.checked < every_seconds:
                return
            if not self._follows():
                self._load()
            self.checked = now

    def find(self, keys: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        """The positions of the keys that have rows, once for each row, and the columns of these
        rows.
        """
        with self._lock:
            assert self._database is not None
            assert self._schema is not None
            types = [self._schema.field(k).type for k in self.key.keys]
            stored = [
                _stored(converted(k, t), as_key=True) for k, t in zip(keys, types, strict=True)
            ]
            where = " AND ".join(f"k{i} = ?" for i in range(len(types)))
            query = f"SELECT {_names('c', len(self.key.columns))} FROM t WHERE {where}"  # noqa: S608 - own names
            known: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
            places: list[int] = []
            found: list[tuple[Any, ...]] = []
            for place, key in enumerate(zip(*stored, strict=True)):
                rows = known.get(key)
                if rows is None:
                    rows = known[key] = self._database.execute(query, key).fetchall()
                places += repeat(place, len(rows))
                found += rows
        columns: list[Sequence[Any]] = list(zip(*found, strict=True)) if found else []
        values = columns or [()] * len(self.key.columns)
        fields = [self._schema.field(c) for c in self.key.columns]
        arrays = [_restored(v, f.type) for v, f in zip(values, fields, strict=True)]
        return pa.array(places, pa.int64()), arrays

    # --- following the table ---

    def _follows(self) -> bool:
        """Apply the changes since the last time; False if all rows must be loaded again."""
        if self._stream is None or self._seen is None:
            return False
        table = self._stream.table
        latest = table.snapshots.latest()
        last, user, identifier = self._seen
        known = table.snapshots.get_or_none(last)
        if latest is None or known is None:
            return False
        if (known.commit_user, known.commit_identifier) != (user, identifier):
            return False
        if latest.id == last:
            return True
        if not _has_changes(table):
            return False
        if any(not self._is_followed(n) for n in range(last + 1, latest.id + 1)):
            return False
        assert self._database is not None
        # Until all changes are applied, the rows are inconsistent.
        self._seen = None
        with self._database:
            while True:
                plan = self._stream.plan()
                if plan.is_empty:
                    break
                self._apply(self._stream.read(plan))
        done = (plan.next_snapshot or 1) - 1
        # The stream skips an overwrite that was committed meanwhile.
        if any(not self._is_followed(n) for n in range(latest.id + 1, done + 1)):
            return False
        self._see(done)
        return True

    def _is_followed(self, snapshot_id: int) -> bool:
        assert self._stream is not None
        snapshot = self._stream.table.snapshots.get_or_none(snapshot_id)
        return (
            snapshot is not None
            and snapshot.commit_kind in (CommitKind.APPEND, CommitKind.COMPACT, CommitKind.ANALYZE)
            and snapshot.schema_id == self._stream.table.schema.id
        )

    def _load(self) -> None:
        options = SourceOptions.of(dict(self.key.options))
        table = _from_all_rows(options.open_table())
        row_type = table.schema.row_type
        keyed = table.has_primary_key
        self.close()
        database = sqlite3.connect("", check_same_thread=False)
        database.execute(f"PRAGMA cache_size = -{max(1, self.key.memory // 1024)}")
        rows = _names("k", len(self.key.keys)), _names("c", len(self.key.columns))
        primary = _names("p", len(table.schema.primary_keys))
        if keyed:
            database.execute(
                f"CREATE TABLE t ({rows[0]}, {rows[1]}, {primary}, PRIMARY KEY ({primary})) "
                "WITHOUT ROWID"
            )
        else:
            database.execute(f"CREATE TABLE t ({rows[0]}, {rows[1]})")
        names = list(dict.fromkeys((*self.key.keys, *self.key.columns, *table.schema.primary_keys)))
        self._schema = arrow_schema_of(spark_schema(row_type.project(names)))
        self._database = database
        self._stream = stream_of(table, zone=options.zone)
        plan = self._stream.plan()
        with database:
            if plan.whole is not None:
                self._apply(self._stream.read(plan))
            database.execute(f"CREATE INDEX by_key ON t ({rows[0]})")
        if plan.whole is not None:
            self._see(plan.whole.id)

    def _see(self, snapshot_id: int) -> None:
        assert self._stream is not None
        try:
            snapshot = self._stream.table.snapshots.get(snapshot_id)
        except NotFound:
            self._seen = None
            return
        self._seen = (snapshot.id, snapshot.commit_user, snapshot.commit_identifier)

    def _apply(self, batches: Iterable[pa.RecordBatch]) -> None:
        assert self._stream is not None
        assert self._database is not None
        assert self._schema is not None
        keyed = self._stream.table.has_primary_key
        primary = self._stream.table.schema.primary_keys
        count = len(self.key.keys) + len(self.key.columns) + len(primary)
        put = f"INSERT OR REPLACE INTO t VALUES ({', '.join('?' * count)})"  # noqa: S608 - own names
        where = " AND ".join(f"p{i} = ?" for i in range(len(primary)))
        delete = f"DELETE FROM t WHERE {where}"  # noqa: S608 - same
        for whole in batches:
            for start in range(0, whole.num_rows, _ROWS):
                batch = whole.slice(start, _ROWS)
                gone = is_retract(kind_values(batch.column(VALUE_KIND)))
                keys = [self._values(batch, n, as_key=True) for n in self.key.keys]
                values = [self._values(batch, n) for n in self.key.columns]
                own = [self._values(batch, n, as_key=True) for n in primary]
                rows = zip(*keys, *values, *own, strict=True)
                if not gone.any():
                    self._database.executemany(put, rows)
                    continue
                # In order: a key may be deleted and inserted again.
                for row, is_gone in zip(rows, np.asarray(gone), strict=True):
                    if not is_gone:
                        self._database.execute(put, row)
                    elif keyed:
                        self._database.execute(delete, row[-len(primary) :])

    def _values(self, batch: pa.RecordBatch, name: str, *, as_key: bool = False) -> list[Any]:
        assert self._schema is not None
        column = converted(batch.column(name), self._schema.field(name).type)
        return _stored(column, as_key=as_key)

    def close(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._seen = self._stream = None
            if self._database is not None:
                self._database.close()
                self._database = None


def _from_all_rows(table: FileStoreTable) -> FileStoreTable:
    """The table without options for the start and end of streams (Java: `LookupDataTableScan`)."""
    none: dict[str, str | None] = dict.fromkeys(STREAM_BOUNDS)
    compacted = Start.COMPACTED_FULL.value
    if scan_mode(table.options) == compacted:
        none["scan.mode"] = compacted
    return replace(table, schema=table.schema.with_options(none))


def _has_changes(table: FileStoreTable) -> bool:
    """Whether the table's stream contains the merged rows, not only the written ones."""
    return (
        not table.has_primary_key
        or changelog_producer_of(table.options).has_changelog
        or newest_file_wins(table.options)
    )


def _names(prefix: str, count: int) -> str:
    return ", ".join(f"{prefix}{i}" for i in range(count))


# --- values -------------------------------------------------------------------------------------


def _stored(column: pa.Array, *, as_key: bool = False) -> list[Any]:
    """The values as SQLite keeps them: numbers, texts and bytes with the same equality."""
    t = column.type
    if pa.types.is_floating(t):
        # By their bits, as SQLite has no NaN; as keys both zeros are one.
        wide = column.cast(pa.float64())
        values = pc.add(wide, 0.0) if as_key else wide
        return list(values.view(pa.int64()).to_pylist())
    if pa.types.is_boolean(t):
        return list(column.cast(pa.int8()).to_pylist())
    if pa.types.is_date32(t):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(t):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_decimal(t):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_nested(t):
        return [None if v is None else pickle.dumps(v) for v in column.to_pylist()]
    return list(column.to_pylist())


def _restored(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    if pa.types.is_floating(t):
        return pa.array(values, pa.int64()).view(pa.float64()).cast(t)
    if pa.types.is_boolean(t):
        return pa.array(values, pa.int8()).cast(t)
    if pa.types.is_date32(t):
        return pa.array(values, pa.int32()).cast(t)
    if pa.types.is_timestamp(t):
        return pa.array(values, pa.int64()).cast(t)
    if pa.types.is_decimal(t):
        return pa.array(values, pa.string()).cast(t)
    if pa.types.is_nested(t):
        return pa.array([None if v is None else pickle.loads(v) for v in values], t)  # noqa: S301 - own bytes
    return pa.array(values, t)


_caches: dict[CacheKey, LookupCache] = {}
_opening = RLock()


def cache_of(key: CacheKey) -> LookupCache:
    """The cache of this process; all tasks of a Python worker share it."""
    with _opening:
        if key not in _caches:
            _caches[key] = LookupCache(key)
        return _caches[key]
