"""Values in Iceberg's bytes, as pyiceberg writes and reads them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_core.iceberg.values import from_avro, from_bytes, to_avro, to_bytes
from paimon_core.types.data_types import DataType
from paimon_core.types.sql import parse_type

conversions = pytest.importorskip("pyiceberg.conversions")
types = pytest.importorskip("pyiceberg.types")

MICROS = 1_709_210_096_789_123
CASES: list[tuple[str, Any, str, Any]] = [
    ("BOOLEAN", True, "boolean", True),
    ("TINYINT", -7, "int", -7),
    ("INT", 2**31 - 1, "int", 2**31 - 1),
    ("BIGINT", -(2**40), "long", -(2**40)),
    ("FLOAT", 0.5, "float", 0.5),
    ("DOUBLE", -2.25, "double", -2.25),
    ("DATE", 19782, "date", 19782),
    ("TIME(3)", 3_723_004, "time", 3_723_004_000),
    ("TIMESTAMP(6)", MICROS * 1000, "timestamp", MICROS),
    ("TIMESTAMP(3)", MICROS // 1000 * 1_000_000, "timestamp", MICROS // 1000 * 1000),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", -MICROS * 1000, "timestamptz", -MICROS),
    ("STRING", "äö", "string", "äö"),
    ("CHAR(3)", "abc", "string", "abc"),
    ("BYTES", b"\0\xff", "binary", b"\0\xff"),
    *(
        ("DECIMAL(20, 2)", Decimal(text), "decimal(20, 2)", Decimal(text))
        for text in ("0.00", "1.27", "1.28", "-1.28", "-1.29", "123456789012345678.99")
    ),
]


def type_of(text: str) -> DataType:
    return parse_type(text)


@pytest.mark.parametrize(("paimon", "value", "iceberg", "expected"), CASES)
def test_bytes_are_those_of_pyiceberg(paimon: str, value: Any, iceberg: str, expected: Any) -> None:
    data = to_bytes(type_of(paimon), value)
    theirs = types.IcebergType.handle_primitive_type(iceberg, None)
    assert data is not None
    assert data == conversions.to_bytes(theirs, expected)
    assert conversions.from_bytes(theirs, data) == expected
    assert from_bytes(type_of(paimon), data) == value
    assert from_avro(type_of(paimon), to_avro(type_of(paimon), value)) == value


@pytest.mark.parametrize("paimon", ["TIMESTAMP(9)", "TIMESTAMP(2)", "ARRAY<INT>"])
def test_types_without_bounds(paimon: str) -> None:
    assert to_bytes(type_of(paimon), 1) is None


def test_null_has_no_bytes() -> None:
    assert to_bytes(type_of("INT"), None) is None
    assert to_avro(type_of("DECIMAL(5, 2)"), None) is None
