"""Rows in binary form, against the bytes that Java stored and against hand-made ones."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from golden_files import GOLDEN, VERSIONS

from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.manifest.data_file import EMPTY_ROW
from paimon_core.types.binary_row import decode_row, encode_row, row_arity, row_codec
from paimon_core.types.json_values import from_json_value, json_value
from paimon_core.types.sql import field_from_json, parse_type


def row(text: str, values: list[Any]) -> str:
    types = [parse_type(t) for t in text.split("; ")]
    stored = encode_row(values, types)
    assert decode_row(stored, types) == tuple(values)
    return stored.hex()


def test_the_empty_row() -> None:
    assert encode_row([], []) == EMPTY_ROW
    assert decode_row(EMPTY_ROW, []) == ()


def test_short_text_lies_in_its_slot() -> None:
    assert row("STRING", ["abc"]) == "00000001" + "00" * 8 + "616263000000" + "00" + "83"
    assert row("STRING", [""]) == "00000001" + "00" * 8 + "00" * 7 + "80"
    assert row("BYTES", [b"1234567"])[-16:] == "31323334353637" + "87"


def test_long_text_lies_behind_padded_with_zeros() -> None:
    expected = "00000001" + "00" * 8 + "0900000010000000" + "313233343536373839" + "00" * 7
    assert row("STRING", ["123456789"]) == expected


def test_a_null_sets_its_bit() -> None:
    assert row("INT; INT", [None, 5]) == "00000002" + "0001" + "00" * 6 + "00" * 8 + "05" + "00" * 7


def test_null_bits_begin_after_the_row_kind_and_may_need_a_second_word() -> None:
    values = [None] * 57
    stored = encode_row(values, [parse_type("INT")] * 57)
    assert row_arity(stored) == 57
    assert len(stored) == 4 + 16 + 57 * 8
    assert stored[4:14].hex() == "00" + "ff" * 7 + "01" + "00"


def test_large_decimals_and_fine_timestamps_take_room_for_a_null_too() -> None:
    assert len(encode_row([None], [parse_type("DECIMAL(19, 2)")])) == 4 + 16 + 16
    assert len(encode_row([None], [parse_type("TIMESTAMP(6)")])) == 4 + 16 + 8
    assert len(encode_row([None], [parse_type("DECIMAL(18, 2)")])) == 4 + 16
    assert len(encode_row([None], [parse_type("TIMESTAMP(3)")])) == 4 + 16


def test_decimals_are_as_short_as_java_writes_them() -> None:
    assert row("DECIMAL(20, 2)", [Decimal("1.28")])[24:] == "0200000010000000" + "0080" + "00" * 14
    assert row("DECIMAL(20, 2)", [Decimal("-1.28")])[24:] == "0100000010000000" + "80" + "00" * 15
    assert row("DECIMAL(9, 2)", [Decimal("-0.01")])[24:] == "ff" * 8


def test_timestamps_beyond_milliseconds_keep_the_nanos_in_the_slot() -> None:
    assert row("TIMESTAMP(9)", [-1])[24:] == "3f420f0010000000" + "ff" * 8
    assert row("TIMESTAMP(3)", [-1_000_000])[24:] == "ff" * 8


def test_arrays_pack_elements_in_their_own_width() -> None:
    stored = row("ARRAY<SMALLINT>", [[1, None, 3]])
    assert (
        stored[24:]
        == "1000000010000000" + "03000000" + "02000000" + "0100" + "0000" + "0300" + "0000"
    )


def test_nested_values_round_trip() -> None:
    row(
        "MAP<STRING, ARRAY<DECIMAL(30, 2)>>; ROW<a TIMESTAMP(9), b ROW<c STRING>>; MULTISET<INT>; "
        "VECTOR<FLOAT, 2>",
        [
            [("a", [Decimal("1.00"), None]), ("a longer key", None)],
            (5, ("x" * 9,)),
            [(7, 2)],
            [0.5, -1.5],
        ],
    )


def test_one_field_is_decoded_alone() -> None:
    types = (parse_type("INT"), parse_type("STRING"))
    stored = encode_row([1, "some longer text"], types)
    assert row_codec(types).decode_field(stored, 1) == "some longer text"


@pytest.mark.parametrize(
    ("text", "value"),
    [("INT", 2**31), ("TINYINT", "x"), ("STRING", 5), ("DECIMAL(9, 2)", "1.2")],
)
def test_a_value_that_does_not_fit_its_type_is_refused(text: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match="does not fit"):
        encode_row([value], [parse_type(text)])


def test_the_number_of_values_must_be_right() -> None:
    with pytest.raises(InvalidArgument, match="2 values for 1 fields"):
        encode_row([1, 2], [parse_type("INT")])


@pytest.mark.parametrize("stored", ["", "00000001", "00000001" + "00" * 8, "00000002" + "00" * 24])
def test_bytes_that_are_no_such_row_are_corrupt(stored: str) -> None:
    with pytest.raises(CorruptTable):
        decode_row(bytes.fromhex(stored), [parse_type("STRING")])


def test_an_offset_out_of_the_row_is_corrupt() -> None:
    stored = bytes.fromhex("00000001" + "00" * 8 + "ff00000010000000")
    with pytest.raises(CorruptTable):
        decode_row(stored, [parse_type("STRING")])


def test_variant_values_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeature, match="VARIANT"):
        encode_row([b""], [parse_type("VARIANT")])
    assert encode_row([None], [parse_type("VARIANT")])[5] == 1


def golden_statistics(version: str) -> list[tuple[str, list[Any], list[Any], str]]:
    """Table, types, minima as JSON, minima as stored: of all files of all golden tables."""
    found = []
    for path in sorted((GOLDEN / version).glob("*/expected.json")):
        expected = json.loads(path.read_text(encoding="utf-8"))
        types = {
            s["id"]: {f["name"]: field_from_json(f).type for f in s["fields"]}
            for s in expected["schemas"]
        }
        for state in expected["files"].values():
            for file in state["files"]:
                for kind in ("key_stats", "value_stats"):
                    stats = file.get(kind)
                    if stats:
                        columns = [types[file["schema_id"]][c] for c in stats["cols"]]
                        found.append((path.parent.name, columns, stats["min"], stats["min_bytes"]))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_statistics_have_exactly_these_bytes(version: str) -> None:
    statistics = golden_statistics(version)
    assert len(statistics) > 1000
    for table, columns, minima, stored in statistics:
        types = columns[: len(minima)]
        decoded = decode_row(bytes.fromhex(stored), types)
        # The oracle prints a NOT NULL column without looking at its null bit.
        values = [
            None if d is None and not t.nullable else from_json_value(v, t)
            for v, d, t in zip(minima, decoded, types, strict=True)
        ]
        assert encode_row(values, types).hex() == stored, (table, minima)
        assert encode_row(decoded, types).hex() == stored, (table, minima)
        printed = [json_value(v, t) for v, t in zip(decoded, types, strict=True)]
        assert [v for v in printed if v is not None] == [
            v for v, d in zip(minima, decoded, strict=True) if d is not None
        ]
