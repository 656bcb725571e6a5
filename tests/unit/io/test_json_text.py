from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.io.json_text import parse_json_object, to_pretty_json

GOLDEN = Path(__file__).parents[2] / "golden"


def _metadata_files() -> list[Path]:
    return sorted(
        p
        for folder in ("schema", "snapshot", "tag", "changelog", "consumer")
        for p in GOLDEN.glob(f"*/*/warehouse/db.db/t/**/{folder}/*-*")
        if p.is_file()
    )


def test_every_metadata_file_of_java_prints_the_same() -> None:
    files = _metadata_files()
    assert len(files) > 500
    for path in files:
        text = path.read_bytes().decode()
        assert to_pretty_json(parse_json_object(text)) == text, path


def test_escapes_are_those_of_jackson() -> None:
    assert to_pretty_json('a"b\\c\n\t\b\f\r\x1f\x0b/é\x7f漢😀') == (
        '"a\\"b\\\\c\\n\\t\\b\\f\\r\\u001F\\u000B/é\x7f漢😀"'
    )
    assert to_pretty_json("\\u001f") == '"\\\\u001f"'


def test_digits_are_kept() -> None:
    parsed = parse_json_object('{"a": 86400.000000000, "b": 9223372036854775807}')
    assert parsed == {"a": Decimal("86400.000000000"), "b": 2**63 - 1}
    assert to_pretty_json(parsed) == '{\n  "a" : 86400.000000000,\n  "b" : 9223372036854775807\n}'


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": }'])
def test_anything_but_an_object_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json_object(text)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _values))
def test_round_trip(value: dict[str, object]) -> None:
    assert parse_json_object(to_pretty_json(value)) == value
