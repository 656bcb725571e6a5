"""Columnar aggregate functions (Java: `mergetree/compact/aggregate/Field*Agg`).

A function takes a column and the operation of each version (see `operations`), and returns one
value per group.  Most functions choose a version, which costs no more than finding its place;
numbers are summed by `reduceat`, or, where the order of operations matters (floats), version by
version over all groups at once.  Rare functions work value by value (`scalar`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.lsm.aggregates.operations import (
    ADD,
    ADD_OLD,
    RETRACT,
    SET,
    SET_RETRACT,
    Operations,
)
from paimon_core.lsm.aggregates.scalar import (
    Aggregate,
    FirstNonNull,
    Product,
    Sum,
    cannot_retract,
    decimal_arithmetic,
    fold,
    integer_arithmetic,
)
from paimon_core.lsm.key_column import (
    BoolArray,
    IntArray,
    NumberColumn,
    Rows,
    key_column,
    number_digits,
)
from paimon_core.lsm.key_versions import NO_PLACE, Column, Picks, fixed_array, picked
from paimon_core.types.arrow import arrow_type, column_from_internal, column_to_internal
from paimon_core.types.buffers import index_array
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot
from paimon_core.types.decimals import from_unscaled

_INTEGERS: Final[dict[TypeRoot, Any]] = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.BIGINT: np.int64,
}
_FLOATS: Final[dict[TypeRoot, Any]] = {TypeRoot.FLOAT: np.float32, TypeRoot.DOUBLE: np.float64}
_COMPACT_DIGITS: Final = 18


class ColumnFunction(Protocol):
    """Merges the versions of a column."""

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        """Return one value per group; `column` holds the rows of the whole slice."""
        ...


# --- functions that choose a version --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastValue:
    """The last value, including null; null after a retraction."""

    def merge(self, column: pa.Array, operations: Operations) -> Column:  # noqa: ARG002
        acting = operations.mask(SET, ADD, RETRACT, SET_RETRACT)
        return _unless(operations, operations.versions.last_where(acting), RETRACT, SET_RETRACT)


@dataclass(frozen=True, slots=True)
class PrimaryKeyValue:
    """The last value, including that of a retraction (Java: `FieldPrimaryKeyAgg`)."""

    def merge(self, column: pa.Array, operations: Operations) -> Column:  # noqa: ARG002
        acting = operations.mask(SET, ADD, RETRACT, SET_RETRACT)
        return Picks(operations.versions.last_where(acting))


@dataclass(frozen=True, slots=True)
class LastNonNull:
    """The last value that is not null; null after the retraction of one."""

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        versions = operations.versions
        valid = versions.valid(column)
        acting = operations.mask(SET, SET_RETRACT) | (operations.mask(ADD, RETRACT) & valid)
        last = versions.last_where(acting)
        picks = _unless(operations, last, RETRACT, SET_RETRACT)
        if not operations.has(ADD_OLD):
            return picks
        # An older value is used where there is none.
        missing = (picks.places == NO_PLACE) | ~valid[np.maximum(picks.places, 0)]
        filling = versions.first_where(operations.mask(ADD_OLD) & valid, after=last)
        return Picks(np.where(missing, filling, picks.places))


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The first value, including null."""

    def merge(self, column: pa.Array, operations: Operations) -> Column:  # noqa: ARG002
        _refuse_retracts(operations, "first_value")
        versions = operations.versions
        places = np.arange(versions.places)
        first = versions.first_where(operations.mask(ADD, ADD_OLD))
        first_of_place = np.repeat(first, versions.ends - versions.starts)
        # A value older than the current one becomes the first one.
        acting = (
            operations.mask(SET)
            | (operations.mask(ADD) & (places == first_of_place))
            | (operations.mask(ADD_OLD) & (places > first_of_place) & (first_of_place != NO_PLACE))
        )
        return Picks(versions.last_where(acting))


@dataclass(frozen=True, slots=True)
class FirstNonNullValue:
    """The first value that is not null."""

    data_type: DataType

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        _refuse_retracts(operations, "first_non_null_value")
        versions = operations.versions
        first = versions.first_where(operations.mask(ADD) & versions.valid(column))
        acting = operations.mask(SET)
        acting[first[first != NO_PLACE]] = True
        chosen = Picks(versions.last_where(acting))
        return _patched(
            chosen,
            FirstNonNull(),
            column,
            self.data_type,
            operations,
            operations.groups_with(ADD_OLD),
        )


@dataclass(frozen=True, slots=True)
class Extreme:
    """The greatest or the least value: max, min, bool_or, bool_and."""

    name: str
    greatest: bool

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        _refuse_retracts(operations, self.name)
        versions = operations.versions
        left = operations.mask(SET, ADD, ADD_OLD) & versions.valid(column) & operations.since_set()
        for digit in _total_order(column, versions.rows):
            if self.greatest:
                worst = np.iinfo(digit.dtype).min
                best = np.maximum.reduceat(np.where(left, digit, worst), versions.starts)
            else:
                worst = np.iinfo(digit.dtype).max
                best = np.minimum.reduceat(np.where(left, digit, worst), versions.starts)
            left &= digit == np.repeat(best, versions.ends - versions.starts)
        return Picks(versions.first_where(left))


def _total_order(column: pa.Array, rows: Rows) -> list[IntArray]:
    """Return digits of these rows that sort like Java's `compare` methods, with -0.0 below 0.0."""
    t = column.type
    if pa.types.is_floating(t):
        bits: Any = np.int32 if pa.types.is_float32(t) else np.int64
        values = _raw_values(column, np.float32 if pa.types.is_float32(t) else np.float64)[rows]
        whole = np.where(np.isnan(values), np.nan, values).astype(values.dtype)
        ordered: Any = whole.view(bits)
        turned = np.where(ordered < 0, ordered ^ np.iinfo(bits).max, ordered)
        return [turned.astype(np.int64)]
    digits = key_column(column)
    if isinstance(digits, NumberColumn):
        return [digit(rows) for digit in digits.digits()]
    ranks: IntArray = _dense_ranks(column.take(index_array(rows)))
    return [ranks]


def _dense_ranks(column: pa.Array) -> IntArray:
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    return np.frombuffer(ranks.buffers()[1], dtype=np.uint64, count=len(ranks))


def _unless(operations: Operations, places: Rows, *operations_without_value: int) -> Picks:
    """Return the places, without those whose operation results in null."""
    codes = operations.codes[np.maximum(places, 0)]
    return Picks(np.where(np.isin(codes, operations_without_value), NO_PLACE, places))


def _refuse_retracts(operations: Operations, name: str) -> None:
    if operations.has(RETRACT, SET_RETRACT):
        raise cannot_retract(name)


# --- numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SumValues:
    """The sum of the non-null values; retractions are subtracted.

    Integers wrap around; with `exact`, an overflow is an error.
    """

    data_type: AtomicType
    exact: bool = False

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        root = self.data_type.root
        if root in _FLOATS:
            return _folded(column, operations, _FLOATS[root], np.add, np.subtract)
        terms = _Terms.of(column, operations)
        if root in _INTEGERS:
            values = number_digits(column)[0][terms.rows]
            sums = terms.sums(values.astype(np.int64))  # wraps around, as Java does
            narrow = sums.astype(_INTEGERS[root])
            result = fixed_array(narrow, arrow_type(self.data_type), terms.present)
            if not self.exact:
                return result
            risky = np.flatnonzero(
                terms.totals(np.abs(values.astype(np.float64))) >= 2.0 ** (_bits(root) - 1) * 0.999
            )
            exact = integer_arithmetic(_bits(root), exact=True)
            function = Sum(exact["+"], exact["-"], 0)
            return _patched(result, function, column, self.data_type, operations, risky)
        return self._decimals(column, operations, terms)

    def _decimals(self, column: pa.Array, operations: Operations, terms: _Terms) -> Column:
        precision, scale = self.data_type.precision or 0, self.data_type.scale or 0
        low, high = _decimal_halves(column, terms.rows)
        # Values that cannot overflow at any step are added as plain numbers.
        narrow = high == low >> 63
        limit = 10.0 ** min(precision, _COMPACT_DIGITS) * 0.999
        sizes = np.where(narrow, np.abs(low.astype(np.float64)), np.inf)
        risky = np.flatnonzero(terms.totals(sizes) >= limit)
        sums = terms.sums(low)
        pairs = np.stack([sums, sums >> 63], axis=1)
        result = fixed_array(pairs, arrow_type(self.data_type), terms.present)
        exact = decimal_arithmetic(precision, scale)
        function = Sum(exact["+"], exact["-"], from_unscaled(0, scale))
        return _patched(result, function, column, self.data_type, operations, risky)


@dataclass(frozen=True, slots=True)
class ProductValues:
    """The product of the non-null values; retractions divide it.

    Integers wrap around; with `exact`, an overflow is an error.
    """

    data_type: AtomicType
    exact: bool = False

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        root = self.data_type.root
        if root in _FLOATS:
            return _folded(column, operations, _FLOATS[root], np.multiply, np.divide)
        if root in _INTEGERS:
            arithmetic = integer_arithmetic(_bits(root), exact=self.exact)
            function = Product(*_times_and_divided(arithmetic))
            product = _folded(column, operations, _INTEGERS[root], np.multiply, None)
            hard = operations.groups_with(RETRACT, SET_RETRACT)
            if self.exact:
                terms = _Terms.of(column, operations)
                sizes = np.abs(number_digits(column)[0][terms.rows].astype(np.float64))
                doublings = terms.totals(np.log2(np.maximum(sizes, 1.0)))
                risky = np.flatnonzero(doublings >= _bits(root) - 1.001)
                hard = np.union1d(hard, risky)
            return _patched(product, function, column, self.data_type, operations, hard)
        exact = decimal_arithmetic(self.data_type.precision or 0, self.data_type.scale or 0)
        return ScalarFunction(Product(*_times_and_divided(exact)), self.data_type).merge(
            column, operations
        )


def _bits(root: TypeRoot) -> int:
    return int(np.iinfo(_INTEGERS[root]).bits)


def _times_and_divided(arithmetic: dict[str, Any]) -> tuple[Any, Any]:
    return arithmetic["*"], arithmetic["/"]


@dataclass(frozen=True, slots=True)
class _Terms:
    """The places whose values are part of a sum, with their signs, by group."""

    rows: Rows
    signs: npt.NDArray[np.int64]
    counts: Rows
    present: BoolArray

    @staticmethod
    def of(column: pa.Array, operations: Operations) -> _Terms:
        versions = operations.versions
        acting = operations.mask(SET, ADD, ADD_OLD, RETRACT, SET_RETRACT)
        places = np.flatnonzero(acting & versions.valid(column) & operations.since_set())
        codes = operations.codes[places]
        signs = np.where(codes == RETRACT, -1, np.where(codes == SET_RETRACT, 0, 1))
        counts = np.bincount(
            np.searchsorted(versions.ends, places, side="right"), minlength=versions.groups
        )
        return _Terms(versions.rows[places], signs, counts, counts > 0)

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the signed sum of each group; zero without values."""
        return self._by_group(np.add, values * self.signs)

    def totals(self, sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the sum of the sizes of each group, ignoring signs."""
        return self._by_group(np.add, sizes)

    def _by_group(self, function: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        result = np.zeros(len(self.counts), dtype=values.dtype)
        if len(values):
            starts = (np.cumsum(self.counts) - self.counts)[self.present]
            result[self.present] = function.reduceat(values, starts)
        return result


Step = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]


def _folded(
    column: pa.Array, operations: Operations, dtype: Any, add: Step, retract: Step | None
) -> pa.Array:
    """Fold the values of each group in order, for all groups at once.

    Retracting a value from nothing gives `retract(zero, value)`, as in Java's sum, or nothing, as
    in its product; without `retract`, retractions are ignored.
    """
    versions = operations.versions
    operands = (SET, ADD, ADD_OLD) if retract is None else (SET, ADD, ADD_OLD, RETRACT, SET_RETRACT)
    acting = operations.mask(*operands) & versions.valid(column) & operations.since_set()
    places = np.flatnonzero(acting)
    groups = np.searchsorted(versions.ends, places, side="right")
    counts = np.bincount(groups, minlength=versions.groups)
    begins = np.cumsum(counts) - counts
    values = _raw_values(column, dtype)[versions.rows[places]]
    codes = operations.codes[places]
    result = np.zeros(versions.groups, dtype=dtype)
    present = np.zeros(versions.groups, dtype=np.bool_)
    longest_first = np.argsort(-counts, kind="stable")
    sizes = counts[longest_first]
    with np.errstate(all="ignore"):
        for depth in range(int(counts.max(initial=0))):
            now = longest_first[: np.searchsorted(-sizes, -depth)]
            index = begins[now] + depth
            value, code = values[index], codes[index]
            before, there = result[now], present[now]
            after = np.where(there & (code != SET), add(before, value), value)
            if retract is not None:
                taken = np.where(there, retract(before, value), -value)
                after = np.where(code == RETRACT, taken, after)
                after = np.where(code == SET_RETRACT, retract(value, value), after)
                if add is np.multiply:  # nothing to divide
                    there = there | (code != RETRACT)
                    present[now] = there
                else:
                    present[now] = True
            else:
                present[now] = True
            result[now] = after
    return fixed_array(result, column.type, present)


def _raw_values(column: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype=dtype)
    item = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(column), offset=column.offset * item)


def _decimal_halves(
    column: pa.Array, rows: Rows
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    pairs = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)
    chosen = pairs[rows + column.offset]
    return np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])


# --- value by value -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function that works on single values."""

    function: Aggregate
    data_type: DataType

    def merge(self, column: pa.Array, operations: Operations) -> Column:
        everything = np.arange(operations.versions.groups)
        return _scalar(self.function, column, self.data_type, operations, everything)


def _scalar(
    function: Aggregate,
    column: pa.Array,
    data_type: DataType,
    operations: Operations,
    groups: Rows,
) -> pa.Array:
    """Return the function's values for these groups."""
    versions = operations.versions
    sizes = (versions.ends - versions.starts)[groups]
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum()) + np.repeat(versions.starts[groups] - (ends - sizes), sizes)
    values = column_to_internal(column.take(index_array(versions.rows[places])), data_type)
    codes = operations.codes[places].tolist()
    results = [
        fold(function, codes[end - size : end], values[end - size : end])
        for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    ]
    return column_from_internal(results, data_type)


def _patched(
    result: Column,
    function: Aggregate,
    column: pa.Array,
    data_type: DataType,
    operations: Operations,
    groups: Rows,
) -> Column:
    """Return the result, with these groups computed value by value."""
    if len(groups) == 0:
        return result
    values = _scalar(function, column, data_type, operations, groups)
    base = picked(operations.versions, column, result) if isinstance(result, Picks) else result
    index = np.arange(operations.versions.groups)
    index[groups] = len(base) + np.arange(len(groups))
    return pa.concat_arrays([base, values.cast(base.type)]).take(index_array(index))
