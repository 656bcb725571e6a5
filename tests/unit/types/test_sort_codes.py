"""Codes of both curves are Java's to the bit; `order` codes never contradict the order."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import DataType
from paimon_core.types.sort_codes import (
    MOST_HILBERT_COLUMNS,
    Codes,
    hilbert_codes,
    order_codes,
    z_codes,
)
from paimon_core.types.sql import parse_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None, True, False],
    "TINYINT": [-128, 127, -1, None, 5],
    "SMALLINT": [-32768, 32767, -1, 0, None],
    "INT": [-(2**31), 2**31 - 1, None, -1, 77],
    "BIGINT": [-(2**63), 2**63 - 1, -1, 0, None],
    "FLOAT": [-1.5, 3.25, float("nan"), None, -0.0],
    "DOUBLE": [-1.5e300, 3.25, float("nan"), -0.0, None],
    "DECIMAL(9, 2)": [*map(Decimal, ("-1.28", "1.28", "-1234567.89")), None, Decimal("0.00")],
    "DECIMAL(30, 3)": [
        Decimal("-123456789012345678901234567.891"),
        Decimal("123456789012345678901234567.891"),
        Decimal("1.999"),
        Decimal("-1.999"),
        None,
    ],
    "DATE": [0, 19000, -5, None, 1],
    "TIME(3)": [0, 86399999, 5, None, 1],
    "TIMESTAMP(6)": [
        None if v is None else EPOCH + timedelta(microseconds=v)
        for v in (-1, 1700000000123456, 0, None, 999)
    ],
    "STRING": ["", "hello", "a long text of more than eight", None, "\u00fcber"],
    "BYTES": [
        None if v is None else v.encode()
        for v in ("", "x", "\u00ff\u00fe binary", None, "12345678")
    ],
}
JAVA = [
    json.loads(line)
    for line in Path(__file__)
    .with_name("sort_codes_of_java.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
"""Java 1.4.2's codes of (value i of a, value 4 - i of b), leading zeros of Hilbert's left out."""


def column(text: str, *, backwards: bool = False) -> tuple[pa.Array, DataType]:
    t = parse_type(text)
    values = VALUES[text]
    return pa.array(values[::-1] if backwards else values, arrow_type(t)), t


def as_hex(codes: Codes) -> list[str]:
    return [row.tobytes().hex() for row in codes]


@pytest.mark.parametrize("java", JAVA[:-1], ids=lambda j: f"{j['a']}-{j['b']}")
def test_two_columns_as_in_java(java: dict[str, Any]) -> None:
    (a, a_type), (b, b_type) = column(java["a"]), column(java["b"], backwards=True)
    assert as_hex(z_codes([a, b], [a_type, b_type])) == java["z"]
    ours = [h.lstrip("0") for h in as_hex(hilbert_codes([a, b], [a_type, b_type]))]
    assert ours == java["h"]
    # Codes know nothing of how a column is sliced.
    sliced = [pa.concat_arrays([c, c]).slice(5) for c in (a, b)]
    assert as_hex(z_codes(sliced, [a_type, b_type])) == java["z"]


def test_three_columns_as_in_java_with_texts_of_three_bytes() -> None:
    java = JAVA[-1]
    columns = [
        pa.array([i * i - 3 for i in range(5)], pa.int32()),
        pa.array([i * 1234567890123 - 5 for i in range(5)], pa.int64()),
        pa.array(["t" + "xyz" * i for i in range(5)]),
    ]
    types = [parse_type(t) for t in ("INT", "BIGINT", "STRING")]
    assert as_hex(z_codes(columns, types, text_bytes=3)) == java["z"]
    assert [h.lstrip("0") for h in as_hex(hilbert_codes(columns, types))] == java["h"]


def test_refused_by_name() -> None:
    a, t = column("INT")
    with pytest.raises(InvalidArgument, match="2 to 7 columns"):
        hilbert_codes([a], [t])
    with pytest.raises(InvalidArgument, match="2 to 7 columns"):
        hilbert_codes([a] * (MOST_HILBERT_COLUMNS + 1), [t] * (MOST_HILBERT_COLUMNS + 1))
    nested = parse_type("ARRAY<INT>")
    for codes in (z_codes, order_codes):
        with pytest.raises(UnsupportedFeature, match="ARRAY<INT>"):
            codes([pa.array([[1]])], [nested])


ORDERED = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(20, 2)": st.decimals(-(10**17), 10**17, places=2, allow_nan=False),
    "STRING": st.text(st.characters(codec="utf-8"), max_size=30),
    "BOOLEAN": st.booleans(),
}


@pytest.mark.parametrize("text", ORDERED)
@given(data=st.data())
def test_order_codes_follow_the_order(text: str, data: st.DataObject) -> None:
    t = parse_type(text)
    values = data.draw(st.lists(st.none() | ORDERED[text], max_size=12))
    array = pa.array(values, arrow_type(t))
    codes = as_hex(order_codes([array], [t]))
    order = pc.sort_indices(array, sort_keys=[("", "ascending", "at_start")]).to_pylist()
    ours = [codes[i] for i in order]
    assert ours == sorted(ours)
    for i, j in pairwise(order):
        if values[i] == values[j]:
            assert codes[i] == codes[j]


def test_a_curve_brings_neighbours_together() -> None:
    """A square window over both columns meets few runs of the curve, many of the plain order."""
    side = 32
    a, b = (np.repeat(np.arange(side), side), np.tile(np.arange(side), side))
    columns, types = [pa.array(a), pa.array(b)], [parse_type("BIGINT")] * 2
    window = (a >= 8) & (a < 12) & (b >= 8) & (b < 12)

    def blocks(codes: Codes) -> int:
        place = np.lexsort(codes.T[::-1]).argsort()
        return len(set((place[window] // 16).tolist()))

    assert blocks(order_codes(columns, types)) == 4
    assert blocks(z_codes(columns, types)) == 1
    assert blocks(hilbert_codes(columns, types)) == 1
