"""create_tag, replace_tag and rename_tag (Java: `utils/TagManager`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from paimon_core.errors import InvalidArgument, NotFound, ReferenceExists
from paimon_core.features import check_taggable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.tags import synchronise_tags
from paimon_core.options import TAG_AUTOMATIC_CREATION, TAG_DEFAULT_TIME_RETAINED, TAG_TO_PARTITION
from paimon_core.reachability.keep import create_kept
from paimon_core.reachability.release import finish_interrupted, journals
from paimon_core.refs.tags import Tag
from paimon_core.retention.tag_schedule import TagPeriod
from paimon_core.retention.tags import (
    announce_tag,
    is_unannounced,
    make_tag,
    move_tag,
)
from paimon_core.scan.manifests import data_manifests
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.rules.times import parse_instant
from paimon_maintenance.storage.bulk import deleting_in

Arguments = Mapping[str, object]


def required(arguments: Arguments, name: str) -> str:
    """The text of an argument; InvalidArgument if it is missing."""
    value = cast("str | None", arguments.get(name))
    if not value:
        raise InvalidArgument(f"argument --{name.replace('_', '-')} is required")
    return value


def _chosen(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Snapshot:
    """The snapshot to tag; CorruptTable if its metadata is missing.

    Such a tag is unreadable, and jobs that delete files fail because they
    cannot tell what it needs.
    """
    snapshot = _named(table, arguments, context)
    data_manifests(table, snapshot)
    return snapshot


def _named(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Snapshot:
    given = {k: arguments.get(k) for k in ("snapshot", "timestamp", "watermark")}
    chosen = {k: v for k, v in given.items() if v is not None}
    if len(chosen) > 1:
        raise InvalidArgument(f"set only one of {', '.join(chosen)}", table=table.name)
    if "snapshot" in chosen:
        return _snapshot_or_tagged(table, cast("int", chosen["snapshot"]))
    if "timestamp" in chosen:
        millis = parse_instant(cast("str", chosen["timestamp"]), context.env)
        later = table.snapshots.at_or_after_time(millis)
        known = [s for s in (later, *_tagged(table)) if s is not None and s.time_millis >= millis]
        if known:
            return min(known, key=lambda s: (s.time_millis, s.id))
        raise NotFound(
            f"table {table.name} has no snapshot at or after {millis}",
            table=table.name,
            next_step="choose an earlier time; `caretaker inspect` lists the snapshots",
        )
    if "watermark" in chosen:
        wanted = cast("int", chosen["watermark"])
        for snapshot in table.snapshots.all():
            if snapshot.watermark is not None and snapshot.watermark >= wanted:
                return snapshot
        raise NotFound(
            f"table {table.name} has no snapshot with watermark {wanted} or later",
            table=table.name,
            next_step="choose an earlier watermark; `caretaker inspect` lists the snapshots",
        )
    return table.latest_or_not_found()


def _snapshot_or_tagged(table: FileStoreTable, snapshot_id: int) -> Snapshot:
    """The snapshot, from a tag if it has expired."""
    found = table.snapshots.get_or_none(snapshot_id)
    if found is not None:
        return found
    tagged = next((s for s in _tagged(table) if s.id == snapshot_id), None)
    return tagged if tagged is not None else table.snapshots.get(snapshot_id)


def _tagged(table: FileStoreTable) -> list[Snapshot]:
    return [t.snapshot for t in table.tags.all()]


def _check_automatic(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    """InvalidArgument for a second automatic tag on a snapshot, which makes Java writers fail."""
    if table.options.value(TAG_AUTOMATIC_CREATION) in ("none", "batch"):
        return
    period = TagPeriod.of(table.options)
    if period.time_of(name) is None:
        return
    for tag in table.tags.all():
        if (
            tag.name != name
            and tag.snapshot.id == snapshot.id
            and period.time_of(tag.name) is not None
        ):
            raise InvalidArgument(
                f"snapshot {snapshot.id} of table {table.name} already has the automatic "
                f"tag {tag.name!r}, and {name!r} is the name of an automatic tag",
                table=table.name,
            )


# --- create and replace -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTag:
    """The tag to write, and the one to replace; `made`: it is only unannounced."""

    tag: Tag
    old: Tag | None = None
    interrupted: tuple[str, ...] = ()
    made: bool = False


def make_create(
    table: FileStoreTable, arguments: Arguments, context: RunContext
) -> MetadataPlan[NewTag]:
    """The tag to create; ReferenceExists if the name is taken."""
    check_taggable(table)
    name = required(arguments, "tag")
    snapshot = _chosen(table, arguments, context)
    there = table.tags.get_or_none(name)
    if there is not None:
        same = there.snapshot.identity == snapshot.identity
        if not same or not is_unannounced(table, name):
            raise ReferenceExists(
                f"tag {name!r} of table {table.name} already exists", table=table.name
            )
        action = Action(f"announce tag {name!r}", details={"tag": name})
        return _plan("create_tag", table, NewTag(there, made=True), action, arguments)
    _check_automatic(table, name, snapshot)
    retained = cast("int | None", arguments.get("time_retained"))
    if retained is None:
        retained = table.options.value(TAG_DEFAULT_TIME_RETAINED)
    tag = make_tag(name, snapshot, retained, context.env)
    action = Action(
        f"tag snapshot {snapshot.id} as {name!r}",
        "without a time to live" if retained is None else f"for {retained} ms",
        {"tag": name, "snapshot": snapshot.id, "time_retained_millis": retained},
    )
    return _plan("create_tag", table, NewTag(tag), action, arguments)


def apply_create(
    table: FileStoreTable, plan: MetadataPlan[NewTag], context: RunContext
) -> Committed:
    """Write the tag; NotFound if its snapshot has expired after the plan."""
    tag = plan.work.tag
    if not plan.work.made:
        create_kept(table, tag)
    announce_tag(table, tag.name, context.env.now_millis())
    return Committed(details={"tag": tag.name, "tagged_snapshot": tag.snapshot.id})


def make_replace(
    table: FileStoreTable, arguments: Arguments, context: RunContext
) -> MetadataPlan[NewTag]:
    """The tag to move to another snapshot; NotFound if it does not exist."""
    name = required(arguments, "tag")
    old = table.tags.get(name)
    snapshot = _chosen(table, arguments, context)
    _check_automatic(table, name, snapshot)
    retained = cast("int | None", arguments.get("time_retained"))
    tag = make_tag(name, snapshot, retained, context.env)
    action = Action(
        f"move tag {name!r} from snapshot {old.snapshot.id} to {snapshot.id}",
        details={"tag": name, "snapshot": snapshot.id, "old_snapshot": old.snapshot.id},
    )
    return _plan("replace_tag", table, NewTag(tag, old, tuple(journals(table))), action, arguments)


def apply_replace(
    table: FileStoreTable, plan: MetadataPlan[NewTag], context: RunContext
) -> Committed:
    """Replace the tag file and delete the files that only the old snapshot needs.

    NotFound if the new snapshot has expired after the plan; the tag then keeps the old snapshot.
    """
    new, old = plan.work.tag, plan.work.old
    details: dict[str, object] = {"tag": new.name, "tagged_snapshot": new.snapshot.id}
    if plan.work.interrupted:
        finished = finish_interrupted(table, plan.work.interrupted)
        details["finished"] = finished.to_json()
    removed = move_tag(table, old, new, deleting_in(context))
    details.update(removed.to_json())
    return Committed(details=details)


def make_rename(
    table: FileStoreTable, arguments: Arguments, _: RunContext
) -> MetadataPlan[tuple[str, str]]:
    """The old and the new name; raises NotFound or ReferenceExists."""
    name, target = required(arguments, "tag"), required(arguments, "target_tag")
    copied = _is_copied(table, name, target)
    what = f"rename tag {name!r} to {target!r}"
    action = Action(what, "the new name exists, delete the old one" if copied else "")
    return MetadataPlan(
        job="rename_tag",
        table=table.name,
        pin=latest_pin(table),
        work=(name, target),
        actions=(action,),
        arguments=arguments,
    )


def apply_rename(
    table: FileStoreTable, plan: MetadataPlan[tuple[str, str]], context: RunContext
) -> Committed:
    """Move the tag file; after an interrupted run, delete the old file.

    ReferenceExists if another tag took the new name after the plan: the old one then stays.
    """
    name, target = plan.work
    context.fence()
    if _is_copied(table, name, target):
        table.tags.delete(name)
    else:
        table.tags.rename(name, target)
    _move_partition(table, name, target)
    synchronise_tags(table)
    return Committed(details={"tag": plan.work[1]})


def _is_copied(table: FileStoreTable, name: str, target: str) -> bool:
    """Return whether an interrupted run has copied the tag, as object stores do before they delete.

    NotFound for a missing tag, ReferenceExists if another one has the new name.
    """
    tag, there = table.tags.get(name), table.tags.get_or_none(target)
    if there is None:
        return False
    if name == target or there != replace(tag, name=target):
        raise ReferenceExists(
            f"tag {target!r} of table {table.name} already exists", table=table.name
        )
    return True


def _move_partition(table: FileStoreTable, name: str, target: str) -> None:
    """Java renames the tag alone, and leaves a partition of a tag that does not exist."""
    key = table.options.value(TAG_TO_PARTITION)
    if key is not None and table.partition_registry is not None:
        table.partition_registry.add([{key: target}])
        table.partition_registry.drop([{key: name}])


def _plan(
    job: str, table: FileStoreTable, work: NewTag, action: Action, arguments: Arguments
) -> MetadataPlan[NewTag]:
    return MetadataPlan(
        job=job,
        table=table.name,
        pin=latest_pin(table),
        work=work,
        actions=(action,),
        arguments=arguments,
    )


CREATE: Final = metadata_steps(make_create, apply_create)
REPLACE: Final = metadata_steps(make_replace, apply_replace)
RENAME: Final = metadata_steps(make_rename, apply_rename)
