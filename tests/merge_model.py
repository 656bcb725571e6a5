"""Merging written down row by row, and Hypothesis strategies for what is merged.

A `Record` is one row of a run: sequence number, kind, values by field name (internal values).
The model knows nothing of columns, slices or digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_core.types.arrow import arrow_schema, column_from_internal, column_to_internal
from paimon_core.types.data_types import AtomicType, DataField, DataType, RowType, TypeRoot

KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Record:
    sequence: int
    kind: int
    values: Mapping[str, Any]

    @property
    def is_retract(self) -> bool:
        return self.kind in (1, 3)


def atomic(kind: TypeRoot, *, nullable: bool = True, **parameters: int) -> AtomicType:
    return AtomicType(kind=kind, nullable=nullable, **parameters)


INT = atomic(TypeRoot.INT)
BIGINT = atomic(TypeRoot.BIGINT)
STRING = atomic(TypeRoot.VARCHAR, length=2**31 - 1)


def row_type(**fields: DataType) -> RowType:
    return RowType(
        nullable=False,
        fields=tuple(DataField(id=i, name=n, type=t) for i, (n, t) in enumerate(fields.items())),
    )


# --- batches ------------------------------------------------------------------------------------


def kv_batch(records: Sequence[Record], fields: RowType) -> pa.RecordBatch:
    """The records as one KV batch."""
    names = ["_SEQUENCE_NUMBER", "_VALUE_KIND", *fields.names]
    arrays = [
        pa.array([r.sequence for r in records], pa.int64()),
        pa.array([r.kind for r in records], pa.int8()),
        *(column_from_internal([r.values[f.name] for r in records], f.type) for f in fields),
    ]
    schema = pa.schema(
        [
            pa.field(names[0], pa.int64(), nullable=False),
            pa.field(names[1], pa.int8(), nullable=False),
            *arrow_schema(fields),
        ]
    )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def kv_batches(records: Sequence[Record], fields: RowType, size: int) -> Iterator[pa.RecordBatch]:
    """The records as batches of `size` rows."""
    for begin in range(0, len(records), size):
        yield kv_batch(records[begin : begin + size], fields)


def records_of(batches: Iterator[pa.RecordBatch], fields: RowType) -> list[Record]:
    """The rows of KV batches as records."""
    records = []
    for batch in batches:
        columns = [column_to_internal(batch.column(f.name), f.type) for f in fields]
        sequences = batch.column("_SEQUENCE_NUMBER").to_pylist()
        kinds = batch.column("_VALUE_KIND").to_pylist()
        for i in range(batch.num_rows):
            values = {f.name: c[i] for f, c in zip(fields, columns, strict=True)}
            records.append(Record(sequences[i], kinds[i], values))
    return records


# --- Java's order -------------------------------------------------------------------------------


def compare_values(a: Any, b: Any) -> int:
    """Java's order of two values of a type, null first; NaN is one value after all others."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    if isinstance(a, float):
        a, b = (
            (math.isnan(a), 0.0 if math.isnan(a) else a),
            (math.isnan(b), 0.0 if math.isnan(b) else b),
        )
    return (a > b) - (a < b)


def compare_keys(a: Record, b: Record, key: Sequence[str]) -> int:
    for name in key:
        if result := compare_values(a.values[name], b.values[name]):
            return result
    return 0


def compare_sequences(
    a: Record, b: Record, fields: Sequence[str], *, descending: bool = False
) -> int:
    """By user sequence fields: null first whatever the direction."""
    for name in fields:
        x, y = a.values[name], b.values[name]
        result = compare_values(x, y)
        if result:
            return -result if descending and x is not None and y is not None else result
    return 0


MergeFunction = Callable[[Sequence[Record]], Record | None]


def merge(
    runs: Sequence[Sequence[Record]],
    key: Sequence[str],
    function: MergeFunction,
    *,
    sequence_fields: Sequence[str] = (),
    descending: bool = False,
    drop_deletes: bool = False,
) -> list[Record]:
    """One record a key at most; a key with one record keeps it (Java: ReducerMergeFunctionWrapper)."""
    rows = [(record, run, place) for run, rs in enumerate(runs) for place, record in enumerate(rs)]

    def compare(a: tuple[Record, int, int], b: tuple[Record, int, int]) -> int:
        return (
            compare_keys(a[0], b[0], key)
            or compare_sequences(a[0], b[0], sequence_fields, descending=descending)
            or (a[0].sequence > b[0].sequence) - (a[0].sequence < b[0].sequence)
            or (a[1:] > b[1:]) - (a[1:] < b[1:])
        )

    rows.sort(key=cmp_to_key(compare))
    groups: list[list[Record]] = []
    for record, _, _ in rows:
        if groups and compare_keys(groups[-1][0], record, key) == 0:
            groups[-1].append(record)
        else:
            groups.append([record])
    merged = [g[0] if len(g) == 1 else function(g) for g in groups]
    return [r for r in merged if r is not None and not (drop_deletes and r.is_retract)]


def deduplicate(*, ignore_delete: bool = False) -> MergeFunction:
    def function(group: Sequence[Record]) -> Record | None:
        latest = None
        for record in group:
            if not (ignore_delete and record.is_retract):
                latest = record
        return latest

    return function


# --- strategies ---------------------------------------------------------------------------------

KEY_VALUES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "int": (atomic(TypeRoot.INT, nullable=False), st.integers(-3, 12)),
    "bigint": (
        atomic(TypeRoot.BIGINT, nullable=False),
        st.sampled_from([-(2**63), -5, 0, 1, 7, 2**40, 2**63 - 1]),
    ),
    "tinyint": (atomic(TypeRoot.TINYINT, nullable=False), st.integers(-128, 127)),
    "boolean": (atomic(TypeRoot.BOOLEAN, nullable=False), st.booleans()),
    "string": (
        STRING.with_nullable(False),
        st.one_of(
            st.sampled_from(["", "a", "a\0", "ä", "z", "\U0001f600", "\uffff"]),
            st.integers(0, 20).map(lambda i: f"order-{i:03d}"),
            st.integers(0, 5).map(lambda i: "x" * 15 + "yz" * i),
            st.text(max_size=20),
        ),
    ),
    "binary": (
        atomic(TypeRoot.VARBINARY, nullable=False, length=2**31 - 1),
        st.one_of(st.binary(max_size=3), st.binary(min_size=15, max_size=18)),
    ),
    "double": (
        atomic(TypeRoot.DOUBLE, nullable=False),
        st.sampled_from([-math.inf, -1.5, 0.0, 5e-324, 2.5, math.inf, math.nan]),
    ),
    "float": (
        atomic(TypeRoot.FLOAT, nullable=False),
        st.sampled_from([-2.5, -1.0, 0.0, 0.5, 1024.0]),
    ),
    "date": (atomic(TypeRoot.DATE, nullable=False), st.integers(-400, 20000)),
    "time": (atomic(TypeRoot.TIME, nullable=False, precision=3), st.integers(0, 86_399_999)),
    "timestamp3": (
        atomic(TypeRoot.TIMESTAMP, nullable=False, precision=3),
        st.integers(-5, 5).map(lambda i: i * 1_000_000),
    ),
    "timestamp6": (
        atomic(TypeRoot.TIMESTAMP, nullable=False, precision=6),
        st.integers(-5, 5).map(lambda i: i * 1_000),
    ),
    "timestamp9": (
        atomic(TypeRoot.TIMESTAMP, nullable=False, precision=9),
        st.integers(-(2**62), 2**62),
    ),
    "decimal": (
        atomic(TypeRoot.DECIMAL, nullable=False, precision=10, scale=2),
        st.integers(-500, 500).map(lambda i: Decimal(i).scaleb(-2)),
    ),
    "wide decimal": (
        atomic(TypeRoot.DECIMAL, nullable=False, precision=38, scale=0),
        st.sampled_from([-(10**30), -(2**64), -(2**64) + 1, -1, 0, 2**63, 2**64, 10**30]).map(
            Decimal
        ),
    ),
}


@st.composite
def record_runs(
    draw: st.DrawFn,
    fields: RowType,
    key: Sequence[str],
    values: Mapping[str, st.SearchStrategy[Any]],
    *,
    kinds: Sequence[int] = (0, 0, 0, 3),
    max_runs: int = 5,
    max_rows: int = 25,
    repeats: bool = False,
    equal_sequences: bool = True,
) -> list[list[Record]]:
    """Sorted runs; each key once a run unless `repeats`; sequence numbers not in run order."""
    record = st.builds(
        lambda sequence, kind, **row: Record(sequence, kind, row),
        st.integers(0, 12),
        st.sampled_from(list(kinds)),
        **{n: values[n] for n in fields.names},
    )
    by_key = cmp_to_key(lambda a, b: compare_keys(a, b, key))
    runs = []
    for rows in draw(st.lists(st.lists(record, max_size=max_rows), min_size=1, max_size=max_runs)):
        rows.sort(key=by_key)
        run: list[Record] = []
        for row in rows:
            if not run or repeats or compare_keys(run[-1], row, key):
                run.append(row)
        runs.append(run)
    if not equal_sequences:
        total = sum(map(len, runs))
        numbers = iter(draw(st.permutations(range(total))))
        runs = [[replace(r, sequence=next(numbers)) for r in run] for run in runs]
    return runs


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)
