"""Joins a stream with the newest rows of a table, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_memory_size
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.rows import arrow_schema_of
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.streams.lookup_cache import STREAM_BOUNDS, CacheKey, cache_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_WAYS: Final = ("left", "inner")
_FULL_MODES: Final = ("default", "latest-full", "full", "compacted-full")
"""Values of `scan.mode` that begin with all rows."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A function for `mapInArrow` that adds columns of a table; can be pickled.

    `on` pairs columns of the rows with columns of the table.  `added` are the columns that it adds.
    """

    key: CacheKey
    on: tuple[tuple[str, str], ...]
    added: StructType
    keeps_all: bool
    refresh_seconds: float

    def join(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns of the table, of a batch or a stream.

        InvalidArgument for a missing column, or one that the rows already have.
        """
        missing = [c for c, _ in self.on if c not in rows.columns]
        twice = [c for c in self.added.fieldNames() if c in rows.columns]
        if missing or twice:
            raise InvalidArgument(
                f"the rows have no column {missing[0]}"
                if missing
                else f"the rows have a column {twice[0]} already",
                next_step="name columns of the rows in `on`"
                if missing
                else "rename it, or leave it out of `columns`",
            )
        return rows.mapInArrow(self, self.schema(rows.schema))

    def schema(self, rows: StructType) -> StructType:
        """The columns of the result for rows of this schema."""
        from pyspark.sql.types import StructType as Struct  # noqa: PLC0415 - only with a session

        return Struct([*rows.fields, *self.added.fields])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with the columns of the table, which is looked at for changes first."""
        cache = cache_of(self.key)
        cache.refresh(self.refresh_seconds)
        schema = arrow_schema_of(self.added)
        for batch in batches:
            places, found = cache.find([batch.column(c) for c, _ in self.on])
            columns = [*batch.take(places).columns, *found]
            names = [*batch.schema.names, *schema.names]
            yield pa.RecordBatch.from_arrays(columns, names=names)
            if self.keeps_all:
                yield from _without_match(batch, places, schema)


def _without_match(
    batch: pa.RecordBatch, places: pa.Array, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    matched = set(places.to_pylist())
    left = pa.array([i for i in range(batch.num_rows) if i not in matched], pa.int64())
    if len(left):
        nulls = [pa.nulls(len(left), f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(
            [*batch.take(left).columns, *nulls], names=[*batch.schema.names, *schema.names]
        )


def lookup(
    *,
    on: Mapping[str, str] | Sequence[str],
    columns: Sequence[str] | None = None,
    how: str = "left",
    refresh_seconds: float = 10.0,
    memory: str = "64 mb",
    **options: str,
) -> Lookup:
    """The table as a function that adds its columns to rows.

    `on` pairs columns of the rows with columns of the table, or names those that both have.
    `columns` are added (default: all others of the table).  `how` is left or inner.  Each Python
    worker keeps the rows in up to `memory` and, beyond that, in a local file, and looks for new
    snapshots when a task begins, at most every `refresh_seconds`.  `options` are those of the
    source.
    """
    source = SourceOptions.of(options)
    for name, value in source.given.items():
        if name in STREAM_BOUNDS and value.strip().lower() not in _FULL_MODES:
            raise InvalidArgument(f"a lookup reads the newest rows: option {name} does not apply")
    pairs = tuple(on.items() if isinstance(on, Mapping) else ((c, c) for c in on))
    table = source.open_table()
    row_type = table.schema.row_type
    keys = tuple(own for _, own in pairs)
    chosen = [n for n in row_type.names if n not in keys] if columns is None else list(columns)
    unknown = [n for n in (*keys, *chosen) if row_type.get(n) is None]
    if unknown or not keys or not chosen or how not in _WAYS:
        raise InvalidArgument(
            f"{table.name} has no column {', '.join(unknown)}; it has {', '.join(row_type.names)}"
            if unknown
            else "a lookup needs keys, columns to add, and how = left or inner",
            table=table.name,
        )
    added = spark_schema(row_type.project(chosen))
    for field in added.fields:
        field.nullable = True
    key = CacheKey(tuple(sorted(options.items())), keys, tuple(chosen), parse_memory_size(memory))
    return Lookup(key, pairs, added, how == "left", refresh_seconds)
