"""What goes into and comes out of a merge engine: all versions of some keys, at once, by columns.

::

    batch   A.id  A.x  | B.id  B.x           rows of run A, then of run B
    order   0  2  1  3                       rows in merge order
    starts  0     2                          places in `order` where a key begins

An engine sees slices that hold *whole* groups: every version of a key is in one slice.  Within a
group the rows stand in the order in which Java's merge function would be fed: by user sequence
fields, then sequence number, then run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.lsm.key_column import BoolArray, Rows, int_values, kind_values
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.types.buffers import index_array


class JavaRules(Enum):
    """Whose rules hold where the versions of Java merge the same rows differently.

    They differ in `listagg` (2.0 leaves out blank texts), in nested tables (2.0 cleans a first
    value as well, and counts its limit in keys), and where a sum or product of integers overflows
    (1.4 wraps around, 2.0 fails).  In keys and sequences of FLOAT and DOUBLE, 2.0 has -0.0 below
    0.0, and 1.4 takes the two for equal.
    """

    JAVA_1_4 = "1.4"
    JAVA_2_0 = "2.0"


INSERT = 0
UPDATE_BEFORE = 1
UPDATE_AFTER = 2
DELETE = 3


@dataclass(frozen=True, slots=True)
class MergeSlice:
    """Every version of some keys.

    `batch` holds the rows run after run; it may carry columns that are not the table's (say, the
    position of a row in its file).  `order` None means that the rows stand in merge order already;
    else, rows that it leaves out do not count.  `starts` None: every key has one row.  `parts` says
    which run the rows come from: pairs of (run, row count), in the order of `batch`.  `through`
    marks the groups that a merge function sees although they have one row, None: no group (Java:
    merges with a lookup do not go through `ReducerMergeFunctionWrapper`).
    """

    batch: pa.RecordBatch
    order: Rows | None
    starts: Rows | None
    parts: Sequence[tuple[int, int]]
    through: BoolArray | None = None

    @property
    def row_count(self) -> int:
        return int(self.batch.num_rows)

    @property
    def group_count(self) -> int:
        return self.row_count if self.starts is None else len(self.starts)

    @property
    def sequence_numbers(self) -> npt.NDArray[np.int64]:
        """Of the rows of `batch`, in its order."""
        return int_values(self.batch.column(SEQUENCE_NUMBER))

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Of the rows of `batch`, in its order."""
        return kind_values(self.batch.column(VALUE_KIND))

    @property
    def runs(self) -> npt.NDArray[np.int32]:
        """The run that each row of `batch` comes from."""
        runs, counts = zip(*self.parts, strict=True)
        return np.repeat(np.array(runs, dtype=np.int32), counts)

    def ordered(self) -> Rows:
        """`order`, spelled out."""
        return np.arange(self.row_count) if self.order is None else self.order

    @property
    def is_merged(self) -> bool:
        """Whether there is nothing to merge: every row is its key's outcome."""
        return self.starts is None and self.through is None

    def group_starts(self) -> Rows:
        """`starts`, spelled out."""
        return np.arange(self.row_count) if self.starts is None else self.starts

    def merged_groups(self) -> BoolArray:
        """For each group, whether its outcome is up to a merge function."""
        several: BoolArray = self.group_ends() - self.group_starts() > 1
        return several if self.through is None else several | self.through

    def group_ends(self) -> Rows:
        """The place after the last row of each group."""
        if self.starts is None:
            return np.arange(1, self.row_count + 1)
        return np.append(self.starts[1:], self.row_count if self.order is None else len(self.order))

    def last_rows(self) -> Rows:
        """The last row of each group, as row numbers of `batch`."""
        return self.ordered()[self.group_ends() - 1]

    def take(self, rows: Rows) -> pa.RecordBatch:
        """These rows of `batch`."""
        return self.batch.take(index_array(rows))

    def in_order(self) -> pa.RecordBatch:
        """All rows, in merge order."""
        return self.batch if self.order is None else self.take(self.order)


@dataclass(frozen=True, slots=True)
class MergedRows:
    """What became of the groups of a slice: rows in key order, deletes among them.

    `groups` says which group each row stands for, ascending; None: every group gave one row.
    """

    batch: pa.RecordBatch
    groups: Rows | None = None


class MergeEngine(Protocol):
    """Makes one row, or none, of all versions of a key (Java: `MergeFunction`)."""

    def merge(self, rows: MergeSlice) -> MergedRows:
        """The outcome of every group.

        A group of one row gives that row, whatever its kind, unless `through` says otherwise: Java
        does not feed it to the merge function (`ReducerMergeFunctionWrapper`).
        """
        ...


def is_retract(kinds: npt.NDArray[np.int8]) -> BoolArray:
    """For each kind, whether it is -U or -D."""
    retract: BoolArray = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    return retract


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of kind +I and +U (Java: `DropDeleteReader`)."""
    retract = is_retract(kind_values(batch.column(VALUE_KIND)))
    if not retract.any():
        return batch
    return batch.take(index_array(np.flatnonzero(~retract)))
