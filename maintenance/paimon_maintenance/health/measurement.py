"""What one measurement of a table found: numbers from metadata, without judgement.

All times are milliseconds since the epoch, all sizes bytes.  The JSON form is kept in the history,
so that unchanged tables need not be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

OWNER_OPTION: Final = "caretaker.owner"
"""The table option that names the owner of a table."""
JSON_VERSION: Final = 5
"""Raise it when the meaning of a field changes: older measurements are then ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What one compaction of a partition would read, and the layout that it leaves behind.

    `level_0_bytes` is the part of `bytes` at level 0.  `runs_after` is the mean number of sorted
    runs that a full read merges afterwards, `dead_rows_after` the number of `dead_rows` that
    remain.
    """

    files: int = 0
    bytes: int = 0
    level_0_bytes: int = 0
    rows: int = 0
    files_after: int = 0
    runs_after: float = 1.0
    dead_rows_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasurement:
    """The live files of one partition; `values` are its keys as text, for job arguments.

    - `point_runs`: the largest number of sorted runs whose key ranges contain the same key.
    - `full_runs`: the mean number of sorted runs that a full read merges, weighted by
      bytes; 1 for append tables.
    - `ideal_files`: the smallest number of files of the target size.
    - `gap_files`: how many of these only gaps between row ids require (`reassign_row_id`).
    - `oldest_level_0`: the creation time of the oldest file at level 0; None without one.
    - `oldest_file`, `newest_file`: the creation times of the oldest and newest file at any level.
    - `minor`, `full`: what a minor or full compaction would rewrite; None if it has nothing to do.

    Times are milliseconds since the epoch.
    """

    name: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    rows: int = 0
    small_files: int = 0
    ideal_files: int = 0
    gap_files: int = 0
    buckets: int = 0
    total_buckets: int = 1
    smallest_bucket: int = 0
    largest_bucket: int = 0
    point_runs: int = 1
    full_runs: float = 1.0
    level_0_files: int = 0
    oldest_level_0: int | None = None
    oldest_file: int | None = None
    newest_file: int | None = None
    delete_rows: int = 0
    vector_rows: int = 0
    minor: Rewrite | None = None
    full: Rewrite | None = None

    @property
    def dead_rows(self) -> int:
        """Rows that a read decodes and then drops: deletes, and rows in deletion vectors."""
        return self.delete_rows + self.vector_rows


def dead_rows_excess(dead: int, rows: int) -> float:
    """The extra cost of a read due to dead rows: 1 means twice the cost of reading the live rows.

    At most 10, because the live rows count as at least a tenth of all rows.
    """
    return dead / max(rows - dead, rows / 10) if rows > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds back files that the newest snapshot does not need: consumer, tag or branch."""

    kind: str
    name: str
    bytes: int
    snapshots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLag:
    """How far a consumer is behind; `bytes` is estimated from the rows that it has not read.

    `since`: the commit time of the first snapshot that it has not read, None if it is up to date.
    """

    id: str
    snapshots: int
    since: int | None
    bytes: int
    last_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What the last search for orphan files found and left."""

    files: int
    bytes: int
    at_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One table at one moment.

    `needs_merge`: whether reads merge sorted runs (a primary-key table without deletion vectors or
    first-row, whose reads leave out level 0 instead).  `beyond_bytes`: what an expiry would free of
    the `beyond_snapshots` that exceed the retention.  `blocked_bytes`: the part that consumers
    hold.  `stuck`: partition -> why it never expires.  `unindexed`: column with a global index ->
    share of the rows that it does not cover.  `options` are those of the schema that are not
    secret.
    """

    table: str
    branch: str = "main"
    at_millis: int = 0
    snapshot: int | None = None
    snapshot_millis: int | None = None
    schema_id: int = 0
    primary_key: bool = True
    bucket_mode: str = "fixed"
    merge_engine: str = "deduplicate"
    columns: int = 1
    needs_merge: bool = True
    write_only: bool = True
    clustering: str = "none"
    run_trigger: int = 5
    min_files: int = 5
    target_bytes: int = 128 * 1024**2
    partition_keys: tuple[str, ...] = ()
    partitions: tuple[PartitionMeasurement, ...] = ()
    snapshots: int = 0
    beyond_snapshots: int = 0
    beyond_bytes: int = 0
    blocked_bytes: int = 0
    blocked_snapshots: int = 0
    holders: tuple[Holder, ...] = ()
    consumers: tuple[ConsumerLag, ...] = ()
    consumer_expiration: int | None = None
    tags_due: tuple[str, ...] = ()
    tags_over: tuple[str, ...] = ()
    partitions_due: int = 0
    stuck: Mapping[str, str] = field(default_factory=dict)
    unindexed: Mapping[str, float] = field(default_factory=dict)
    manifests: int = 0
    manifest_bytes: int = 0
    unknown_options: tuple[str, ...] = ()
    invalid_options: tuple[str, ...] = ()
    gaps: int = 0
    refused: tuple[str, ...] = ()
    orphans: Orphans | None = None
    owner: str | None = None
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """The number of live data files."""
        return sum(p.files for p in self.partitions)

    @property
    def bytes(self) -> int:
        """The size of the live data files."""
        return sum(p.bytes for p in self.partitions)

    @property
    def rows(self) -> int:
        """The rows of the live data files, before merging."""
        return sum(p.rows for p in self.partitions)

    def level_0_hours(self, now: int, *, without: Iterable[PartitionMeasurement] = ()) -> float:
        """How long the oldest data at level 0 has waited for a compaction; 0 if there is none.

        `without` are partitions that do not count.
        """
        left_out = {p.name for p in without}
        waiting = (p.oldest_level_0 for p in self.partitions if p.name not in left_out)
        oldest = min((one for one in waiting if one is not None), default=now)
        return max(0, now - oldest) / 3_600_000

    @property
    def amplification(self) -> float:
        """How many times as much a full read costs as one of an ideally compacted table.

        For tables that merge: sorted runs per byte.  For the others: how many files are opened for
        each needed one.  Dead rows come on top.  1 is ideal.
        """
        if not self.partitions:
            return 1.0
        dead = sum(dead_rows_excess(p.dead_rows, p.rows) * p.rows for p in self.partitions)
        dead /= max(1, self.rows)
        if self.primary_key and self.needs_merge:
            size = self.bytes
            runs = sum(p.full_runs * p.bytes for p in self.partitions)
            return dead + (runs / size if size else max(p.full_runs for p in self.partitions))
        return dead + self.files / max(1, sum(p.ideal_files for p in self.partitions))

    def to_json(self) -> dict[str, object]:
        """The measurement as JSON, with the partitions as columns: there may be 100,000."""
        return {
            "version": JSON_VERSION,
            **{name: getattr(self, name) for name in _names(type(self))},
            "partitions": _columns(self.partitions),
            "holders": [asdict(h) for h in self.holders],
            "consumers": [asdict(c) for c in self.consumers],
            "orphans": None if self.orphans is None else asdict(self.orphans),
        }

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Measurement | None:
        """The measurement of this JSON; None if another version of Caretaker wrote it."""
        if parts.get("version") != JSON_VERSION or parts.keys() - {"version"} != {*_names(cls)}:
            return None
        found: dict[str, Any] = {k: v for k, v in parts.items() if k != "version"}
        try:
            found["partitions"] = tuple(_partitions(found["partitions"]))
            found["holders"] = tuple(Holder(**h) for h in found["holders"])
            found["consumers"] = tuple(ConsumerLag(**c) for c in found["consumers"])
            found["orphans"] = Orphans(**found["orphans"]) if found["orphans"] else None
        except TypeError:
            return None
        for name, value in found.items():
            if isinstance(value, list):
                found[name] = tuple(value)
        return cls(**found)


_REWRITES: Final = ("minor", "full")


def _names(record: type[Measurement | PartitionMeasurement]) -> list[str]:
    return [f.name for f in fields(record)]


def _columns(partitions: Sequence[PartitionMeasurement]) -> dict[str, list[Any]]:
    found = {n: [getattr(p, n) for p in partitions] for n in _names(PartitionMeasurement)}
    for name in _REWRITES:
        found[name] = [None if work is None else asdict(work) for work in found[name]]
    return found


def _partitions(columns: Mapping[str, Sequence[Any]]) -> Iterator[PartitionMeasurement]:
    for values in zip(*columns.values(), strict=True):
        parts = dict(zip(columns, values, strict=True))
        for name in _REWRITES:
            parts[name] = Rewrite(**parts[name]) if parts[name] else None
        yield PartitionMeasurement(**parts)
