"""What jobs that rewrite have in common: batches, clean-up, and commits of what still fits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import Lake

from paimon_core.errors import CommitConflict, CommitRemoved, CommitStateUnknown, StalePlan
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import NoProgress
from paimon_maintenance.job.rewrite_job import (
    COMMIT_ATTEMPTS,
    OneByOne,
    batches_of,
    commit_fitting,
    commit_one_by_one,
    deleting_on_failure,
    even_slice_bytes,
    run_units,
)


@pytest.fixture
def table(tmp_path: Any) -> Any:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill()
    return lake.table()


@given(st.integers(10**6, 10**11), st.integers(10**6, 10**9), st.integers(1, 64))
def test_one_piece_of_work_is_cut_for_all_slots(size: int, most: int, slots: int) -> None:
    even = even_slice_bytes([size], most, slots)
    if -(-most // 2) < even < most:
        needed, count = -(-size // most), -(-size // even)
        assert count % slots == 0
        assert needed <= count < needed + slots


@given(st.lists(st.integers(1, 10**10), min_size=1), st.integers(1, 10**9), st.integers(1, 64))
def test_slices_are_at_least_half_as_large_as_they_may_be(
    sizes: list[int], most: int, slots: int
) -> None:
    assert most <= 2 * even_slice_bytes(sizes, most, slots) <= 2 * most


@pytest.mark.parametrize(
    ("slots", "slices"), [(1, 5), (2, 6), (3, 6), (4, 8), (5, 5), (8, 8), (100, 10)]
)
def test_a_bucket_of_1200_mb_is_cut_for_a_cluster(slots: int, slices: int) -> None:
    megabyte = 1024**2
    even = even_slice_bytes([1200 * megabyte], 256 * megabyte, slots)
    assert -(-1200 * megabyte // even) == slices


@given(st.lists(st.integers(0, 50)), st.integers(1, 60))
def test_batches_keep_all_items_in_order_and_below_the_limit(sizes: list[int], most: int) -> None:
    parts = list(batches_of(sizes, lambda size: size, most=most))
    assert [size for part in parts for size in part] == sizes
    assert all(len(part) == 1 or sum(part) <= most for part in parts)
    # No two neighbours would fit together.
    assert all(sum(a) + b[0] > most for a, b in pairwise(parts))


def test_results_of_finished_units_are_deleted_when_a_later_one_is_interrupted() -> None:
    deleted: list[bytes] = []
    units = [WorkUnit(payload=bytes([n]), expected_bytes=1, label=str(n)) for n in range(3)]

    def run(payload: bytes) -> bytes:
        if payload == b"\x02":
            raise KeyboardInterrupt
        return payload * 2

    with pytest.raises(KeyboardInterrupt), deleting_on_failure(deleted.extend) as finished:
        run_units(units, run, engine=LocalEngine(), progress=NoProgress(), finished=finished)
    assert deleted == [b"\x00\x00", b"\x01\x01"]


def test_what_another_commit_replaced_is_left_out_and_the_rest_is_committed(table: Any) -> None:
    stale, deleted, tried = {"b"}, [], []
    made = table.snapshots.latest()

    def commit(results: list[str]) -> list[Any]:
        tried.append(list(results))
        if "B" in results:
            raise CommitConflict("gone")
        return [made]

    fitting = commit_fitting(
        table,
        {"a": "A", "b": "B", "c": "C"},
        commit=commit,
        find_stale=lambda left: [key for key in left if key in stale],
        delete=deleted.extend,
    )
    assert fitting.snapshots == (made,)
    assert fitting.committed == {"a": "A", "c": "C"}
    assert fitting.stale == ["b"]
    assert deleted == ["B"]
    assert tried == [["A", "B", "C"], ["A", "C"]]


@pytest.mark.parametrize("stale_each_time", [0, 1])
def test_a_conflict_that_stays_deletes_all_results(table: Any, stale_each_time: int) -> None:
    deleted: list[str] = []
    calls = 0

    def commit(_: list[str]) -> list[Any]:
        nonlocal calls
        calls += 1
        raise CommitConflict("always")

    with pytest.raises(CommitConflict):
        commit_fitting(
            table,
            {n: str(n) for n in range(5)},
            commit=commit,
            find_stale=lambda left: list(left)[:stale_each_time],
            delete=deleted.extend,
        )
    assert calls == (COMMIT_ATTEMPTS if stale_each_time else 1)
    assert sorted(deleted) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("error", [CommitStateUnknown("lost"), CommitRemoved("gone")])
def test_files_of_a_commit_that_may_be_there_stay(table: Any, error: Exception) -> None:
    deleted: list[str] = []

    def commit(_: list[str]) -> list[Any]:
        raise error

    with pytest.raises(type(error)):
        commit_fitting(
            table, {1: "A"}, commit=commit, find_stale=lambda _: [], delete=deleted.extend
        )
    assert deleted == []


def one_by_one(errors: dict[str, Exception], outcome: OneByOne[str]) -> list[str]:
    """The items whose files were deleted."""
    deleted: list[str] = []

    def commit(item: str, user: str) -> Any:
        if item in errors:
            raise errors[item]
        return user

    def delete(items: Iterable[str]) -> None:
        deleted.extend(items)

    try:
        commit_one_by_one("abcd", outcome, user="u", commit=commit, delete=delete)
    except CommitStateUnknown:
        deleted.append("raised")
    return deleted


def test_one_commit_each_leaves_out_what_conflicts() -> None:
    outcome: OneByOne[str] = OneByOne()
    errors = {"a": CommitConflict("x"), "c": StalePlan("y"), "d": CommitRemoved("z")}
    assert one_by_one(errors, outcome) == ["a", "c"]  # a tag may keep the files of d
    assert outcome.committed == [("b", "u-2")]
    assert [item for item, _ in outcome.refused] == ["a", "c", "d"]


def test_an_unknown_outcome_ends_it_and_only_untried_files_go() -> None:
    outcome: OneByOne[str] = OneByOne()
    assert one_by_one({"b": CommitStateUnknown("lost")}, outcome) == ["c", "d", "raised"]
    assert [item for item, _ in outcome.committed] == ["a"]
