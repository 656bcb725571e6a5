"""What aggregate functions say where Java Paimon breaks off."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from paimon_core.errors import CorruptTable
from paimon_core.lsm.aggregates.operations import ADD
from paimon_core.lsm.aggregates.scalar import (
    MergeMapWithKeyTime,
    RoaringBitmap32,
    fold,
    integer_arithmetic,
)


def test_times_of_maps_are_texts() -> None:
    function = MergeMapWithKeyTime(1)
    one_time = [[("a", ("x", 5))], [("b", ("y", 7))]]
    assert fold(function, [ADD, ADD], one_time) == [("a", ("x", 5)), ("b", ("y", 7))]
    with pytest.raises(CorruptTable, match="ts-field"):
        fold(function, [ADD, ADD], [one_time[0], one_time[0]])


def test_integers_wrap_around_in_1_4_and_stop_in_2_0() -> None:
    assert integer_arithmetic(8)["+"](127, 1) == -128
    assert integer_arithmetic(8, exact=True)["+"](126, 1) == 127
    with pytest.raises(CorruptTable, match="8 bits"):
        integer_arithmetic(8, exact=True)["/"](-128, -1)


@pytest.mark.parametrize("value", [b"", b"no bitmap", BitMap([1, 9]).serialize()[:-1]])
def test_what_is_no_bitmap_is_told(value: bytes) -> None:
    with pytest.raises(CorruptTable, match="rbm32 is not a bitmap"):
        RoaringBitmap32().add(BitMap([1]).serialize(), value)
