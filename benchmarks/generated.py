"""Tables for the benchmarks of compaction, written by the library itself.

Keys are made as the oracle's `gen_write` makes them; the other values are as random as its.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from cases import COLUMNS, TABLE

from maintenance.environment import system_environment
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.schema.create import column_from_object, create_schema
from paimon_core.table.open import open_table
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.table_write import TableWriter

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
) -> None:
    """Creates the table and commits its rows, a file or two each time.

    A share `overlap` of the rows of a commit repeats keys of earlier ones.
    """
    env = system_environment()
    catalog = FileSystemCatalog(warehouse)
    catalog.create_database("db", if_not_exists=True)
    schema = create_schema(
        [column_from_object(c) for c in COLUMNS],
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
        writer = TableWriter(table, env=env)
        writer.write(_rows(rng, keys, arrow), np.zeros(count, np.int8))
        commit(table, writer.prepare_commit(), user="benchmark", env=env)


def _rows(rng: Any, keys: np.ndarray, schema: pa.Schema) -> pa.Table:
    count = len(keys)
    spread = ((keys.astype(np.uint64) * _SPREAD) >> np.uint64(20)).astype(np.int64)
    columns: list[pa.Array] = [pa.array(spread)]
    columns += [pa.array(rng.integers(-(2**63), 2**63 - 1, count)) for _ in range(4)]
    columns += [_texts(rng, count) for _ in range(3)]
    columns += [pa.array(rng.random(count) * 2**42) for _ in range(2)]
    columns.append(pa.array(rng.integers(0, 1_900_000_000_000_000, count), pa.timestamp("us")))
    return pa.Table.from_arrays(columns, schema=schema)


def _texts(rng: Any, count: int) -> pa.Array:
    """Strings of random hexadecimal digits."""
    digits = _HEX[rng.integers(0, 16, count * _TEXT_BYTES, dtype=np.uint8)]
    offsets = np.arange(0, (count + 1) * _TEXT_BYTES, _TEXT_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))
