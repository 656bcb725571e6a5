"""The health of a table, from its metadata alone: facts and advice.

Advice is ordered by urgency and names the command to run.  Thresholds are table
options wherever Paimon has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from paimon_core.environment import Environment
from paimon_core.features import uncompactable_features, unreadable_features
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns
from paimon_core.known_options import similar_name, unknown_options, unreadable_options
from paimon_core.manifest.entries.columns import EntryColumns, distinct, no_columns
from paimon_core.options import (
    COMPACTION_MIN_FILE_NUM,
    DATA_EVOLUTION_ENABLED,
    NUM_SORTED_RUN_TRIGGER,
    WRITE_ONLY,
)
from paimon_core.scan.columns import scan_columns
from paimon_core.scan.manifests import data_manifests
from paimon_core.snapshot.line import gaps_in
from paimon_core.write.file_layout import target_file_size
from paimon_maintenance.health.groups import (
    COLUMNS,
    Groups,
    check_files,
    check_sizes,
    grouped,
    small_bytes,
)
from paimon_maintenance.health.held import consumers_of, deletions_of, held_after, retention_of
from paimon_maintenance.job.lazy_list import LazyList
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.storage.options import hide_secrets

MB: Final = 1024**2
STOP_TRIGGER_DISTANCE: Final = 3
SMALL_BUCKET_BYTES: Final = 10 * MB
MANY_BUCKETS: Final = 16
HOUR_MILLIS: Final = 3_600_000
NANOS_OF_MILLI: Final = 1_000_000


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
class Inspection:
    """The result of `caretaker inspect`: all facts (see `to_json`), and the advice."""

    table: str
    facts: Mapping[str, object]
    advice: Sequence[Advice]

    def to_json(self) -> dict[str, object]:
        """The facts and the advice as JSON."""
        return {"table": self.table, **self.facts, "advice": [a.to_json() for a in self.advice]}


def inspect_table(table: FileStoreTable, env: Environment) -> Inspection:
    """The health of one table at its newest snapshot.  Changes nothing.

    CorruptTable for sizes that no table has.
    """
    ids = sorted(table.snapshots.ids())
    latest = table.snapshots.latest()
    columns = (*COLUMNS, "first_row_id") if table.options.value(DATA_EVOLUTION_ENABLED) else COLUMNS
    live = no_columns() if latest is None else scan_columns(table, latest, columns)
    check_files(table.name, live)
    layout = _layout(table, live)
    now = env.now_millis()
    retention = retention_of(table, ids, now)
    deletions = deletions_of(table, ids)
    check_sizes(table.name, deletions.size)
    consumers = consumers_of(table, latest, ids, deletions, now)
    buckets = layout.buckets
    facts: dict[str, object] = {
        "branch": table.branch,
        "kind": "primary key" if table.has_primary_key else "append",
        "bucket_mode": table.bucket_mode.value,
        "primary_keys": list(table.schema.primary_keys),
        "partition_keys": list(table.schema.partition_keys),
        "columns": len(table.schema.fields),
        "schema_id": table.schema.id,
        "options": hide_secrets(table.options),
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
        **layout.whole.to_json(0),
        "held_by_old_snapshots": held_after(deletions, 0),
        "buckets": {
            "count": len(buckets),
            "total_buckets": distinct(live.total_buckets).tolist(),
            "most_files": int(buckets.files.max(initial=0)),
            "most_sorted_runs": layout.most_runs,
            "with_many_runs": layout.with_runs(table.options.value(NUM_SORTED_RUN_TRIGGER)),
        },
        "partitions": {"count": len(layout.order), "list": _partition_list(table, layout)},
    }
    advice = list(_advice(table, layout, facts))
    return Inspection(table=table.name, facts=facts, advice=advice)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """The live files counted as a whole, by partition and by bucket.

    `order` are the positions of the partitions with files, the most files first; `rows` their
    stored rows by position.  `bucket_numbers` is how many different bucket numbers there are.
    """

    whole: Groups
    partitions: Groups
    buckets: Groups
    rows: Sequence[bytes]
    order: Sequence[int]
    bucket_numbers: int
    primary_key: bool

    @property
    def most_runs(self) -> int | None:
        """The most sorted runs of a bucket; None for tables without them."""
        runs = self.buckets.sorted_runs
        return int(runs.max()) if self.primary_key and len(runs) else None

    def with_runs(self, least: int) -> int:
        """How many buckets have at least this many sorted runs."""
        return int((self.buckets.sorted_runs >= least).sum()) if self.primary_key else 0


def _layout(table: FileStoreTable, live: EntryColumns) -> _Layout:
    count = partial(
        grouped,
        live,
        small=small_bytes(table),
        by_row_id=table.options.value(DATA_EVOLUTION_ENABLED),
    )
    rows = live.partitions.rows
    partitions = count(live.partition, len(rows))
    order = np.argsort(-partitions.files, kind="stable")
    _, numbers, bucket_of = live.group()
    return _Layout(
        whole=count(np.zeros(len(live), np.int64), 1),
        partitions=partitions,
        buckets=count(bucket_of, len(numbers)),
        rows=rows,
        order=order[partitions.files[order] > 0].tolist(),
        bucket_numbers=len(distinct(numbers)),
        primary_key=table.has_primary_key,
    )


def _partition_list(table: FileStoreTable, layout: _Layout) -> Sequence[Mapping[str, object]]:
    """The partitions for JSON, made one by one: there may be a hundred thousand."""

    def shown(position: int) -> dict[str, object]:
        return {
            "partition": table.paths.partition_path(layout.rows[position]),
            **layout.partitions.to_json(position),
            "newest_file_millis": layout.partitions.newest_millis(position),
        }

    return LazyList(layout.order, shown)


def _advice(
    table: FileStoreTable, layout: _Layout, facts: Mapping[str, object]
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
        yield from _advice_on_runs(table, layout, refused)
    else:
        yield from _advice_on_small_files(table, layout, refused)
    yield from _advice_on_snapshots(table, facts)
    yield from _advice_on_buckets(table, layout)
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
    table: FileStoreTable, layout: _Layout, refused: Sequence[str]
) -> Iterator[Advice]:
    trigger = table.options.value(NUM_SORTED_RUN_TRIGGER)
    stop = trigger + STOP_TRIGGER_DISTANCE
    command = None if refused else f"caretaker run compact {table.name} --strategy "
    buckets, worst, many = layout.buckets, layout.most_runs or 0, layout.with_runs(trigger)
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
    table: FileStoreTable, layout: _Layout, refused: Sequence[str]
) -> Iterator[Advice]:
    least = table.options.value(COMPACTION_MIN_FILE_NUM)
    small_files = layout.partitions.small_files[layout.order]
    crowded = small_files[small_files >= least]
    if len(crowded):
        small = int(crowded.sum())
        blobs = dedicated_columns(table.schema.row_type, table.schema.options)
        apart = ", files of BLOBs included, which stay" if blobs else ""
        yield Advice(
            urgency="urgent" if small >= 100 * least else "soon",
            text=f"{counted(small, 'files')} below {human_bytes(small_bytes(table))} in "
            f"{len(crowded)} of {counted(len(layout.order), 'partitions')}{apart}",
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


def _advice_on_buckets(table: FileStoreTable, layout: _Layout) -> Iterator[Advice]:
    count, size = len(layout.buckets), int(layout.whole.bytes[0])
    if layout.bucket_numbers >= MANY_BUCKETS and size / max(1, count) < SMALL_BUCKET_BYTES:
        yield Advice(
            urgency="note",
            text=f"{count:,} buckets hold {human_bytes(size / count)} each on "
            f"average, but 200 MB to 1 GB is recommended: table {table.name} has too many buckets "
            f"for its data",
        )
