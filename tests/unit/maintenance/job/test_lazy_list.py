"""Lazy lists, and their JSON in parts."""

from __future__ import annotations

import json

import pytest

from paimon_maintenance.job import lazy_list
from paimon_maintenance.job.lazy_list import LazyList, json_parts, plain


def test_items_are_made_when_somebody_looks() -> None:
    looked: list[int] = []

    def make(n: int) -> dict[str, int]:
        looked.append(n)
        return {"n": n}

    items = LazyList(range(1000), make)
    assert len(items) == 1000
    assert not looked
    assert items[2:4] == [{"n": 2}, {"n": 3}]
    assert items[-1] == {"n": 999}
    assert looked == [2, 3, 999]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_that_of_lists(
    monkeypatch: pytest.MonkeyPatch, count: int, indent: int | None
) -> None:
    monkeypatch.setattr(lazy_list, "_TOGETHER", 3)
    items = LazyList(range(count), lambda n: {"ü": [n, None, {"x": (n,)}]})
    value = {"a": 1, "tables": [{"list": items, "empty": []}, {"none": {}}], "path": items}
    same = {"a": 1, "tables": [{"list": list(items), "empty": []}, {"none": {}}], "path": [*items]}
    text = "".join(json_parts(value, indent=indent))
    assert text == json.dumps(same, ensure_ascii=False, indent=indent)


def test_plain_objects_hold_ordinary_lists() -> None:
    items = LazyList(range(2), lambda n: {"inner": LazyList(range(n), str)})
    value = plain({"a": {"b": [items, 1]}, "c": "text", "d": [2]})
    assert json.loads(json.dumps(value)) == {
        "a": {"b": [[{"inner": []}, {"inner": ["0"]}], 1]},
        "c": "text",
        "d": [2],
    }
