"""When a row counts as expired, value by value as Java's getters read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lakes import Lake

from paimon_core.compaction.record_expiry import RecordExpiry, record_expiry
from paimon_core.errors import InvalidArgument
from paimon_core.scan.scan import scan_files
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type


def kept(sql: str, column: pa.Array, before: int) -> list[bool]:
    expiry = RecordExpiry(DataField(id=0, name="t", type=parse_type(sql)), before)
    return list(expiry.keep(pa.record_batch({"t": column})).tolist())


def test_numbers() -> None:
    assert kept("INT", pa.array([99, 100, None], pa.int32()), 100) == [False, True, True]
    assert kept("BIGINT", pa.array([99, None, 100]), 100) == [False, True, True]
    # From 10^12 on a number means milliseconds.
    late = 10**12 // 1000
    column = pa.array([10**12 - 1, 10**12, 10**12 + 999, 10**12 + 1000])
    assert kept("BIGINT", column, late + 1) == [True, False, False, True]


@pytest.mark.parametrize(("unit", "one"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_are_cut_towards_zero(unit: str, one: int) -> None:
    sql = {"ms": "TIMESTAMP(3)", "us": "TIMESTAMP(6)", "ns": "TIMESTAMP(9)"}[unit]
    t = pa.timestamp(unit)
    column = pa.array([5 * one - 1, 5 * one, -5 * one // 2, -one, None], pa.int64()).cast(t)
    assert kept(sql, column, 5) == [False, True, False, False, True]
    # -2.5 s is -2 for Java.
    assert kept(sql, column, -2) == [True, True, True, True, True]
    assert kept(sql, column, -1) == [True, True, False, True, True]


def test_a_slice_of_a_column() -> None:
    column = pa.array([0, 0, 200, None, 5], pa.int32()).slice(1, 3)
    assert kept("INT", column, 100) == [False, True, True]


@pytest.mark.parametrize("field", [None, "v", "nobody"])
def test_a_field_that_tells_no_time_is_refused(field: str | None, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    told = {} if field is None else {"record-level.time-field": field}
    table = lake.table(**{"record-level.expire-time": "1 d"}, **told)
    with pytest.raises(InvalidArgument, match=r"record-level\.time-field") as caught:
        record_expiry(table, now_millis=0)
    assert caught.value.next_step is not None


def test_files_tell_whether_they_hold_expired_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.append({"k": [5, 9], "v": ["a", "b"]})
    table = lake.table(**{"record-level.expire-time": "10 s", "record-level.time-field": "k"})
    (entry,) = scan_files(table, table.latest_or_not_found())
    for now, expired in ((15_999, False), (16_000, True), (10**9, True)):
        expiry = record_expiry(table, now_millis=now)
        assert expiry is not None
        assert expiry.holds_expired(table, entry.file) is expired
    assert record_expiry(lake.table(), now_millis=0) is None
