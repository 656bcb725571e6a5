"""Tables for the benchmarks of compaction, written by the library itself.

Keys are made as the oracle's `gen_write` makes them; the other values are as random as its.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from cases import COLUMNS, TABLE

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import column_from_object, create_schema
from paimon_core.environment import system_environment
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.row_writer import RowWriter

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_TEXT_BYTES = 20


def generate(
    warehouse: str,
    *,
    primary_key: bool,
    rows: int,
    commits: int,
    overlap: float,
    seed: int,
    options: dict[str, str],
    columns: Sequence[Mapping[str, str]] = tuple(COLUMNS),
    text_bytes: int = _TEXT_BYTES,
    first: int = 0,
    until: int | None = None,
) -> None:
    """Creates the table and commits its rows, a file or two each time.

    A share `overlap` of the rows of a commit repeats keys of earlier ones.  Only the commits from
    `first` on and before `until` are made; with `first` 0 the table is made, too.
    """
    env = system_environment()
    if first == 0:
        catalog = FileSystemCatalog(warehouse)
        catalog.create_database("db", if_not_exists=True)
        schema = create_schema(
            [column_from_object(c) for c in columns],
            now_millis=env.now_millis(),
            primary_keys=["id"] if primary_key else [],
            options=options,
        )
        catalog.create_table(TABLE, schema)
    table = open_table(warehouse, TABLE)
    arrow = arrow_schema(table.schema.row_type)
    rng = np.random.default_rng(seed)
    used = 0
    for number in range(commits):
        count = rows * (number + 1) // commits - rows * number // commits
        repeated = int(count * overlap) if used else 0
        fresh = np.arange(used, used + count - repeated)
        old = rng.integers(0, used, repeated) if repeated else fresh[:0]
        keys = rng.permutation(np.concatenate([fresh, old]))
        used += len(fresh)
        if not first <= number < (commits if until is None else until):
            continue
        writer = RowWriter(table, env=env)
        writer.write(_rows(rng, keys, arrow, text_bytes), np.zeros(count, np.int8))
        commit(table, writer.prepare_commit(), user="benchmark", env=env)


def _rows(rng: Any, keys: np.ndarray, schema: pa.Schema, text_bytes: int) -> pa.Table:
    count = len(keys)
    columns = [_column(rng, count, field.type, text_bytes) for field in schema]
    spread = ((keys.astype(np.uint64) * _SPREAD) >> np.uint64(20)).astype(np.int64)
    columns[schema.get_field_index("id")] = pa.array(spread)
    return pa.Table.from_arrays(columns, schema=schema)


def _column(rng: Any, count: int, kind: pa.DataType, text_bytes: int) -> pa.Array:
    if pa.types.is_string(kind):
        return _texts(rng, count, text_bytes)
    if pa.types.is_floating(kind):
        return pa.array(rng.random(count) * 2**42)
    if pa.types.is_timestamp(kind):
        return pa.array(rng.integers(0, 1_900_000_000_000_000, count), kind)
    return pa.array(rng.integers(-(2**63), 2**63 - 1, count))


def _texts(rng: Any, count: int, size: int) -> pa.Array:
    """Strings of random hexadecimal digits."""
    digits = _HEX[rng.integers(0, 16, count * size, dtype=np.uint8)]
    offsets = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))
