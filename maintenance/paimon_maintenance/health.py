"""The health of a table, from its metadata alone: facts and advice.

Advice is ordered by urgency and names the command to run.  Thresholds are table options wherever Paimon
has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import NotFound, PaimonError
from paimon_core.features import uncompactable_features, unreadable_features
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.known_options import similar_name, unknown_options, unreadable_options
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.options import (
    COMPACTION_MIN_FILE_NUM,
    NUM_SORTED_RUN_TRIGGER,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
    WRITE_ONLY,
)
from paimon_core.scan.manifests import data_manifests
from paimon_core.scan.scan import scan_delta, scan_files
from paimon_core.snapshot.line import gaps_in
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.write.file_layout import small_file_size, target_file_size
from paimon_maintenance.job.text import counted, human_bytes

MB: Final = 1024**2
STOP_TRIGGER_DISTANCE: Final = 3
SMALL_BUCKET_BYTES: Final = 10 * MB
MANY_BUCKETS: Final = 16
HOUR_MILLIS: Final = 3_600_000
NANOS_OF_MILLI: Final = 1_000_000
MOST_DELTAS: Final = 5_000
"""The number of newest snapshots to examine for retained files."""


@dataclass(slots=True)
class Group:
    """The files of a partition, of a bucket, or of the table."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    delete_rows: int = 0
    small_files: int = 0
    level_0_files: int = 0
    levels: set[int] = field(default_factory=set)
    newest: int | None = None

    def add(self, entry: ManifestEntry, small_bytes: int) -> None:
        """Count one live file."""
        f = entry.file
        self.files += 1
        self.bytes += f.file_size
        self.rows += f.row_count
        self.delete_rows += f.delete_row_count or 0
        self.small_files += f.file_size < small_bytes
        if f.level == 0:
            self.level_0_files += 1
        else:
            self.levels.add(f.level)
        if f.creation_time is not None:
            self.newest = max(self.newest or 0, f.creation_time)

    @property
    def sorted_runs(self) -> int:
        """The number of sorted runs, for one bucket of a primary-key table."""
        return self.level_0_files + len(self.levels)

    def to_json(self) -> dict[str, object]:
        """The counts."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "delete_rows": self.delete_rows,
            "small_files": self.small_files,
            "level_0_files": self.level_0_files,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One piece of advice: "urgent", "soon" or "note", and a command if there is one."""

    urgency: str
    text: str
    command: str | None = None

    def to_json(self) -> dict[str, object]:
        """The advice as JSON for `caretaker inspect --json`."""
        return {"urgency": self.urgency, "text": self.text, "command": self.command}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of `caretaker inspect`: all facts (see `to_json`), and the advice."""

    table: str
    facts: Mapping[str, object]
    advice: Sequence[Advice]

    def to_json(self) -> dict[str, object]:
        """The facts and the advice as JSON."""
        return {"table": self.table, **self.facts, "advice": [a.to_json() for a in self.advice]}


def inspect_table(table: FileStoreTable, env: Environment) -> Health:
    """The health of one table at its newest snapshot.  Changes nothing."""
    ids = sorted(table.snapshots.ids())
    latest = table.snapshots.latest()
    entries = scan_files(table, latest) if latest is not None else []
    whole, partitions, buckets = _grouped(table, entries)
    now = env.now_millis()
    retention = _retention(table, ids, now)
    deletions = _deletions(table, ids)
    consumers = _consumers(table, latest, ids, deletions, now)
    runs = [b.sorted_runs for b in buckets.values()] if table.has_primary_key else []
    facts: dict[str, object] = {
        "branch": table.branch,
        "kind": "primary key" if table.has_primary_key else "append",
        "bucket_mode": table.bucket_mode.value,
        "primary_keys": list(table.schema.primary_keys),
        "partition_keys": list(table.schema.partition_keys),
        "columns": len(table.schema.fields),
        "schema_id": table.schema.id,
        "options": dict(table.options),
        "refused": {
            "read": sorted(set(unreadable_features(table))),
            "compact": sorted(set(uncompactable_features(table))),
        },
        "snapshots": {
            "count": len(ids),
            "earliest": ids[0] if ids else None,
            "latest": None if latest is None else latest.id,
            "latest_kind": None if latest is None else str(latest.commit_kind),
            "latest_time_millis": None if latest is None else latest.time_millis,
            **retention,
        },
        "changelogs": len(table.changelogs.ids()),
        "tags": [
            {
                "name": tag.name,
                "snapshot": tag.snapshot.id,
                "time_millis": tag.snapshot.time_millis,
                "time_retained_millis": None
                if tag.time_retained is None
                else tag.time_retained // NANOS_OF_MILLI,
            }
            for tag in table.tags.all()
        ],
        "branches": sorted(table.branches.names()),
        "consumers": consumers,
        "manifests": len(data_manifests(table, latest)) if latest is not None else 0,
        "target_file_bytes": target_file_size(table.options, primary_key=table.has_primary_key),
        **whole.to_json(),
        "held_by_old_snapshots": _held(deletions, 0),
        "buckets": {
            "count": len(buckets),
            "total_buckets": sorted({e.total_buckets for e in entries}),
            "most_files": max((b.files for b in buckets.values()), default=0),
            "most_sorted_runs": max(runs, default=None),
            "with_many_runs": sum(
                1 for r in runs if r >= table.options.value(NUM_SORTED_RUN_TRIGGER)
            ),
        },
        "partitions": {
            "count": len(partitions),
            "list": [
                {
                    "partition": table.paths.partition_path(key),
                    **group.to_json(),
                    "newest_file_millis": group.newest,
                }
                for key, group in sorted(partitions.items(), key=lambda p: -p[1].files)
            ],
        },
    }
    advice = list(_advice(table, whole, buckets, partitions, facts))
    return Health(table=table.name, facts=facts, advice=advice)


def _small_bytes(table: FileStoreTable) -> int:
    return small_file_size(table.options, primary_key=table.has_primary_key)


Groups = dict[bytes, Group]
Buckets = dict[tuple[bytes, int], Group]


def _grouped(
    table: FileStoreTable, entries: Sequence[ManifestEntry]
) -> tuple[Group, Groups, Buckets]:
    small = _small_bytes(table)
    whole = Group()
    partitions: Groups = defaultdict(Group)
    buckets: Buckets = defaultdict(Group)
    for entry in entries:
        whole.add(entry, small)
        partitions[entry.partition].add(entry, small)
        buckets[entry.partition, entry.bucket].add(entry, small)
    return whole, dict(partitions), dict(buckets)


def _retention(table: FileStoreTable, ids: Sequence[int], now: int) -> dict[str, object]:
    """The number of snapshots beyond the retention of the table.

    Snapshot i is beyond it if i + 1 is older than `snapshot.time-retained` (java-rules H2).
    """
    options = table.options
    most = options.value(SNAPSHOT_NUM_RETAINED_MAX)
    least = options.value(SNAPSHOT_NUM_RETAINED_MIN)
    age = options.value(SNAPSHOT_TIME_RETAINED)
    beyond = max(0, len(ids) - most)
    removable = max(0, len(ids) - max(1, least))  # the newest is never deleted
    for position in range(beyond, removable):
        try:
            successor = table.snapshots.get(ids[position + 1])
        except NotFound:
            continue
        if now - successor.time_millis <= age:
            break
        beyond = position + 1
    return {
        "unexpired": beyond,
        "num_retained_min": least,
        "num_retained_max": None if most == SNAPSHOT_NUM_RETAINED_MAX.default else most,
        "time_retained_millis": age,
    }


File = tuple[bytes, int, str]
Deletions = Mapping[int, Mapping[File, int]]
"""Snapshot id -> the data files that the snapshot deleted, with their sizes."""


def _consumers(
    table: FileStoreTable,
    latest: Snapshot | None,
    ids: Sequence[int],
    deletions: Deletions,
    now: int,
) -> list[dict[str, object]]:
    """The position and lag of each consumer, and the files that it retains.

    A consumer retains everything from the first existing snapshot that it has not read: the time since
    its commit, and the data files that it or later snapshots need but the newest does not.  Tags,
    branches and the retention of the table may retain the same files.
    """
    found: list[dict[str, object]] = []
    for consumer in table.consumers.all():
        unread = next((i for i in ids if i >= consumer.next_snapshot), None)
        since = None if unread is None else table.snapshots.get_or_none(unread)
        found.append(
            {
                "id": consumer.id,
                "next_snapshot": consumer.next_snapshot,
                "lag_snapshots": None
                if latest is None
                else max(0, latest.id - consumer.next_snapshot + 1),
                "held_millis": 0 if since is None else max(0, now - since.time_millis),
                "held": {"files": 0, "bytes": 0} if unread is None else _held(deletions, unread),
                "last_seen_millis": consumer.modified_millis,
                "silent_millis": max(0, now - consumer.modified_millis),
            }
        )
    return found


def _deletions(table: FileStoreTable, ids: Sequence[int]) -> Deletions:
    """The deletions of the newest MOST_DELTAS snapshots; unreadable snapshots count as empty."""

    def deleted(snapshot_id: int) -> Mapping[File, int]:
        try:
            delta = scan_delta(table, table.snapshots.get(snapshot_id))
        except PaimonError:
            return {}  # expired while we looked, or broken, which verify reports
        added = {e.file.file_name for e in delta if e.kind is FileKind.ADD}
        # An upgrade deletes a file and adds it at another level.
        return {
            (e.partition, e.bucket, e.file.file_name): e.file.file_size
            for e in delta
            if e.kind is FileKind.DELETE and e.file.file_name not in added
        }

    looked_at = ids[1:][-MOST_DELTAS:]
    return dict(zip(looked_at, map_parallel(table.io, deleted, looked_at), strict=True))


def _held(deletions: Deletions, after: int) -> dict[str, int]:
    """Files that snapshots from `after` on retain but the newest does not need."""
    sizes = {
        file: size for i, gone in deletions.items() if i > after for file, size in gone.items()
    }
    return {"files": len(sizes), "bytes": sum(sizes.values())}


def _advice(
    table: FileStoreTable,
    whole: Group,
    buckets: Buckets,
    partitions: Groups,
    facts: Mapping[str, object],
) -> Iterator[Advice]:
    for gap in gaps_in(table.snapshots.ids()):
        yield Advice(
            urgency="urgent",
            text=f"snapshots have a gap between {gap.before} and {gap.after}: commits are lost when "
            f"they reach {gap.after}; stop the writers before the repair",
            command=f"caretaker run repair {table.name} --repair close_gap",
        )
    refused = sorted(set(uncompactable_features(table)))
    if refused:
        yield Advice(
            urgency="note",
            text=f"Caretaker does not compact this table, because it uses {', '.join(refused)}",
        )
    if table.has_primary_key:
        yield from _advice_on_runs(table, buckets, refused)
    else:
        yield from _advice_on_small_files(table, partitions, refused)
    yield from _advice_on_snapshots(table, facts)
    yield from _advice_on_buckets(table, whole, buckets)
    yield from _advice_on_options(table)
    if not table.options.value(WRITE_ONLY):
        yield Advice(
            urgency="note",
            text="write-only is not set: writers also compact and expire, and can conflict with each "
            "other and with Caretaker",
        )


def _advice_on_options(table: FileStoreTable) -> Iterator[Advice]:
    """Advice on options without effect and on invalid values."""
    for _, why in unreadable_options(table.schema.options):
        yield Advice(urgency="soon", text=f"{why}; jobs that read it fail")
    for key in unknown_options(table.schema.options):
        near = similar_name(key)
        hint = "" if near is None else f"; did you mean {near}?"
        yield Advice(urgency="note", text=f"Paimon has no option {key}, so it has no effect{hint}")


def _advice_on_runs(
    table: FileStoreTable, buckets: Buckets, refused: Sequence[str]
) -> Iterator[Advice]:
    trigger = table.options.value(NUM_SORTED_RUN_TRIGGER)
    stop = trigger + STOP_TRIGGER_DISTANCE
    command = None if refused else f"caretaker run compact {table.name} --strategy "
    worst = max((b.sorted_runs for b in buckets.values()), default=0)
    many = sum(1 for b in buckets.values() if b.sorted_runs >= trigger)
    if worst >= stop:
        yield Advice(
            urgency="urgent",
            text=f"{many} of {counted(len(buckets), 'buckets')} have {trigger} or more sorted runs, at most "
            f"{worst}: every read merges them",
            command=command and command + "full",
        )
    elif many:
        yield Advice(
            urgency="soon",
            text=f"{many} of {counted(len(buckets), 'buckets')} reached {trigger} sorted runs",
            command=command and command + "minor",
        )


def _advice_on_small_files(
    table: FileStoreTable, partitions: Groups, refused: Sequence[str]
) -> Iterator[Advice]:
    least = table.options.value(COMPACTION_MIN_FILE_NUM)
    crowded = [g for g in partitions.values() if g.small_files >= least]
    if crowded:
        small = sum(g.small_files for g in crowded)
        yield Advice(
            urgency="urgent" if small >= 100 * least else "soon",
            text=f"{counted(small, 'files')} below {human_bytes(_small_bytes(table))} in "
            f"{len(crowded)} of {counted(len(partitions), 'partitions')}",
            command=None if refused else f"caretaker run compact {table.name}",
        )


def _advice_on_snapshots(table: FileStoreTable, facts: Mapping[str, object]) -> Iterator[Advice]:
    snapshots, held = facts["snapshots"], facts["held_by_old_snapshots"]
    consumers = facts["consumers"]
    if not isinstance(snapshots, Mapping) or not isinstance(held, Mapping):
        return
    if snapshots["unexpired"]:
        behind = [
            str(c["id"])
            for c in (consumers if isinstance(consumers, list) else ())
            if c["next_snapshot"] <= (snapshots["earliest"] or 0) + 1
        ]
        because = f"; consumer {', '.join(behind)} retains them" if behind else ""
        yield Advice(
            urgency="soon",
            text=f"{snapshots['unexpired']:,} of {snapshots['count']:,} snapshots exceed the "
            f"retention{because}; old snapshots retain {human_bytes(held['bytes'])} in "
            f"{counted(held['files'], 'files')} that the newest snapshot does not need",
            command=f"caretaker plan expire_snapshots {table.name}",
        )
    for consumer in consumers if isinstance(consumers, list) else ():
        if consumer["silent_millis"] > 24 * HOUR_MILLIS and consumer["lag_snapshots"]:
            yield Advice(
                urgency="soon",
                text=f"consumer {consumer['id']} was not updated for "
                f"{consumer['silent_millis'] // HOUR_MILLIS} hours and is "
                f"{counted(consumer['lag_snapshots'], 'snapshots')} behind",
                command=f"caretaker plan expire_consumers {table.name} --expiration-time '1 d'",
            )


def _advice_on_buckets(table: FileStoreTable, whole: Group, buckets: Buckets) -> Iterator[Advice]:
    totals = Counter(bucket for _, bucket in buckets)
    if len(totals) >= MANY_BUCKETS and whole.bytes / max(1, len(buckets)) < SMALL_BUCKET_BYTES:
        yield Advice(
            urgency="note",
            text=f"{len(buckets):,} buckets hold {human_bytes(whole.bytes / len(buckets))} each on "
            f"average, but 200 MB to 1 GB is recommended: table {table.name} has too many buckets "
            f"for its data",
        )
