"""Which NOT NULL parts of nested values are really null, and which only lie below a null."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_core.types.arrow import column_from_internal
from paimon_core.types.not_null import has_required_parts, missing_part
from paimon_core.types.sql import parse_type


@pytest.mark.parametrize(
    ("text", "values", "missing"),
    [
        ("INT NOT NULL", [1, None], None),
        ("ROW<a INT>", [(None,), None], None),
        ("ROW<a INT NOT NULL, b ROW<c INT NOT NULL>>", [None, (1, None), (1, (2,))], None),
        ("ROW<a INT NOT NULL, b ROW<c INT NOT NULL>>", [None, (1, (None,))], "x.b.c"),
        ("ROW<a INT, b ROW<c INT NOT NULL> NOT NULL>", [None, (None, (1,))], None),
        ("ROW<a INT, b ROW<c INT NOT NULL> NOT NULL>", [None, (1, None)], "x.b"),
        ("ARRAY<ROW<c INT NOT NULL>>", [None, [], [None, (1,)]], None),
        ("ARRAY<ROW<c INT NOT NULL>>", [None, [(1,), (None,)]], "x.element.c"),
        ("ROW<a ARRAY<INT NOT NULL> NOT NULL>", [None, ([],), ([1],)], None),
        ("ROW<a ARRAY<INT NOT NULL> NOT NULL>", [([1],), ([2, None],)], "x.a.element"),
        ("MAP<INT, STRING NOT NULL>", [[(1, "a")], None], None),
        ("MAP<INT, STRING NOT NULL>", [[(1, "a"), (2, None)]], "x.value"),
        ("MULTISET<STRING>", [[("a", 1)], None, []], None),
    ],
)
def test_a_null_below_a_null_is_none(text: str, values: list[Any], missing: str | None) -> None:
    data_type = parse_type(text)
    column = column_from_internal([*values, *values], data_type)
    assert missing_part(column, data_type, "x") == missing
    assert missing_part(column.slice(len(values)), data_type, "x") == missing


def test_elements_of_no_list_are_not_looked_at() -> None:
    data_type = parse_type("ARRAY<INT NOT NULL>")
    column = column_from_internal([[None], [1], [2, None]], data_type)
    assert missing_part(column.slice(1, 1), data_type, "x") is None
    assert missing_part(column, data_type, "x") == "x.element"


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("INT NOT NULL", False),
        ("ARRAY<INT> NOT NULL", False),
        ("ARRAY<INT NOT NULL>", True),
        ("MAP<INT NOT NULL, STRING>", False),
        ("ROW<a MAP<INT, ROW<b INT NOT NULL>>>", True),
    ],
)
def test_types_with_parts_that_may_not_be_null(text: str, required: bool) -> None:  # noqa: FBT001
    assert has_required_parts(parse_type(text)) is required
