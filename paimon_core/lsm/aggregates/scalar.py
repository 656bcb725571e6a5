"""Aggregate functions on single values, as in Java: rare ones, and cases that columns cannot cover.

Values are in internal form (`types.data_types`): arrays are lists, maps are lists of pairs, rows
are tuples.  Where Java keeps arrays in the order of a hash set or map, so does this module
(`java_hash`); entries of maps have no order and stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any, Final

from pyroaring import BitMap

from paimon_core.errors import CorruptTable
from paimon_core.lsm.aggregates.java_hash import Hash, in_hash_order
from paimon_core.lsm.aggregates.operations import ADD, ADD_OLD, RETRACT, SET, SET_RETRACT, SKIP
from paimon_core.types.decimals import fit

Value = Any

_EXACT: Final = Context(prec=120)
"""Products of two decimals have at most 76 digits."""


class Aggregate(ABC):
    """A function and its state for one key; `reset` starts a new key (Java: `FieldAggregator`)."""

    name = ""

    def reset(self) -> None:  # noqa: B027 - most functions have no state
        """Start a new key."""

    @abstractmethod
    def add(self, accumulator: Value, value: Value) -> Value:
        """Return the accumulator (None at first) combined with the value of a later row."""

    def add_old(self, accumulator: Value, value: Value) -> Value:
        """Add the value of a row that is older than the accumulator."""
        return self.add(value, accumulator)

    def retract(self, accumulator: Value, value: Value) -> Value:  # noqa: ARG002 - as others have
        raise cannot_retract(self.name)


def cannot_retract(name: str) -> CorruptTable:
    """Return the error for a retraction that a function does not support."""
    return CorruptTable(
        f"aggregate function {name!r} cannot retract a value, but the table contains -U or -D rows",
        next_step="set fields.<field>.ignore-retract=true, or use a function that can",
    )


def fold(function: Aggregate, operations: Sequence[int], values: Sequence[Value]) -> Value:
    """Return the result for one key."""
    function.reset()
    accumulator: Value = None
    for operation, value in zip(operations, values, strict=True):
        if operation == SKIP:
            continue
        if operation in (SET, SET_RETRACT):
            accumulator = value
        if operation == ADD:
            accumulator = function.add(accumulator, value)
        elif operation == ADD_OLD:
            accumulator = function.add_old(accumulator, value)
        elif operation in (RETRACT, SET_RETRACT):
            accumulator = function.retract(accumulator, value)
    return accumulator


class IgnoreRetract(Aggregate):
    """Another function that ignores retractions (Java: `FieldIgnoreRetractAgg`)."""

    def __init__(self, function: Aggregate) -> None:
        self.name = function.name
        self._function = function

    def reset(self) -> None:
        self._function.reset()

    def add(self, accumulator: Value, value: Value) -> Value:
        return self._function.add(accumulator, value)

    def retract(self, accumulator: Value, value: Value) -> Value:  # noqa: ARG002
        return accumulator


# --- numbers --------------------------------------------------------------------------------------

Arithmetic = Callable[[Value, Value], Value]
"""An operation on two non-null values of the column's type."""


class Sum(Aggregate):
    name = "sum"

    def __init__(self, plus: Arithmetic, minus: Arithmetic, zero: Value) -> None:
        self._plus = plus
        self._minus = minus
        self._zero = zero

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return self._plus(accumulator, value)

    def retract(self, accumulator: Value, value: Value) -> Value:
        if value is None:
            return accumulator
        return self._minus(self._zero if accumulator is None else accumulator, value)


class Product(Aggregate):
    name = "product"

    def __init__(self, times: Arithmetic, divided: Arithmetic) -> None:
        self._times = times
        self._divided = divided

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return self._times(accumulator, value)

    def retract(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return accumulator
        return self._divided(accumulator, value)


def decimal_arithmetic(precision: int, scale: int) -> dict[str, Arithmetic]:
    """Return + - * / for decimals of this type; an overflow becomes null."""

    def fitted(value: Decimal) -> Decimal | None:
        return fit(value, precision, scale)

    def divided(a: Decimal, b: Decimal) -> Decimal | None:
        if b == 0:
            raise CorruptTable("aggregate function 'product' cannot retract a zero")
        quotient = _EXACT.divide(a, b)
        if _EXACT.multiply(quotient, b) != a:
            # Java: BigDecimal.divide without rounding
            raise CorruptTable(
                f"aggregate function 'product': {a} / {b} has no finite decimal form"
            )
        return fitted(quotient)

    return {
        "+": lambda a, b: fitted(_EXACT.add(a, b)),
        "-": lambda a, b: fitted(_EXACT.subtract(a, b)),
        "*": lambda a, b: fitted(_EXACT.multiply(a, b)),
        "/": divided,
    }


def integer_arithmetic(bits: int, *, exact: bool = False) -> dict[str, Arithmetic]:
    """Return + - * / for Java integers of this width: they wrap around, division truncates.

    `exact`: an overflow is an error, as in Java 2.0.
    """
    half, whole = 1 << (bits - 1), 1 << bits

    def wrap(value: int) -> int:
        if exact and not -half <= value < half:
            raise CorruptTable(
                f"an aggregate has the value {value}, which does not fit into its column of {bits} bits",
                next_step="give the column a wider type; Java 2.0 fails here, 1.4 wraps around",
            )
        return (value + half) % whole - half

    def divided(a: int, b: int) -> int:
        if b == 0:
            raise CorruptTable("aggregate function 'product' cannot retract a zero")
        quotient = abs(a) // abs(b)
        return wrap(quotient if (a < 0) == (b < 0) else -quotient)

    return {
        "+": lambda a, b: wrap(a + b),
        "-": lambda a, b: wrap(a - b),
        "*": lambda a, b: wrap(a * b),
        "/": divided,
    }


# --- first and last -------------------------------------------------------------------------------


class FirstNonNull(Aggregate):
    name = "first_non_null_value"

    def __init__(self) -> None:
        self._initialized = False

    def reset(self) -> None:
        self._initialized = False

    def add(self, accumulator: Value, value: Value) -> Value:
        if not self._initialized and value is not None:
            self._initialized = True
            return value
        return accumulator


# --- texts ----------------------------------------------------------------------------------------


class Listagg(Aggregate):
    """Joins strings; `distinct` skips tokens that are already present.

    Empty strings are skipped; with `skips_blank` (Java 2.0), so are blank ones.
    """

    name = "listagg"

    def __init__(self, delimiter: str, *, distinct: bool, skips_blank: bool) -> None:
        self._delimiter = delimiter
        self._distinct = distinct
        self._skips_blank = skips_blank

    def add(self, accumulator: Value, value: Value) -> Value:
        if self._skips_blank and (value is None or _is_blank(value)):
            return accumulator
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        if not value:
            return accumulator
        if not accumulator or (self._skips_blank and _is_blank(accumulator)):
            return value
        if not self._distinct:
            return accumulator + self._delimiter + value
        known = set(self._tokens(accumulator))
        parts = [accumulator]
        for token in self._tokens(value):
            blank = _is_blank(token) if self._skips_blank else not token
            if not blank and token not in known:
                known.add(token)
                parts.append(token)
        return self._delimiter.join(parts)

    def _tokens(self, text: str) -> list[str]:
        return text.split(self._delimiter or " ")


def _is_blank(text: str) -> bool:
    """Return whether the text is empty or consists of what Java treats as white space."""
    return all(c.isspace() and c not in "\x85\xa0\u2007\u202f" for c in text)


# --- collections ----------------------------------------------------------------------------------


def frozen(value: Value) -> Hashable:
    """Return the value in a hashable form."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)


class Collect(Aggregate):
    """Concatenates arrays; `distinct` keeps each element once.

    `hash_of` is the elements' Java hash, None where Java compares elements one by one.
    """

    name = "collect"

    def __init__(self, *, distinct: bool, hash_of: Hash | None) -> None:
        self._distinct = distinct
        self._hash_of = hash_of

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None and value is None:
            return None
        if self._distinct:
            elements = [*(accumulator or ()), *(value or ())]
            return self._ordered(list({frozen(e): e for e in elements}.values()))
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return [*accumulator, *value]

    def add_old(self, accumulator: Value, value: Value) -> Value:
        return self.add(accumulator, value)

    def _ordered(self, elements: list[Value]) -> list[Value]:
        hash_of = self._hash_of
        if hash_of is None:
            return elements
        return in_hash_order([(0 if e is None else hash_of(e), e) for e in elements])

    def retract(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or not value:
            return accumulator
        gone = [frozen(v) for v in value]
        left = []
        for element in accumulator:
            if (key := frozen(element)) in gone:
                gone.remove(key)
            else:
                left.append(element)
        return left


class MergeMap(Aggregate):
    """Merges maps; later values win."""

    name = "merge_map"

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return list({frozen(k): (k, v) for k, v in [*accumulator, *value]}.values())

    def retract(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or not value:
            return accumulator
        gone = {frozen(k) for k, _ in value}
        return [(k, v) for k, v in accumulator if frozen(k) not in gone]


class MergeMapWithKeyTime(Aggregate):
    """Merges maps of rows: of two rows of a key, the one with the later time wins.

    A null row removes its key; a row without time is ignored.
    """

    name = "merge_map_with_keytime"

    def __init__(self, time_field: int) -> None:
        self._time = time_field

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        result = {frozen(k): (k, v) for k, v in accumulator}
        for key, row in value:
            place = frozen(key)
            if row is None:
                result.pop(place, None)
                continue
            if row[self._time] is None:
                continue
            _, existing = result.get(place, (None, None))
            if (
                existing is None
                or existing[self._time] is None
                or (_utf16(row[self._time]) > _utf16(existing[self._time]))
            ):
                result[place] = (key, row)
        return list(result.values())


def _utf16(text: object) -> bytes:
    """Return a sort key like Java's String.compareTo, which Java uses for times of any type."""
    if not isinstance(text, str):
        raise CorruptTable(
            f"aggregate function 'merge_map_with_keytime' compares times as texts, not {text!r}",
            next_step="set fields.<field>.ts-field to a STRING field; Java Paimon fails here as well",
        )
    return text.encode("utf-16-be", "surrogatepass")


class NullKeys(StrEnum):
    """The handling of nested rows with a null in their key (2.0: `nested-key-null-strategy`)."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class NestedTable:
    """The key of the rows in an array: the positions of its fields, and their Java hash."""

    key: Sequence[int]
    hash_of: Callable[[Sequence[Value]], int]
    null_keys: NullKeys = NullKeys.MERGE

    def keyed(self, rows: Sequence[Value]) -> Iterator[tuple[Hashable, Value]]:
        """Yield (key, row) for the non-null rows."""
        for row in rows:
            if row is None:
                continue
            values = [row[i] for i in self.key]
            if self.null_keys is not NullKeys.MERGE and None in values:
                if self.null_keys is NullKeys.ERROR:
                    raise CorruptTable("a nested row has a null in its nested-key")
                continue
            yield tuple(map(frozen, values)), row

    def ordered(self, rows: Collection[Value]) -> list[Value]:
        """Return the rows in Java's order."""
        return in_hash_order([(self.hash_of([r[i] for i in self.key]), r) for r in rows])


class NestedUpdate(Aggregate):
    """Treats arrays of rows as tables: rows replace those of the same key.

    Without key, all are kept.

    `newer`: the rules of Java 2.0, which also cleans a first value and counts the limit in keys.
    """

    name = "nested_update"

    def __init__(
        self,
        table: NestedTable,
        *,
        count_limit: int,
        newer: bool,
        sequence_of: Callable[[Value], Any],
    ) -> None:
        self._table = table
        self._limit = count_limit
        self._newer = newer
        self._sequence_of = sequence_of

    def add(self, accumulator: Value, value: Value) -> Value:
        if value is None or (accumulator is None and not self._newer):
            return accumulator if value is None else value
        before = accumulator or []
        if self._newer and self._table.key:
            return self._newer_rows(before, value)
        if accumulator is not None and len(before) >= self._limit:
            return accumulator
        new = [r for r in value if r is not None][: self._limit - len(before)]
        rows = [r for r in before if r is not None] + new
        if not self._table.key:
            return rows
        return self._table.ordered(dict(self._table.keyed(rows)).values())

    def _newer_rows(self, before: Sequence[Value], value: Sequence[Value]) -> list[Value]:
        kept: dict[Hashable, Value] = {}
        for rows, limit in ((before, None), (value, self._limit)):
            for key, row in self._table.keyed(rows):
                if key in kept:
                    if self._sequence_of(row) >= self._sequence_of(kept[key]):
                        kept[key] = row
                elif limit is None or len(kept) < limit:
                    kept[key] = row
        return self._table.ordered(kept.values())

    def retract(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return accumulator
        if not self._table.key:
            gone = {frozen(r) for r in value if r is not None}
            return [r for r in accumulator if r is not None and frozen(r) not in gone]
        kept = dict(self._table.keyed(accumulator))
        for key, _ in self._table.keyed(value):
            kept.pop(key, None)
        return self._table.ordered(kept.values())


class NestedPartialUpdate(Aggregate):
    """Treats arrays of rows as tables: a row's non-null fields replace those of its key.

    `cleans_first`: a key's first value is merged with itself, as in Java 2.0.
    """

    name = "nested_partial_update"

    def __init__(self, table: NestedTable, *, cleans_first: bool) -> None:
        self._table = table
        self._cleans_first = cleans_first

    def add(self, accumulator: Value, value: Value) -> Value:
        if value is None or (accumulator is None and not self._cleans_first):
            return accumulator if value is None else value
        updated: dict[Hashable, list[Value]] = {}
        for key, row in self._table.keyed([*(accumulator or ()), *value]):
            fields = updated.setdefault(key, [None] * len(row))
            for i, field in enumerate(row):
                if field is not None:
                    fields[i] = field
        # Java's `computeIfAbsent` puts a new key before those in the same hash slot, `put` after.
        rows = [tuple(fields) for fields in updated.values()]
        return self._table.ordered(rows[::-1])


class RoaringBitmap32(Aggregate):
    """Builds the union of serialized 32-bit bitmaps."""

    name = "rbm32"

    def add(self, accumulator: Value, value: Value) -> Value:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        try:
            union = BitMap.deserialize(accumulator) | BitMap.deserialize(value)
        except (ValueError, IndexError) as e:
            raise CorruptTable(
                f"a value of {self.name} is not a bitmap: {e}",
                next_step="check what the writers of this column write",
            ) from e
        union.run_optimize()
        return union.serialize()
