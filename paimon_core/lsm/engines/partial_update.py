"""Merge engine `partial-update`: non-null fields update the row.

Java: `PartialUpdateMergeFunction`.

Without sequence groups, a field has its last non-null value.  A *sequence group*
(`fields.s1,s2.sequence-group = a,b`) orders its fields by its own sequence fields: a version whose
sequence is not below the greatest so far sets the sequence fields and the group's fields (also to
null); an older one changes nothing, except that fields with an aggregate function add it as an
older value.  A version whose sequence fields are all null does not change the group.

A retraction sets the fields of the groups for which it is new enough to null, and is retracted from
aggregated fields.  Two options make a -D remove the whole row, which then restarts with the values
of the -D. If a key's first version is a retraction, the others update its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.lsm.aggregates.functions import ColumnFunction, LastNonNull, LastValue
from paimon_core.lsm.aggregates.operations import (
    ADD,
    ADD_OLD,
    RETRACT,
    SET,
    SET_RETRACT,
    SKIP,
    Operations,
)
from paimon_core.lsm.aggregates.options import PREFIX, column_function, function_name
from paimon_core.lsm.engines.sequence_groups import GROUP_SUFFIX
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.key_column import BoolArray, BytesColumn, Rows, key_column
from paimon_core.lsm.key_versions import NO_PLACE, Column, Versions, assembled
from paimon_core.lsm.merge_engine import (
    DELETE,
    INSERT,
    MergedRows,
    MergeSlice,
    is_retract,
)
from paimon_core.options import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.buffers import valid_rows


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Sequence fields, the fields that they order, and the functions of aggregated fields.

    `removes_row`: a -D that is new enough for this group removes the whole row.  `signed_zeros`: as
    in `KeyType`.
    """

    sequence_fields: tuple[str, ...]
    fields: tuple[str, ...]
    functions: Mapping[str, ColumnFunction] = field(default_factory=dict)
    removes_row: bool = False
    signed_zeros: bool = False


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """See the module; `functions` holds the functions of fields outside sequence groups."""

    groups: tuple[SequenceGroup, ...] = ()
    functions: Mapping[str, ColumnFunction] = field(default_factory=dict)
    ignore_delete: bool = False
    remove_on_delete: bool = False

    def merge(self, rows: MergeSlice) -> MergedRows:
        if rows.is_merged:
            return MergedRows(rows.in_order())
        return _Merge(self, rows).result()


class _Merge:
    """The merge of one slice; the masks have an entry for each place.

    `seeds`: first versions that are retractions, whose values later ones update.  `seen`: versions
    that are not ignored.
    """

    def __init__(self, engine: PartialUpdate, piece: MergeSlice) -> None:
        self._engine = engine
        self.piece = piece
        self.versions = versions = Versions.of(piece)
        self.retract = is_retract(versions.kinds)
        self.deletes = versions.kinds == DELETE
        first: BoolArray = np.zeros(versions.places, dtype=np.bool_)
        first[versions.starts] = True
        self.seeds = first & self.retract
        self.seen = ~self.retract if engine.ignore_delete else np.ones_like(first)
        self._groups = [_GroupOfSlice(g, self) for g in engine.groups if self._has(g)]

    def _has(self, group: SequenceGroup) -> bool:
        return all(f in self.piece.batch.schema.names for f in group.sequence_fields)

    @cached_property
    def removals(self) -> BoolArray:
        """Return the -D versions at which the row restarts."""
        engine = self._engine
        if not engine.groups:
            return self.deletes if engine.remove_on_delete else np.zeros_like(self.deletes)
        found: BoolArray = np.zeros_like(self.deletes)
        removing = [g for g in self._groups if g.group.removes_row]
        if not removing or not self.deletes.any():
            return found
        # A removal changes what follows in its group: find the first one, then search again.
        tried = np.zeros_like(found)
        while True:
            accepted = np.zeros_like(found)
            for group in removing:
                accepted |= group.accepted(found)
            candidates = accepted & self.deletes & ~tried
            segments = self.segment_starts(found)
            ends = np.append(segments[1:], self.versions.places)
            hits = np.flatnonzero(candidates)
            if len(hits) == 0:
                return found
            place = np.searchsorted(hits, segments)
            has = place < len(hits)
            firsts = hits[place[has]]
            new = firsts[firsts < ends[has]]
            found[new] = True
            tried[new] = True

    def segment_starts(self, removals: BoolArray) -> Rows:
        """Return where sequences restart: at the groups' starts and at removals."""
        starts = removals.copy()
        starts[self.versions.starts] = True
        return np.flatnonzero(starts)

    def result(self) -> MergedRows:
        self._refuse_deletes()
        versions = self.versions
        removals = self.removals
        columns: dict[str, Column] = {}
        plain = self._plain_operations(removals)
        for group in self._groups:
            columns |= group.columns(removals)
        batch = self.piece.batch
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in columns and not name.startswith("_"):
                function = self._engine.functions.get(name, LastNonNull())
                columns[name] = function.merge(column, plain)
        ends = versions.ends - 1
        counted = versions.last_where(self.seen)
        numbers = np.where(counted == NO_PLACE, 0, versions.sequence_numbers[counted])
        inserted = versions.last_where(~self.retract) != NO_PLACE
        removed = removals[ends] | ~inserted
        kinds = np.where(removed, DELETE, INSERT).astype(np.int8)
        return assembled(self.piece, versions, columns, kinds=kinds, sequence_numbers=numbers)

    def _plain_operations(self, removals: BoolArray) -> Operations:
        """Return the operations of fields without sequence: ADD, or SET for seeds and removals."""
        codes = np.where(self.retract, SKIP, ADD).astype(np.int8)
        codes[self.seeds | removals] = SET
        return Operations(self.versions, codes)

    def _refuse_deletes(self) -> None:
        engine = self._engine
        if engine.ignore_delete or engine.remove_on_delete or engine.groups:
            return
        if self.retract.any():
            raise CorruptTable(
                "merge engine partial-update cannot take -U and -D rows, but the table contains some",
                next_step="set ignore-delete, partial-update.remove-record-on-delete or sequence "
                "groups",
            )


class _GroupOfSlice:
    """One sequence group over the versions of a slice."""

    def __init__(self, group: SequenceGroup, merge: _Merge) -> None:
        self.group = group
        self._merge = merge
        arrays = [merge.piece.batch.column(f) for f in group.sequence_fields]
        codes, filled = _sequence_codes(
            arrays, merge.versions.rows, signed_zeros=group.signed_zeros
        )
        self._filled = filled & merge.seen
        # The row still gets the sequence of an ignored seed.
        self._codes = np.where(self._filled | (merge.seeds & filled), codes, 0)

    def accepted(self, removals: BoolArray) -> BoolArray:
        """Return the versions whose sequence is not below the row's, given where rows restart."""
        merge = self._merge
        before = merge.versions.running_maximum(self._codes, merge.segment_starts(removals))
        accepted: BoolArray = self._filled & (self._codes >= before)
        return accepted

    def columns(self, removals: BoolArray) -> dict[str, Column]:
        """Return the merged fields and sequence fields of the group."""
        merge = self._merge
        batch = merge.piece.batch
        accepted = self.accepted(removals)
        codes = np.full(merge.versions.places, SKIP, dtype=np.int8)
        codes[accepted & ~merge.retract] = ADD
        codes[accepted & merge.retract] = RETRACT
        starting = (merge.seeds & (codes == RETRACT)) & ~removals
        codes[merge.seeds | removals] = SET
        codes[starting] = SET_RETRACT
        plain = Operations(merge.versions, codes)
        sequence = codes.copy()
        sequence[codes == RETRACT] = ADD
        sequence[codes == SET_RETRACT] = SET
        winners = LastValue().merge(batch.column(0), Operations(merge.versions, sequence))
        columns: dict[str, Column] = dict.fromkeys(self.group.sequence_fields, winners)
        values: Column | None = None
        aggregated: Operations | None = None
        for name in self.group.fields:
            if name not in batch.schema.names:
                continue
            function = self.group.functions.get(name)
            if function is None:
                if values is None:
                    values = LastValue().merge(batch.column(0), plain)
                columns[name] = values
                continue
            if aggregated is None:
                with_old = codes.copy()
                old = self._filled & ~accepted & (codes == SKIP)
                with_old[old] = np.where(merge.retract[old], RETRACT, ADD_OLD)
                aggregated = Operations(merge.versions, with_old)
            columns[name] = function.merge(batch.column(name), aggregated)
        return columns


def _sequence_codes(
    arrays: Sequence[pa.Array], rows: Rows, *, signed_zeros: bool
) -> tuple[Rows, BoolArray]:
    """Return (ranks of these rows by sequence fields, from 1; whether any field is not null)."""
    digits: list[npt.NDArray[np.int64] | npt.NDArray[np.uint64]] = []
    filled = np.zeros(len(rows), dtype=np.bool_)
    for array in arrays:
        if array.null_count:
            valid = valid_rows(array)[rows]
            digits.append(valid.astype(np.int64))
            filled |= valid
        else:
            filled[:] = True
        column = key_column(array, signed_zeros=signed_zeros)
        if isinstance(column, BytesColumn):
            digits.append(column.ranks(rows))
        else:
            digits += [digit(rows) for digit in column.digits()]
    order = np.lexsort(digits[::-1])
    changes = np.zeros(len(rows), dtype=np.bool_)
    for digit in digits:
        ordered = digit[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    codes = np.empty(len(rows), dtype=np.int64)
    codes[order] = np.cumsum(changes) + 1
    return codes, filled


def group_sequence_fields(schema: TableSchema) -> list[str]:
    """Return the sequence fields of all groups, which a merge reads to order the groups' fields."""
    groups = schema.options.matching(PREFIX, GROUP_SUFFIX)
    return list(dict.fromkeys(name for names in groups for name in names.split(",")))


def partial_update_of(schema: TableSchema, rules: JavaRules) -> PartialUpdate:
    """Return the engine of a table; InvalidArgument for conflicting options."""
    options = schema.options
    ignore_delete = options.value(IGNORE_DELETE)
    remove_on_delete = options.value(PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE)
    removing = options.value(PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP)
    fields = {f.name: f for f in schema.fields}
    groups = []
    ordered: set[str] = set()
    for names, text in options.matching(PREFIX, GROUP_SUFFIX).items():
        sequence_fields = tuple(names.split(","))
        members = tuple(text.split(","))
        for name in (*sequence_fields, *members):
            if name not in fields:
                raise InvalidArgument(f"sequence group {names} names the unknown field {name}")
        functions = {
            name: column_function(function, fields[name], options, rules=rules)
            for name in members
            if (function := function_name(name, options)) is not None
            and name not in schema.primary_keys
        }
        groups.append(
            SequenceGroup(
                sequence_fields,
                members,
                functions,
                removes_row=any(f in removing for f in sequence_fields),
                signed_zeros=rules is JavaRules.JAVA_2_0,
            )
        )
        ordered |= {*sequence_fields, *members}
    if (remove_on_delete or removing) and ignore_delete:
        raise InvalidArgument(f"{IGNORE_DELETE.key} cannot be combined with removing rows on -D")
    if remove_on_delete and groups:
        raise InvalidArgument(
            f"{PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key} cannot be combined with sequence groups"
        )
    for name in fields:
        function = function_name(name, options)
        if name in ordered or name in schema.primary_keys or function is None:
            continue
        if function != "last_non_null_value":
            raise InvalidArgument(f"field {name} is aggregated but in no sequence group")
    return PartialUpdate(tuple(groups), {}, ignore_delete, remove_on_delete)
