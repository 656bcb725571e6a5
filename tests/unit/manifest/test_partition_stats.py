from __future__ import annotations

import math
from decimal import Decimal

import pytest

from paimon_core.manifest.partition_stats import partition_stats
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type


def _row(*types: str) -> RowType:
    return RowType(
        fields=tuple(DataField(id=i, name=f"p{i}", type=parse_type(t)) for i, t in enumerate(types))
    )


@pytest.mark.parametrize(
    ("sql", "values", "low", "high", "nulls"),
    [
        ("INT", [3, -5, None, 3, None], -5, 3, 2),
        ("INT NOT NULL", [3, -5], -5, 3, 0),
        ("STRING", ["b", "ab", "é", ""], "", "é", 0),
        ("STRING", ["\uffff", "\U0001f600"], "\uffff", "\U0001f600", 0),
        ("BOOLEAN", [True, False], False, True, 0),
        (
            "DECIMAL(20, 2)",
            [Decimal("1.50"), Decimal("-9.00")],
            Decimal("-9.00"),
            Decimal("1.50"),
            0,
        ),
        ("TIMESTAMP(6)", [5_000, 1_000], 1_000, 5_000, 0),
        ("DATE", [10, 9], 9, 10, 0),
        ("DOUBLE", [0.0, -0.0, 1.5], -0.0, 1.5, 0),
        ("BYTES", [b"a", b"b", None], None, None, 1),
        ("INT", [None, None], None, None, 2),
    ],
)
def test_ranges_are_in_javas_order(
    sql: str, values: list[object], low: object, high: object, nulls: int
) -> None:
    row_type = _row(sql)
    stats = partition_stats([encode_row([v], row_type.types) for v in values], row_type)
    found_low, found_high = (
        decode_row(row, [parse_type(sql).with_nullable(True)])[0]
        for row in (stats.min_values, stats.max_values)
    )
    assert (found_low, found_high, stats.null_counts) == (low, high, (nulls,))
    if isinstance(low, float):
        assert math.copysign(1, found_low) == math.copysign(1, low)


def test_nan_is_above_all() -> None:
    row_type = _row("DOUBLE")
    stats = partition_stats(
        [encode_row([v], row_type.types) for v in (math.nan, math.inf, 1.0)], row_type
    )
    assert decode_row(stats.min_values, row_type.types) == (1.0,)
    assert math.isnan(decode_row(stats.max_values, row_type.types)[0])


def test_columns_are_looked_at_one_by_one() -> None:
    row_type = _row("INT", "STRING")
    rows = [encode_row(r, row_type.types) for r in ([1, "z"], [2, "a"], [None, "m"])]
    stats = partition_stats(rows, row_type)
    assert decode_row(stats.min_values, row_type.types) == (1, "a")
    assert decode_row(stats.max_values, row_type.types) == (2, "z")
    assert stats.null_counts == (1, 0)


def test_an_unpartitioned_table_has_empty_ranges() -> None:
    stats = partition_stats([bytes(12), bytes(12)], RowType())
    assert (stats.min_values, stats.max_values, stats.null_counts) == (bytes(12), bytes(12), ())
