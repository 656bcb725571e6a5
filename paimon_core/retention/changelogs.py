"""Expires long-lived changelogs (Java: `ExpireChangelogImpl`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paimon_core.errors import StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
    Options,
)
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.references import Reference, RefKind, all_references, without
from paimon_core.reachability.release import release
from paimon_core.reachability.stored_files import NOTHING_PLANNED, PlannedFiles
from paimon_core.refs.consumers import Consumer
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.expiry_range import Keep, Retention, choose_range


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogExpiry:
    """The changelogs to delete, oldest first, and the files that only they need."""

    going: tuple[Reference, ...] = ()
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    interrupted: tuple[str, ...] = ()
    consumers_hold: bool = True


def changelog_retention(options: Options, *, now_millis: int) -> Retention:
    """Return the retention of changelogs: their own options, else the snapshots', as in Java."""
    least, most = (
        options.value(CHANGELOG_NUM_RETAINED_MIN),
        options.value(CHANGELOG_NUM_RETAINED_MAX),
    )
    kept = options.value(CHANGELOG_TIME_RETAINED)
    return Retention(
        num_min=options.value(SNAPSHOT_NUM_RETAINED_MIN) if least is None else least,
        num_max=options.value(SNAPSHOT_NUM_RETAINED_MAX) if most is None else most,
        limit=options.value(SNAPSHOT_EXPIRE_LIMIT),
        older_than_millis=now_millis
        - (options.value(SNAPSHOT_TIME_RETAINED) if kept is None else kept),
    )


def plan_changelogs(
    table: FileStoreTable, retention: Retention
) -> tuple[ChangelogExpiry, Garbage] | None:
    """Return what the retention expires and its garbage; None if that is nothing.

    CorruptTable if what stays cannot be read.
    """
    if not table.changelogs.ids():
        return None
    references = all_references(table)
    mine = changelogs_of(table, references)
    going, _ = changelogs_beyond(table, mine, retention)
    if not going:
        return None
    garbage = find_garbage(table, going, without(references, going), Metadata(table))
    return ChangelogExpiry(going=tuple(going), planned=garbage.files.planned()), garbage


def changelogs_of(table: FileStoreTable, references: Sequence[Reference]) -> list[Reference]:
    """Return the changelogs of the table's branch, oldest first."""
    mine = [r for r in references if r.kind is RefKind.CHANGELOG and r.table.branch == table.branch]
    return sorted(mine, key=lambda r: r.snapshot.id)


def changelogs_beyond(
    table: FileStoreTable,
    mine: Sequence[Reference],
    retention: Retention,
    *,
    consumers_hold: bool = True,
) -> tuple[list[Reference], str]:
    """Return the changelogs beyond the retention, and why the others stay."""
    latest = table.snapshots.latest_id()
    if not mine or latest is None:
        return [], ""
    times = {r.snapshot.id: r.snapshot.time_millis for r in mine}
    consumer = table.consumers.furthest_behind() if consumers_hold else None
    chosen = choose_range(
        [r.snapshot.id for r in mine],
        retention,
        latest=latest,
        time_of=times.get,
        next_consumed=None if consumer is None else consumer.next_snapshot,
    )
    # Keep the newest long-lived changelog, so that there is no gap before the snapshots.
    newest = mine[-1].snapshot.id
    why = f"changelog.{chosen.stopped_by}"
    if chosen.stopped_by is Keep.CONSUMER and consumer is not None:
        why = wants(consumer)
    if newest in chosen:
        why = "the newest changelog is always kept"
    return [r for r in mine if r.snapshot.id in chosen and r.snapshot.id != newest], why


def wants(consumer: Consumer) -> str:
    """Return the reason why a consumer keeps changelogs."""
    return f"consumer {consumer.id} reads snapshot {consumer.next_snapshot} next"


# --- removing -----------------------------------------------------------------------------------


def recheck_changelogs(table: FileStoreTable, work: ChangelogExpiry) -> ChangelogExpiry:
    """Return the work without changelogs that a consumer needs now."""
    wanted = _first_wanted(table, work)
    going = tuple(r for r in work.going if wanted is None or r.snapshot.id < wanted)
    return replace(work, going=going)


def _first_wanted(table: FileStoreTable, work: ChangelogExpiry) -> int | None:
    return table.consumers.min_next_snapshot() if work.consumers_hold else None


def apply_changelogs(
    table: FileStoreTable, work: ChangelogExpiry, deleting: Deleting
) -> dict[str, object]:
    """Delete the changelogs, then the files that only they needed; return figures for reports.

    Errors as in `release`; StalePlan if a consumer began to need one: then
    all changelogs are there again.
    """

    def delete_references() -> None:
        for reference in work.going:
            deleting.fence()
            table.changelogs.delete(reference.snapshot.id)
        wanted = _first_wanted(table, work)
        if wanted is not None and wanted <= work.going[-1].snapshot.id:
            for reference in work.going:
                table.changelogs.put(reference.snapshot)
            raise StalePlan(
                f"a consumer of table {table.name} began to need changelog {wanted} while it expired; "
                "the changelogs were put back",
                table=table.name,
                snapshot=wanted,
            )
        earliest = table.changelogs.earliest_id()
        if earliest is None:
            table.changelogs.delete_hints()
        else:
            table.changelogs.write_earliest_hint(earliest)

    details: dict[str, object] = {}
    if work.going:
        removed = release(
            table,
            work.going,
            delete_references,
            new_uuid=deleting.env.new_uuid,
            planned=work.planned,
            clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
            delete=deleting.delete,
            leased=deleting.leased,
        )
        details.update(removed.to_json())
    details["expired_changelogs"] = [r.snapshot.id for r in work.going]
    return details
