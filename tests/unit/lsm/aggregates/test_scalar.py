"""What aggregate functions say where Java Paimon breaks off."""

from __future__ import annotations

import pytest

from paimon_core.errors import CorruptTable
from paimon_core.lsm.aggregates.operations import ADD
from paimon_core.lsm.aggregates.scalar import MergeMapWithKeyTime, fold, integer_arithmetic


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
