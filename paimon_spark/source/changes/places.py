"""The places of rows that a statement changes: a compressed bitmap of positions for each unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.merge_engine import DELETE
from paimon_spark.source.changes.placed_frames import PLACE, POSITION_BITS
from paimon_spark.source.writes.task_writer import ROW_KIND, TaskMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bitmaps = Mapping[int, BitMap]
"""Positions by the number of their unit."""
Packed = tuple[tuple[int, bytes], ...]


@dataclass(slots=True)
class Places:
    """Places so far, and how many there were with repetitions."""

    bitmaps: dict[int, BitMap] = field(default_factory=dict)
    count: int = 0

    def add(self, column: pa.Array) -> None:
        """Add the places of a column `PLACE`; nulls are none."""
        places = np.asarray(column.drop_null()).astype(np.int64)
        self.count += len(places)
        numbers = places >> POSITION_BITS
        for number in np.unique(numbers):
            positions = places[numbers == number] & ((1 << POSITION_BITS) - 1)
            self.bitmaps.setdefault(int(number), BitMap()).update(positions.astype(np.uint32))

    @property
    def packed(self) -> Packed:
        """The bitmaps as bytes."""
        return tuple((number, b.serialize()) for number, b in self.bitmaps.items())


def merged(packed: Iterable[tuple[int, bytes]]) -> Bitmaps:
    """The bitmaps of several tasks, together."""
    found: dict[int, BitMap] = {}
    for number, data in packed:
        found.setdefault(number, BitMap()).update(BitMap.deserialize(data))
    return found


def positions_of(bitmap: BitMap) -> Positions:
    """The positions in a bitmap, ascending."""
    return np.asarray(bitmap.to_array(), dtype=np.int64)


def _bitmaps_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The places of a task as one bitmap a unit."""
    found = Places()
    for batch in batches:
        found.add(batch.column(0))
    numbers, data = zip(*found.packed, strict=True) if found.packed else ((), ())
    yield pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(data, pa.binary())], names=["unit", "positions"]
    )


def changed_places(rows: DataFrame) -> Bitmaps:
    """The places of the rows, which have the column `PLACE`."""
    answer = rows.select(PLACE).mapInArrow(_bitmaps_of, "unit INT, positions BINARY")
    return merged((number, bytes(data)) for number, data in answer.collect())


# --- what tasks report --------------------------------------------------------------------------


@dataclass(slots=True)
class Noted:
    """The places of the rows that a task changes or deletes, and of those that it deletes."""

    changed: Places = field(default_factory=Places)
    deleted: Places = field(default_factory=Places)

    def add(self, batch: pa.RecordBatch) -> None:
        """Note rows with `PLACE` and `ROW_KIND`."""
        self.changed.add(batch.column(PLACE))
        kinds = np.asarray(batch.column(ROW_KIND))
        self.deleted.add(batch.column(PLACE).filter(pa.array(kinds == DELETE)))


@dataclass(frozen=True, slots=True)
class ChangedByTask(TaskMessage):
    """What a task wrote, and the places of the rows that it changed; `count` with repetitions."""

    changed: Packed = ()
    deleted: Packed = ()
    count: int = 0

    @staticmethod
    def of(made: TaskMessage, noted: Noted) -> ChangedByTask:
        """The report on files and places."""
        changed, deleted = noted.changed.packed, noted.deleted.packed
        count = noted.changed.count
        return ChangedByTask(made.task, made.messages, made.query, changed, deleted, count)


@dataclass(frozen=True, slots=True)
class Changed:
    """What all tasks wrote, and the places of the rows that they changed or deleted.

    `repeated`: a row was changed several times.
    """

    written: list[TaskMessage]
    changed: Bitmaps
    deleted: Bitmaps
    repeated: bool

    @staticmethod
    def by(written: Sequence[TaskMessage]) -> Changed:
        """The reports of all tasks, together."""
        reports = [m for m in written if isinstance(m, ChangedByTask)]
        changed = merged(packed for m in reports for packed in m.changed)
        deleted = merged(packed for m in reports for packed in m.deleted)
        count = sum(m.count for m in reports)
        repeated = count > sum(len(b) for b in changed.values())
        return Changed(list(written), changed, deleted, repeated)
