"""Texts of FLOAT and DOUBLE, as Java 17 printed them."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_core.types.java_numbers import double_text, float_text
from paimon_core.types.json_columns import json_column
from paimon_core.types.sql import parse_type


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (0.002, "0.002"),
        (9.999e-4, "9.999E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.987654321, "1.2345678998765433E8"),
        (1e23, "9.999999999999999E22"),  # right is 1.0E23: before Java 19
        (2e23, "1.9999999999999998E23"),
        (8.41e21, "8.409999999999999E21"),
        (2.0**-44, "5.6843418860808015E-14"),
        (4.9e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (float(2**63), "9.223372036854776E18"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (16777216.0, "1.6777216E7"),
        (1e10, "1.0E10"),
        (3.4028235e38, "3.4028235E38"),
        (1e-45, "1.4E-45"),
        (200.7, "200.7"),
        (-0.0, "-0.0"),
        (1.1754944e-38, "1.17549435E-38"),
    ],
)
def test_floats(value: float, text: str) -> None:
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    assert float_text(single) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_reads_back(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float_reads_back(value: float) -> None:
    again = struct.unpack("<f", struct.pack("<f", float(float_text(value))))[0]
    assert again == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(390172311552.0)  # 3.90172312E11 in Java, 3.901723E11 would do
@example(2.0**-27)
@example(2.0**-149)
def test_a_column_has_the_digits_of_java(value: float) -> None:
    column = pa.array([None, value, -value, 0.5], pa.float32())
    expected = float(float_text(value))
    assert json_column(column, parse_type("FLOAT")) == [None, expected, -expected, 0.5]
