"""The changes of a merge as changelog rows.

Java: `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`,
`FirstRowMergeFunctionWrapper`.

============  ===========  =====================================================================
before        after        changelog
============  ===========  =====================================================================
none          a row        +I after
a row         none         -D before
a row         a row        -U before, +U after; nothing if they are equal and the table asks for
                           that (`changelog-producer.row-deduplicate`)
============  ===========  =====================================================================

*full-compaction*: before is the record of the top level; the changelog has every key with records
on other levels.  *lookup*: before is the nearest record above level 0, from the merged files or
looked up above them; the changelog has the keys with a record on level 0.  *first-row*: the
changelog has the keys that had no record above level 0.

Rows have the sequence number of the record that they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.key_column import BoolArray, Rows, kind_values
from paimon_core.lsm.key_versions import NO_PLACE, fixed_array
from paimon_core.lsm.merge_engine import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    MergedRows,
    MergeEngine,
    MergeSlice,
    is_retract,
)
from paimon_core.lsm.tree.lookup_merge import (
    groups_with_level_0,
    nearest,
    records_above,
    with_records,
)
from paimon_core.lsm.tree.sort_merge import MergeOrder
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.types.buffers import bool_values, index_array

Find = Callable[[pa.RecordBatch, Rows], tuple[Rows, pa.RecordBatch | None]]
"""Looks up the keys of these rows of a batch, ascending.

Returns which of them were found, and their records with the batch's columns (None if they are not
needed).
"""
Equal = Callable[[pa.RecordBatch, pa.RecordBatch], BoolArray]
"""Returns, for each pair of rows, whether they are equal."""
_NO_ROW: Final = NO_PLACE


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The rows to write, including deletes, and the changelog of the merge (None: no changes)."""

    merged: pa.RecordBatch
    changelog: pa.RecordBatch | None = None


class ChangelogMerge(Protocol):
    """Merges a slice and returns the changes."""

    def merge(self, rows: MergeSlice) -> MergeResult: ...


@dataclass(frozen=True, slots=True)
class WithoutChangelog:
    """Merges without a changelog."""

    engine: MergeEngine

    def merge(self, rows: MergeSlice) -> MergeResult:
        return MergeResult(self.engine.merge(rows).batch)


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """Returns the changes of a compaction into the top level; rows need a `_LEVEL`."""

    engine: MergeEngine
    top_level: int
    equal: Equal | None = None

    def merge(self, rows: MergeSlice) -> MergeResult:
        merged = self.engine.merge(rows)
        before = records_above(rows, at_least=self.top_level)
        alone = rows.group_ends() - rows.group_starts() == 1
        reported = ~(alone & (before != _NO_ROW))
        return MergeResult(
            merged.batch, _changelog(rows.batch, before, merged, reported, self.equal)
        )


@dataclass(frozen=True, slots=True)
class Lookup:
    """Merges level 0 with the records that `find` looks up above; rows need a `_LEVEL`.

    Keys without a record above level 0 among the rows are looked up, with or without a changelog.
    """

    engine: MergeEngine
    order: MergeOrder
    find: Find | None
    writes_changelog: bool
    equal: Equal | None = None

    def merge(self, rows: MergeSlice) -> MergeResult:
        new = groups_with_level_0(rows)
        rows = nearest(rows)
        if self.find is not None:
            rows = self._with_found(rows, self.find)
        rows = replace(rows, through=np.ones(rows.group_count, np.bool_))
        merged = self.engine.merge(rows)
        if not self.writes_changelog:
            return MergeResult(merged.batch)
        before = records_above(rows)
        return MergeResult(merged.batch, _changelog(rows.batch, before, merged, new, self.equal))

    def _with_found(self, rows: MergeSlice, find: Find) -> MergeSlice:
        missing = np.flatnonzero(records_above(rows) == _NO_ROW)
        if len(missing) == 0:
            return rows
        found, records = find(rows.batch, rows.last_rows()[missing])
        if len(found) == 0 or records is None:
            return rows
        return with_records(rows, missing[found], records, self.order)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Keeps the first row of each key, or none if `find` returns an older one."""

    engine: MergeEngine
    find: Find | None
    writes_changelog: bool

    def merge(self, rows: MergeSlice) -> MergeResult:
        known = records_above(rows) != _NO_ROW
        merged = self.engine.merge(replace(rows, through=np.ones(rows.group_count, np.bool_)))
        groups = _groups(rows, merged)
        batch = merged.batch
        unknown = np.flatnonzero(~known[groups])
        if self.find is not None and len(unknown):
            found, _ = self.find(batch, unknown)
            kept = np.ones(len(groups), np.bool_)
            kept[unknown[found]] = False
            unknown = np.delete(unknown, found)
            reported = batch.take(index_array(unknown)) if self.writes_changelog else None
            return MergeResult(batch.take(index_array(np.flatnonzero(kept))), reported)
        return MergeResult(
            batch, batch.take(index_array(unknown)) if self.writes_changelog else None
        )


def _groups(rows: MergeSlice, merged: MergedRows) -> Rows:
    return np.arange(rows.group_count) if merged.groups is None else merged.groups


def _changelog(
    versions: pa.RecordBatch,
    before: Rows,
    merged: MergedRows,
    reported: BoolArray,
    equal: Equal | None,
) -> pa.RecordBatch | None:
    """Return the changelog of the `reported` groups.

    `before` are rows of `versions`, one per group.
    """
    after = np.full(len(before), _NO_ROW)
    if merged.groups is None:
        after[:] = np.arange(len(before))
    else:
        after[merged.groups] = np.arange(len(merged.groups))
    was = _adds(versions, before)
    is_ = _adds(merged.batch, after)
    updated = np.flatnonzero(reported & was & is_)
    if equal is not None and len(updated):
        old = versions.take(index_array(before[updated]))
        new = merged.batch.take(index_array(after[updated]))
        updated = updated[~equal(old, new)]
    inserted = np.flatnonzero(reported & ~was & is_)
    deleted = np.flatnonzero(reported & was & ~is_)
    old_groups = np.concatenate((deleted, updated))
    new_groups = np.concatenate((inserted, updated))
    if len(old_groups) + len(new_groups) == 0:
        return None
    kinds = np.repeat(
        np.array([DELETE, UPDATE_BEFORE, INSERT, UPDATE_AFTER], np.int8),
        [len(deleted), len(updated), len(inserted), len(updated)],
    )
    # In each group, the old row precedes the new one.
    places = np.argsort(np.concatenate((old_groups * 2, new_groups * 2 + 1)), kind="stable")
    shown = pa.concat_batches(
        [
            versions.take(index_array(before[old_groups])),
            merged.batch.take(index_array(after[new_groups])),
        ]
    ).take(index_array(places))
    position = shown.schema.get_field_index(VALUE_KIND)
    return shown.set_column(
        position, shown.schema.field(position), fixed_array(kinds[places], pa.int8())
    )


def _adds(batch: pa.RecordBatch, rows: Rows) -> BoolArray:
    """Return, for each of these rows, whether it exists and is of kind +I or +U."""
    there: BoolArray = rows != _NO_ROW
    if batch.num_rows:
        there &= ~is_retract(kind_values(batch.column(VALUE_KIND)))[rows]
    return there


def equality(names: Sequence[str], *, rules: JavaRules = JavaRules.JAVA_1_4) -> Equal:
    """Return a comparison of rows by these columns, with the rules of Java's generated code.

    Null equals null.  In 1.4, NaN equals nothing and 0.0 equals -0.0; in 2.0 it is the reverse.
    """
    by_bits = rules is JavaRules.JAVA_2_0

    def equal(old: pa.RecordBatch, new: pa.RecordBatch) -> BoolArray:
        same = np.ones(old.num_rows, np.bool_)
        for name in names:
            same &= _equal_values(old.column(name), new.column(name), by_bits=by_bits)
        return same

    return equal


def _equal_values(old: pa.Array, new: pa.Array, *, by_bits: bool) -> BoolArray:
    if pa.types.is_nested(old.type):
        pairs: Iterable[tuple[Any, Any]] = zip(old.to_pylist(), new.to_pylist(), strict=True)
        if by_bits:
            pairs = ((_with_bits(a), _with_bits(b)) for a, b in pairs)
        if pa.types.is_map(old.type):
            # Java compares maps as sets of entries.
            return np.array([_same_map(a, b) for a, b in pairs], np.bool_)
        return np.array([a == b for a, b in pairs], np.bool_)
    if by_bits and pa.types.is_floating(old.type):
        old, new = _float_bits(old), _float_bits(new)
    same = pc.fill_null(pc.equal(old, new), False)
    if old.null_count and new.null_count:
        same = pc.or_(same, pc.and_(pc.is_null(old), pc.is_null(new)))
    return bool_values(same)


def _float_bits(column: pa.Array) -> pa.Array:
    """Return the bits of numbers as `Double.compare` distinguishes them: one NaN and two zeros."""
    one_nan = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return one_nan.view(pa.int32() if pa.types.is_float32(column.type) else pa.int64())


def _with_bits(value: object) -> object:
    """Return a nested value whose numbers are replaced by what `Double.compare` distinguishes."""
    match value:
        case float():
            return value.hex()
        case list():
            return [_with_bits(v) for v in value]
        case tuple():
            return tuple(map(_with_bits, value))
        case dict():
            return {k: _with_bits(v) for k, v in value.items()}
    return value


def _same_map(old: list[tuple[object, object]] | None, new: object) -> bool:
    if old is None or not isinstance(new, list):
        return old is None and new is None
    return len(old) == len(new) and all(entry in new for entry in old)
