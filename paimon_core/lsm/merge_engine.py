"""The input and output of merge engines: all versions of some keys at once, in columns.

::

    batches A.id  A.x  | B.id  B.x           rows of run A, then of run B
    order   0  2  1  3                       rows in merge order
    starts  0     2                          places in `order` where a key begins

An engine sees slices that hold *whole* groups: every version of a key is in one slice.  Within a
group, rows are in the order in which Java's merge function receives them: by user sequence fields,
then sequence number, then run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.lsm.key_column import BoolArray, Rows, int_values, kind_values
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.types.buffers import index_array

INSERT = 0
UPDATE_BEFORE = 1
UPDATE_AFTER = 2
DELETE = 3


@dataclass(frozen=True)
class MergeSlice:
    """Every version of some keys.

    `batches` hold the rows run by run; they may have columns that the table does not have (such as
    the position of a row in its file).  Their columns are joined only when they are used.  `order`
    None means that the rows are already in merge order; otherwise, rows that it leaves out are
    ignored.  `starts` None: every key has one row.  `parts` holds the runs of the rows: pairs of
    (run, row count), in the order of `batches`.  `through` marks the groups that pass through a
    merge function although they have one row; None: no group (Java: merges with a lookup do not go
    through `ReducerMergeFunctionWrapper`).
    """

    batches: Sequence[pa.RecordBatch]
    order: Rows | None
    starts: Rows | None
    parts: Sequence[tuple[int, int]]
    through: BoolArray | None = None

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)

    def column(self, name: str) -> pa.Array:
        """Return one column of all rows."""
        return joined_column(self.batches, self.batches[0].schema.get_field_index(name))

    @cached_property
    def row_count(self) -> int:
        return sum(b.num_rows for b in self.batches)

    @property
    def group_count(self) -> int:
        return self.row_count if self.starts is None else len(self.starts)

    @property
    def sequence_numbers(self) -> npt.NDArray[np.int64]:
        """Return one value per row, in the order of `batches`."""
        return int_values(self.column(SEQUENCE_NUMBER))

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Return one value per row, in the order of `batches`."""
        return kind_values(self.column(VALUE_KIND))

    @property
    def runs(self) -> npt.NDArray[np.int32]:
        """Return the run of each row."""
        runs, counts = zip(*self.parts, strict=True)
        return np.repeat(np.array(runs, dtype=np.int32), counts)

    def ordered(self) -> Rows:
        """Return `order` as an array, even if it is None."""
        return np.arange(self.row_count) if self.order is None else self.order

    @property
    def is_merged(self) -> bool:
        """Return whether there is nothing to merge: every row is its key's result."""
        return self.starts is None and self.through is None

    def group_starts(self) -> Rows:
        """Return `starts` as an array, even if it is None."""
        return np.arange(self.row_count) if self.starts is None else self.starts

    def merged_groups(self) -> BoolArray:
        """Return, for each group, whether a merge function determines its result."""
        several: BoolArray = self.group_ends() - self.group_starts() > 1
        return several if self.through is None else several | self.through

    def group_ends(self) -> Rows:
        """Return the place after the last row of each group."""
        if self.starts is None:
            return np.arange(1, self.row_count + 1)
        return np.append(self.starts[1:], self.row_count if self.order is None else len(self.order))

    def last_rows(self) -> Rows:
        """Return the last row of each group, as row numbers of `batch`."""
        return self.ordered()[self.group_ends() - 1]

    def take(self, rows: Rows) -> pa.RecordBatch:
        """Return these rows of `batch`."""
        indices, schema = index_array(rows), self.batches[0].schema
        # Column by column: a joined column stays in the cache of the processor until it is taken.
        columns = (joined_column(self.batches, i) for i in range(len(schema)))
        taken = [pc.take(column, indices, boundscheck=False) for column in columns]
        return pa.RecordBatch.from_arrays(taken, schema=schema)

    def in_order(self) -> pa.RecordBatch:
        """Return all rows in merge order."""
        return self.batch if self.order is None else self.take(self.order)


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The result of merging a slice: rows in key order, including deletes.

    `groups` holds the group of each row, ascending; None: every group gave one row.
    """

    batch: pa.RecordBatch
    groups: Rows | None = None


class MergeEngine(Protocol):
    """Merges all versions of a key into one row or none (Java: `MergeFunction`)."""

    def merge(self, rows: MergeSlice) -> MergedRows:
        """Return the result of every group.

        A group of one row gives that row, whatever its kind, unless `through` marks the group: Java
        does not pass it to the merge function (`ReducerMergeFunctionWrapper`).
        """
        ...


def joined_column(batches: Sequence[pa.RecordBatch], place: int) -> pa.Array:
    """Return one column of the rows of all batches."""
    arrays = [b.column(place) for b in batches]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def is_retract(kinds: npt.NDArray[np.int8]) -> BoolArray:
    """Return, for each kind, whether it is -U or -D."""
    retract: BoolArray = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    return retract


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of kind +I and +U (Java: `DropDeleteReader`)."""
    retract = is_retract(kind_values(batch.column(VALUE_KIND)))
    if not retract.any():
        return batch
    return batch.take(index_array(np.flatnonzero(~retract)))
