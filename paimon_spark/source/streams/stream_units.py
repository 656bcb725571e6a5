"""Offsets of a stream, the units that they count, and how many of them a micro-batch takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from paimon_core.read.stream import StreamPlan
from paimon_core.table.source.batch_tasks import BucketTask


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to unit `index` of the snapshot has been read; -1: no unit of it.

    `read` identifies the last snapshot that was read, so that a rollback is noticed although newer
    commits have the same ids.  None: nothing was read, or an older version wrote the offset.
    """

    snapshot: int
    index: int = -1
    whole: bool = False
    read: str | None = field(default=None, compare=False)

    @staticmethod
    def of(json: Mapping[str, Any]) -> Offset:
        """The offset of a checkpoint."""
        return Offset(
            int(json["snapshotId"]),
            int(json["index"]),
            bool(json["scanSnapshot"]),
            json.get("read"),
        )

    def to_json(self) -> dict[str, Any]:
        """The offset as JSON for a checkpoint."""
        place = {"snapshotId": self.snapshot, "index": self.index, "scanSnapshot": self.whole}
        return place if self.read is None else {**place, "read": self.read}

    @property
    def last_read(self) -> int:
        """The id of the last snapshot that was read, wholly or in part."""
        return self.snapshot if self.whole or self.index >= 0 else self.snapshot - 1

    def is_before(self, other: Offset) -> bool:
        """Whether the other offset is later."""
        return (self.snapshot, self.index) < (other.snapshot, other.index)


@dataclass(frozen=True, slots=True)
class LeastRows:
    """A micro-batch waits for this many rows, or this long after the last one."""

    rows: int
    delay_millis: int


class Unit(Protocol):
    """The smallest piece that is read at once."""

    @property
    def files(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...


@dataclass(frozen=True, slots=True)
class WholeUnit:
    """A split of a snapshot that is read as a whole."""

    task: BucketTask

    @property
    def files(self) -> int:
        return len(self.task.entries)

    @property
    def bytes(self) -> int:
        return sum(e.file.file_size for e in self.task.entries)

    @property
    def rows(self) -> int:
        return sum(e.file.row_count for e in self.task.entries)


@dataclass(frozen=True, slots=True)
class ChangesUnit:
    """A file of changes, or all rows that an overwrite removed and added."""

    plan: StreamPlan

    @property
    def files(self) -> int:
        return len(self.plan.changes) + len(self.plan.gone or ())

    @property
    def bytes(self) -> int:
        return sum(e.file.file_size for e in (*self.plan.changes, *(self.plan.gone or ())))

    @property
    def rows(self) -> int:
        return sum(e.file.row_count for e in (*self.plan.changes, *(self.plan.gone or ())))


@dataclass(frozen=True, slots=True)
class UnitsPartition(InputPartition):
    """What one Spark task reads."""

    units: tuple[WholeUnit | ChangesUnit, ...]


@dataclass(slots=True)
class Room:
    """How much more a micro-batch may read; None: no limit.  The first unit always fits."""

    left: dict[type[ReadLimit], int]
    begun: bool = False
    rows: int = 0
    """The rows of the units so far."""
    full: bool = False
    """Whether a unit did not fit."""

    def takes(self, unit: Unit) -> bool:
        costs = {ReadMaxFiles: unit.files, ReadMaxBytes: unit.bytes, ReadMaxRows: unit.rows}
        if self.begun and any(costs[limit] > left for limit, left in self.left.items()):
            self.full = True
            return False
        self.begun = True
        self.rows += unit.rows
        self.left = {limit: left - costs[limit] for limit, left in self.left.items()}
        return True
