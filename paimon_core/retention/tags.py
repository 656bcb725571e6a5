"""Creates and expires tags (Java: `tag/TagAutoCreation`, `TagTimeExpire`, `utils/TagManager`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfoNotFoundError

from paimon_core.environment import Environment, local_clock
from paimon_core.errors import AlreadyExists, CorruptTable, InvalidArgument, NotFound
from paimon_core.features import check_taggable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.tags import synchronise_tags
from paimon_core.options import (
    SINK_PROCESS_TIME_ZONE,
    SINK_WATERMARK_TIME_ZONE,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    TAG_AUTOMATIC_COMPLETION,
    TAG_BATCH_CUSTOMIZED_NAME,
    TAG_CREATE_SUCCESS_FILE,
    TAG_NUM_RETAINED_MAX,
    TAG_TO_PARTITION,
)
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import Garbage, find_garbage
from paimon_core.reachability.keep import check_kept, create_kept
from paimon_core.reachability.references import Reference, all_references, tag_reference, without
from paimon_core.reachability.release import Removed, release
from paimon_core.reachability.stored_files import NOTHING_PLANNED, PlannedFiles
from paimon_core.refs.tags import Tag
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.tag_schedule import (
    Moment,
    TagPeriod,
    TagSchedule,
    automatic_tags,
    schedule_tags,
)
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.datetimes import wall_clock_text
from paimon_core.types.zones import zone_of

_BATCH_PREFIX: Final = "batch-write-"
_NO_WATERMARK: Final = -(2**63)
_FIRST_YEAR: Final = -62_135_510_400_000
_END_OF_YEARS: Final = 253_402_214_400_000
"""The years 1 to 9999, without a day at both ends for time zones."""
_NANOS_OF_MILLI: Final = 1_000_000


# --- creating -----------------------------------------------------------------------------------


def make_tag(name: str, snapshot: Snapshot, retained: int | None, env: Environment) -> Tag:
    """Return the tag; with a time to live (milliseconds), it also has a creation time."""
    if retained is None:
        return Tag(name, snapshot)
    made = env.local_millis() * _NANOS_OF_MILLI
    return Tag(name, snapshot, made, retained * _NANOS_OF_MILLI)


def create_automatic(table: FileStoreTable, tags: Sequence[Tag], env: Environment) -> list[str]:
    """Create the tags and announce them; return their names.

    A tag that exists meanwhile, or whose snapshot has expired, is skipped: the next run decides.
    """
    created = []
    for tag in tags:
        try:
            create_kept(table, tag)
        except (AlreadyExists, NotFound):
            continue
        announce_tag(table, tag.name, env.now_millis())
        created.append(tag.name)
    return created


@dataclass(frozen=True, slots=True)
class DueTags:
    """The schedule of automatic tags, its period, and the snapshots since the last of them."""

    schedule: TagSchedule
    period: TagPeriod
    snapshots: dict[int, Snapshot]

    @property
    def create(self) -> list[tuple[str, Snapshot]]:
        return [(t.name, self.snapshots[t.snapshot_id]) for t in self.schedule.create]


def periodic_tags(
    table: FileStoreTable,
    mode: str,
    tags: Sequence[Tag],
    env: Environment,
    *,
    newest_stands_for_now: bool = False,
) -> DueTags:
    """Return the automatic tags that are due by process time or by watermark (`mode`).

    With `newest_stands_for_now`, the newest snapshot also represents the period that ended since
    its commit.
    """
    period = TagPeriod.of(table.options)
    clock = tag_clock(table, mode, env)
    existing = automatic_tags(((t.name, t.snapshot.id) for t in tags), period)
    last = existing[-1].snapshot_id if existing else 0
    ids = [i for i in table.snapshots.ids() if i > last]
    snapshots = {s.id: s for s in table.snapshots.get_many(ids)}
    moments = [Moment(i, _moment(s, mode, clock)) for i, s in sorted(snapshots.items())]

    def scheduled(moments: list[Moment]) -> TagSchedule:
        return schedule_tags(
            existing,
            moments,
            period,
            retained_max=table.options.value(TAG_NUM_RETAINED_MAX),
            completion=table.options.value(TAG_AUTOMATIC_COMPLETION),
        )

    schedule = scheduled(moments)
    if newest_stands_for_now and mode == "process-time" and moments:
        newest = moments[-1].snapshot_id
        if all(t.snapshot_id != newest for t in schedule.create):
            schedule = scheduled([*moments, Moment(newest, clock(env.now_millis()))])
    return DueTags(schedule, period, snapshots)


def batch_tag(table: FileStoreTable, env: Environment) -> tuple[str, Snapshot] | None:
    """Return the name of the tag for the newest snapshot with `tag.automatic-creation=batch`.

    None for a table without snapshots.  Java: `tag/TagBatchCreation`.
    """
    latest = table.snapshots.latest()
    if latest is None:
        return None
    name = table.options.value(TAG_BATCH_CUSTOMIZED_NAME)
    day = wall_clock_text(tag_clock(table, "batch", env)(latest.time_millis))[:10]
    return name or f"{_BATCH_PREFIX}{day}", latest


def batch_tags(table: FileStoreTable, tags: Sequence[Tag]) -> list[Tag]:
    """Return those of the tags that batch writes make."""
    name = table.options.value(TAG_BATCH_CUSTOMIZED_NAME)
    return [t for t in tags if t.name == name or t.name.startswith(_BATCH_PREFIX)]


def tag_clock(table: FileStoreTable, mode: str, env: Environment) -> Callable[[int], int]:
    """Return a function from milliseconds since the epoch to the wall clock for tag names."""
    zone = table.options.value(
        SINK_PROCESS_TIME_ZONE if mode != "watermark" else SINK_WATERMARK_TIME_ZONE
    )
    if zone is None:
        return lambda millis: local_clock(millis, env)
    try:
        info = zone_of(zone)
    except (ZoneInfoNotFoundError, OSError, ValueError) as e:
        raise InvalidArgument(f"unknown time zone {zone!r}", table=table.name) from e

    def wall_clock(millis: int) -> int:
        offset = datetime.fromtimestamp(millis // 1000, UTC).astimezone(info).utcoffset()
        return millis + (0 if offset is None else int(offset.total_seconds()) * 1000)

    return wall_clock


def _moment(snapshot: Snapshot, mode: str, clock: Callable[[int], int]) -> int | None:
    if mode == "process-time":
        return clock(snapshot.time_millis)
    if snapshot.watermark is None or snapshot.watermark == _NO_WATERMARK:
        return None
    if not _FIRST_YEAR <= snapshot.watermark < _END_OF_YEARS:
        return None  # Long.MAX_VALUE, say: the end of a stream, which is no period with a name
    return clock(snapshot.watermark)


# --- moving -------------------------------------------------------------------------------------


def move_tag(table: FileStoreTable, old: Tag | None, new: Tag, deleting: Deleting) -> Removed:
    """Replace a tag by one of the same name, then delete the files that only the old one needs.

    NotFound if the new snapshot has expired; the tag then keeps the old one.
    """
    going = [] if old is None else [tag_reference(table, old)]

    def change() -> None:
        for reference in going:
            reference.prove_alive()
        deleting.fence()
        table.tags.replace(new)
        if old is None or old.snapshot.identity == new.snapshot.identity:
            return
        try:
            check_kept(table, new)
        except NotFound:
            _point_back(table, old)
            raise

    synchronise_tags(table, without=() if old is None else (new.name,))
    removed = free_tags(table, going, deleting, change)
    synchronise_tags(table)
    return removed


def _point_back(table: FileStoreTable, old: Tag) -> None:
    """Move the tag back to its old snapshot if that is readable, else delete the tag."""
    try:
        Metadata(table).prove_readable(old.snapshot)
    except CorruptTable:
        table.tags.delete(old.name)
        raise
    table.tags.replace(old)


# --- deleting -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TagDeletion:
    """The tags to delete as planned, the files that only they need, journals of interrupted runs.

    `written`: for tags that expire by the time of their file, that time by name (milliseconds).
    """

    tags: tuple[Tag, ...] = ()
    going: tuple[Reference, ...] = ()
    written: Mapping[str, int] = field(default_factory=dict)
    planned: PlannedFiles = field(default=NOTHING_PLANNED, repr=False)
    interrupted: tuple[str, ...] = ()


def over_time(tags: Sequence[Tag], *, local_millis: int) -> list[Tag]:
    """Return the tags whose time to live has ended, by the wall clock."""
    return [
        t for t in tags if t.expires_at_millis is not None and t.expires_at_millis < local_millis
    ]


def plan_tag_deletion(
    table: FileStoreTable, tags: Sequence[Tag]
) -> tuple[TagDeletion, Garbage, list[Reference]]:
    """Return the deletion of these tags, its garbage, and all references of the table.

    UnsupportedFeature for tables whose tags cannot be deleted, CorruptTable if what stays cannot be
    read.
    """
    if not tags:
        return TagDeletion(), Garbage(), []
    check_taggable(table)
    going = [tag_reference(table, tag) for tag in tags]
    references = all_references(table)
    garbage = find_garbage(table, going, without(references, going), Metadata(table))
    work = TagDeletion(tags=tuple(tags), going=tuple(going), planned=garbage.files.planned())
    return work, garbage, references


def recheck_tags(table: FileStoreTable, work: TagDeletion) -> TagDeletion:
    """Return the work without tags that were replaced or extended since."""
    tags = tuple(tag for tag in work.tags if not _has_changed(table, work, tag))
    return replace(work, tags=tags, going=tuple(tag_reference(table, tag) for tag in tags))


def _has_changed(table: FileStoreTable, work: TagDeletion, tag: Tag) -> bool:
    """Return whether a tag of this name now has another snapshot, time to live, or age."""
    now = table.tags.get_or_none(tag.name)
    return now is not None and (
        now.snapshot.identity != tag.snapshot.identity
        or now.expires_at_millis != tag.expires_at_millis
        or _is_written_anew(table, work, tag)
    )


def _is_written_anew(table: FileStoreTable, work: TagDeletion, tag: Tag) -> bool:
    """Return whether a tag that expires by its file's time has another file of the same content."""
    planned = work.written.get(tag.name)
    return planned is not None and table.tags.modified_millis(tag.name) not in (None, planned)


def apply_tags(table: FileStoreTable, work: TagDeletion, deleting: Deleting) -> dict[str, object]:
    """Delete the tags, then the files that only they needed; return figures for reports.

    Errors as in `release`.
    """
    deleted: list[str] = []

    def delete() -> None:
        # What announces the tag goes first.
        for tag in work.tags:
            deleting.fence()
            if _has_changed(table, work, tag):
                continue
            withdraw_tag(table, tag.name)
            table.tags.delete(tag.name)
            deleted.append(tag.name)

    details: dict[str, object] = {}
    if work.going:
        removed = free_tags(table, work.going, deleting, delete, planned=work.planned)
        details.update(removed.to_json())
    details["deleted_tags"] = deleted
    return details


def free_tags(
    table: FileStoreTable,
    going: Sequence[Reference],
    deleting: Deleting,
    change: Callable[[], object],
    *,
    planned: PlannedFiles | None = None,
) -> Removed:
    """Run the change that removes the tags, then delete the files that only they need."""

    def delete_references() -> None:
        change()

    return release(
        table,
        going,
        delete_references,
        new_uuid=deleting.env.new_uuid,
        planned=planned,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
        delete=deleting.delete,
        leased=deleting.leased,
    )


# --- announcing ---------------------------------------------------------------------------------
#
# A tag is announced by its success file (Java: `SuccessFileTagCallback`), by a partition in the
# catalog (Java: `AddPartitionTagCallback`), and in Iceberg's metadata, each if the table has it.


def _success_file(table: FileStoreTable, name: str) -> str:
    return f"{table.paths.tag_success_dir}/{name}_SUCCESS"


def announce_tag(table: FileStoreTable, name: str, now_millis: int) -> None:
    """Write the success file of the tag, add its partition, and publish it for Iceberg."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        content = {"creationTime": now_millis, "modificationTime": now_millis}
        table.io.overwrite(_success_file(table, name), json.dumps(content).encode())
    key = table.options.value(TAG_TO_PARTITION)
    if key is not None and table.partition_registry is not None:
        table.partition_registry.add([{key: name}])
    synchronise_tags(table)


def is_unannounced(table: FileStoreTable, name: str) -> bool:
    """Whether a tag's success file or partition is missing, as after an interrupted run."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE) and not table.io.exists(
        _success_file(table, name)
    ):
        return True
    key = table.options.value(TAG_TO_PARTITION)
    registry = table.partition_registry
    if key is None or registry is None:
        return False
    return all(spec[key] != name for spec in registry.specs())


def withdraw_tag(table: FileStoreTable, name: str) -> None:
    """Undo `announce_tag`; before the tag is deleted."""
    if table.options.value(TAG_CREATE_SUCCESS_FILE):
        table.io.delete(_success_file(table, name))
    key = table.options.value(TAG_TO_PARTITION)
    if key is not None and table.partition_registry is not None:
        table.partition_registry.drop([{key: name}])
    synchronise_tags(table, without=(name,))
