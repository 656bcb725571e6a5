"""Merge engines written down record by record, after Java's classes, for tests to compare with.

Each function takes the records of one key in merge order (see `merge_model.merge`).  NotImplementedError
stands for the exception with which Java refuses a delete or a retraction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np

from tests.merge_model import MergeFunction, Record, compare_sequences


class Aggregator(ABC):
    """FieldAggregator."""

    def reset(self) -> None:  # noqa: B027 - most functions have no state
        pass

    @abstractmethod
    def agg(self, accumulator: Any, value: Any) -> Any: ...

    def agg_reversed(self, accumulator: Any, value: Any) -> Any:
        return self.agg(value, accumulator)

    def retract(self, accumulator: Any, value: Any) -> Any:
        raise NotImplementedError


class Simple(Aggregator):
    """An aggregator without state, of functions on values that are not null."""

    def __init__(
        self, agg: Callable[[Any, Any], Any], retract: Callable[[Any, Any], Any] | None = None
    ) -> None:
        self._agg = agg
        self._retract = retract

    def agg(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return self._agg(accumulator, value)

    def retract(self, accumulator: Any, value: Any) -> Any:
        if self._retract is None:
            raise NotImplementedError
        return self._retract(accumulator, value)


class PrimaryKey(Aggregator):
    def agg(self, accumulator: Any, value: Any) -> Any:
        return value

    def retract(self, accumulator: Any, value: Any) -> Any:
        return value


class LastValue(Aggregator):
    def agg(self, accumulator: Any, value: Any) -> Any:
        return value

    def retract(self, accumulator: Any, value: Any) -> Any:
        return None


class LastNonNull(Aggregator):
    def agg(self, accumulator: Any, value: Any) -> Any:
        return accumulator if value is None else value

    def retract(self, accumulator: Any, value: Any) -> Any:
        return accumulator if value is None else None


class FirstValue(Aggregator):
    initialized = False

    def reset(self) -> None:
        self.initialized = False

    def agg(self, accumulator: Any, value: Any) -> Any:
        if not self.initialized:
            self.initialized = True
            return value
        return accumulator


class FirstNonNull(FirstValue):
    def agg(self, accumulator: Any, value: Any) -> Any:
        if not self.initialized and value is not None:
            self.initialized = True
            return value
        return accumulator


class IgnoreRetract(Aggregator):
    def __init__(self, inner: Aggregator) -> None:
        self.inner = inner

    def reset(self) -> None:
        self.inner.reset()

    def agg(self, accumulator: Any, value: Any) -> Any:
        return self.inner.agg(accumulator, value)

    def retract(self, accumulator: Any, value: Any) -> Any:
        return accumulator


def wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def int_sum(bits: int) -> Aggregator:
    def retract(accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return (
                None
                if value is None and accumulator is None
                else (wrap(-value, bits) if accumulator is None else accumulator)
            )
        return wrap(accumulator - value, bits)

    return Simple(lambda a, b: wrap(a + b, bits), retract)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def int_product(bits: int) -> Aggregator:
    def retract(accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return accumulator
        return wrap(truncated(accumulator, value), bits)

    return Simple(lambda a, b: wrap(a * b, bits), retract)


def float_sum(width: type[np.floating]) -> Aggregator:
    def retract(accumulator: Any, value: Any) -> Any:
        if value is None:
            return accumulator
        if accumulator is None:
            return -value
        return float(width(accumulator) - width(value))

    return Simple(lambda a, b: float(width(a) + width(b)), retract)


def decimal_sum(precision: int) -> Aggregator:
    exact = Context(prec=100)  # plain + and - round to 28 digits

    def fit(value: Decimal) -> Decimal | None:
        _, digits, _ = value.as_tuple()
        return value if len(digits) <= precision else None

    def retract(accumulator: Any, value: Any) -> Any:
        if value is None:
            return accumulator
        if accumulator is None:
            return fit(exact.minus(value))
        return fit(exact.subtract(accumulator, value))

    return Simple(lambda a, b: fit(exact.add(a, b)), retract)


def listagg(delimiter: str) -> Aggregator:
    return Simple(lambda a, b: a if not b else b if not a else a + delimiter + b)


def aggregation(
    aggregators: Mapping[str, Aggregator], *, remove_on_delete: bool = False
) -> MergeFunction:
    """AggregateMergeFunction."""

    def function(group: Sequence[Record]) -> Record:
        for aggregator in aggregators.values():
            aggregator.reset()
        row: dict[str, Any] = dict.fromkeys(aggregators)
        deleted = False
        for record in group:
            deleted = remove_on_delete and record.kind == 3
            if deleted:
                row = dict(record.values)
                continue
            for name, aggregator in aggregators.items():
                step = aggregator.retract if record.is_retract else aggregator.agg
                row[name] = step(row[name], record.values[name])
        return Record(group[-1].sequence, 3 if deleted else 0, row)

    return function


def first_row() -> MergeFunction:
    """FirstRowMergeFunction with ignore-delete."""

    def function(group: Sequence[Record]) -> Record | None:
        return next((r for r in group if not r.is_retract), None)

    return function


class PartialUpdate:
    """PartialUpdateMergeFunction (1.4.2); `groups` maps sequence fields to the fields they order."""

    def __init__(
        self,
        fields: Sequence[str],
        *,
        groups: Mapping[tuple[str, ...], Sequence[str]] | None = None,
        aggregators: Mapping[str, Aggregator] | None = None,
        ignore_delete: bool = False,
        remove_on_delete: bool = False,
        remove_on_groups: Sequence[str] = (),
    ) -> None:
        self.fields = fields
        self.comparators: dict[str, tuple[str, ...]] = {}
        for sequence, members in (groups or {}).items():
            for name in (*members, *sequence):
                self.comparators[name] = sequence
        self.aggregators = aggregators or {}
        self.ignore_delete = ignore_delete
        self.remove_on_delete = remove_on_delete
        self.partial_delete = set(remove_on_groups)

    def __call__(self, group: Sequence[Record]) -> Record:
        for aggregator in self.aggregators.values():
            aggregator.reset()
        self.row: dict[str, Any] = dict.fromkeys(self.fields)
        self.meet_insert = False
        self.filled = False
        self.latest = 0
        for record in group:
            self.add(record)
        kind = 3 if self.current_delete or not self.meet_insert else 0
        return Record(self.latest, kind, self.row)

    def add(self, record: Record) -> None:
        self.current_delete = False
        if record.is_retract:
            if not self.filled:
                self.row = dict(record.values)
                self.filled = True
            if self.ignore_delete:
                return
            self.latest = record.sequence
            if self.comparators:
                self.retract_with_groups(record)
                return
            if self.remove_on_delete:
                if record.kind == 3:
                    self.current_delete = True
                    self.row = dict(record.values)
                return
            raise NotImplementedError
        self.latest = record.sequence
        if not self.comparators:
            for name in self.fields:
                if record.values[name] is not None:
                    self.row[name] = record.values[name]
        else:
            self.update_with_groups(record)
        self.meet_insert = True
        self.filled = True

    def is_empty(self, record: Record, sequence: tuple[str, ...]) -> bool:
        return all(record.values[s] is None for s in sequence)

    def is_new(self, record: Record, sequence: tuple[str, ...]) -> bool:
        return compare_sequences(record, Record(0, 0, self.row), sequence) >= 0

    def update_with_groups(self, record: Record) -> None:
        for name in self.fields:
            sequence = self.comparators.get(name)
            aggregator = self.aggregators.get(name)
            value = record.values[name]
            accumulator = self.row[name]
            if sequence is None:
                if aggregator is not None:
                    self.row[name] = aggregator.agg(accumulator, value)
                elif value is not None:
                    self.row[name] = value
                continue
            if self.is_empty(record, sequence):
                continue
            if self.is_new(record, sequence):
                if name in sequence:
                    for each in sequence:
                        self.row[each] = record.values[each]
                    continue
                self.row[name] = value if aggregator is None else aggregator.agg(accumulator, value)
            elif aggregator is not None:
                self.row[name] = aggregator.agg_reversed(accumulator, value)

    def retract_with_groups(self, record: Record) -> None:
        updated: set[str] = set()
        for name in self.fields:
            sequence = self.comparators.get(name)
            aggregator = self.aggregators.get(name)
            if sequence is None or self.is_empty(record, sequence):
                continue
            if self.is_new(record, sequence):
                if name in sequence:
                    for each in sequence:
                        if each in updated:
                            continue
                        if record.kind == 3 and each in self.partial_delete:
                            self.current_delete = True
                            self.row = dict(record.values)
                            return
                        self.row[each] = record.values[each]
                        updated.add(each)
                elif aggregator is None:
                    self.row[name] = None
                else:
                    self.row[name] = aggregator.retract(self.row[name], record.values[name])
            elif aggregator is not None:
                self.row[name] = aggregator.retract(self.row[name], record.values[name])
