"""rollback and rollback_to_as_latest (Java: `table/RollbackHelper`, `FileStoreCommitImpl` of 2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from maintenance.job import Committed, RunContext
from maintenance.jobs.versions.told import in_words
from maintenance.metadata_job import Action, MetadataPlan, metadata_steps
from maintenance.plan import Effect, Kept, SnapshotPin, counted, human_bytes, kept_files
from maintenance.safety_tag import BEFORE_ROLLBACK, is_safety_tag, safety_tag
from maintenance.times import parse_instant
from paimon_core.commit.changes import Changes
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_merge import with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CommitConflict, InvalidArgument, NotFound, StalePlan
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES
from paimon_core.reachability.files import Metadata, StoredFile
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    snapshot_reference,
    tag_reference,
    without,
)
from paimon_core.reachability.release import (
    finish_interrupted,
    journals,
    read_journals,
    release,
)
from paimon_core.refs.tags import Tag
from paimon_core.scan.manifests import data_manifests, delta_manifests, read_entries
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.changelog import without_lost_changelog
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

Arguments = Mapping[str, object]
_PROTECTING: Final = "rollback-to-as-latest-"


def target_of(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Snapshot:
    """The snapshot that is meant; NotFound, or InvalidArgument unless exactly one way is used."""
    given = {k: arguments.get(k) for k in ("snapshot", "tag", "timestamp", "watermark")}
    chosen = {k: v for k, v in given.items() if v is not None}
    if len(chosen) != 1:
        raise InvalidArgument(
            "choose one of snapshot, tag, timestamp and watermark", table=table.name
        )
    if "tag" in chosen:
        return table.tags.get(cast("str", chosen["tag"])).snapshot
    if "snapshot" in chosen:
        wanted = cast("int", chosen["snapshot"])
        found = table.snapshots.get_or_none(wanted)
        if found is None:
            tags = (t.snapshot for t in table.tags.all())
            found = next((s for s in tags if s.id == wanted), None)
        return found if found is not None else table.snapshots.get(wanted)
    if "watermark" in chosen:
        return _at_watermark(table, cast("int", chosen["watermark"]))
    millis = parse_instant(cast("str", chosen["timestamp"]), context.env)
    at = table.snapshots.at_or_before_time(millis)
    if at is None:
        raise NotFound(
            f"table {table.name} has no snapshot at {millis} or before", table=table.name
        )
    return at


def _at_watermark(table: FileStoreTable, wanted: int) -> Snapshot:
    """The newest snapshot whose watermark is `wanted` or less (`earlierOrEqualWatermark`).

    NotFound if all are later; Java then takes the earliest.
    """
    for snapshot in reversed(table.snapshots.all()):
        if snapshot.watermark is not None and snapshot.watermark <= wanted:
            return snapshot
    raise NotFound(
        f"table {table.name} has no snapshot with watermark {wanted} or less", table=table.name
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Where to, what goes, and the tag that keeps what is newest now."""

    target: Snapshot
    latest: Snapshot
    going: tuple[Reference, ...]
    files: frozenset[StoredFile] = field(default=frozenset(), repr=False)
    safety: Tag | None = None
    interrupted: tuple[str, ...] = ()


Plan = MetadataPlan[Rollback]


def make(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """What is later than the target, and goes."""
    target = target_of(table, arguments, context)
    latest = table.latest_or_not_found()
    _check_in_line(table, target, latest)
    references = all_references(table)
    going = [
        r
        for r in references
        if r.table.branch == table.branch
        and r.snapshot.id > target.id
        # Safety tags stay until their time is over, also those of earlier rollbacks.
        and not (r.kind is RefKind.TAG and is_safety_tag(r.name))
    ]
    kept: list[Kept] = []
    interrupted = tuple(journals(table))
    safety = None
    if going:
        safety = safety_tag(
            table,
            latest,
            prefix=BEFORE_ROLLBACK,
            name=f"{latest.id}-to-{target.id}",
            retained_millis=cast("int | None", arguments.get("safety_tag")),
            env=context.env,
            kept=kept,
            interrupted=read_journals(table, interrupted),
        )
    staying = [*without(references, going), snapshot_reference(table, target)]
    if safety is not None:
        staying.append(tag_reference(table, safety))
    garbage = find_garbage(table, going, staying, Metadata(table))
    live = scan_files(table, latest)
    actions = []
    if going or not table.snapshots.exists(target.id):
        actions.append(
            Action(
                f"go back from snapshot {latest.id} to {target.id}, deleting {in_words(going)}",
                f"frees {human_bytes(garbage.bytes)} in {counted(len(garbage.files), 'files')}",
                {"target": target.id, "deleted": [r.label for r in going]},
            )
        )
        if safety is not None:
            actions.insert(0, Action(f"tag snapshot {latest.id} as {safety.name!r}", "safety"))
    else:
        why = "it is the newest already"
        kept.append(Kept(what=f"snapshot {target.id}", why=why))
    kept += kept_files(garbage.held)
    if interrupted:
        actions.append(Action(f"finish {counted(len(interrupted), 'interrupted runs')}"))
    return MetadataPlan(
        job="rollback",
        table=table.name,
        pin=SnapshotPin.of(latest),
        work=Rollback(
            target=target,
            latest=latest,
            going=tuple(going),
            files=frozenset(garbage.files),
            safety=safety,
            interrupted=interrupted,
        ),
        actions=tuple(actions),
        kept=tuple(kept),
        effect=Effect(
            deleted_files=len(garbage.files),
            deleted_bytes=garbage.bytes,
            table_files=len(live),
            table_bytes=sum(e.file.file_size for e in live),
        ),
        arguments=arguments,
    )


def _check_in_line(table: FileStoreTable, target: Snapshot, latest: Snapshot) -> None:
    """InvalidArgument for a version that the history of now does not lead to.

    A tag from before a rollback, or before a fast-forward, may have a number that another snapshot
    has by now, or one that lies further on, so that snapshots between would be missing.
    """
    there = table.snapshots.get_or_none(target.id)
    if there is not None and there.identity != target.identity:
        why = f"snapshot {target.id} of table {table.name} is another one by now"
    elif there is None and target.id > latest.id + 1:
        why = (
            f"the newest snapshot of table {table.name} is {latest.id}: those between it and "
            f"{target.id} are gone"
        )
    else:
        return
    raise InvalidArgument(
        f"{why}, so there is no going back to it",
        table=table.name,
        snapshot=target.id,
        next_step="use rollback_to_as_latest, which commits its content as the newest snapshot",
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan; StalePlan if somebody committed since, for that would be lost unseen."""
    latest = table.snapshots.latest()
    if latest is None or latest.identity != plan.work.latest.identity:
        raise StalePlan(
            f"table {table.name} got snapshot {latest.id if latest else None} since the plan was "
            f"made from {plan.work.latest.id}",
            table=table.name,
        )
    return plan


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Tag, go back, delete what only the later versions needed."""
    work = plan.work
    details: dict[str, object] = {"rolled_back_to": work.target.id}
    if work.interrupted:
        details["finished"] = finish_interrupted(table, work.interrupted).to_json()
    if work.safety is not None:
        if not table.tags.exists(work.safety.name):
            table.tags.create(work.safety)
        details["safety_tag"] = work.safety.name

    def delete_references() -> None:
        _go_back(table, work)

    removed = release(
        table,
        work.going,
        delete_references,
        new_uuid=context.env.new_uuid,
        planned=work.files,
        clean_folders=table.options.value(SNAPSHOT_CLEAN_EMPTY_DIRECTORIES),
    )
    return Committed(details={**details, **removed.to_json()})


def _go_back(table: FileStoreTable, work: Rollback) -> None:
    """The hint first, then newest to oldest, as Java does: whenever it stops, there is no gap."""
    target = work.target
    if not table.snapshots.exists(target.id):
        # Back to a tag whose snapshot has expired.  It may take the number of none that is left.
        if not table.snapshots.try_commit(without_lost_changelog(table.io, table.paths, target)):
            raise StalePlan(
                f"snapshot {target.id} of table {table.name} was made by another job meanwhile",
                table=table.name,
                snapshot=target.id,
            )
        if target.id == min(table.snapshots.ids()):
            table.snapshots.write_earliest_hint(target.id)
    table.snapshots.write_latest_hint(target.id)
    by_kind = {k: [r for r in work.going if r.kind is k] for k in RefKind}
    for reference in sorted(by_kind[RefKind.SNAPSHOT], key=lambda r: -r.snapshot.id):
        table.snapshots.delete(reference.snapshot.id)
    for reference in sorted(by_kind[RefKind.CHANGELOG], key=lambda r: -r.snapshot.id):
        table.changelogs.delete(reference.snapshot.id)
    if by_kind[RefKind.CHANGELOG]:
        table.changelogs.delete_hints()
    for reference in by_kind[RefKind.TAG]:
        table.tags.delete(reference.name)


ROLLBACK: Final = metadata_steps(make, apply, recheck=recheck)


# --- as latest ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AsLatest:
    """The snapshot whose files become live again, and the tag that keeps them from Java's expiry.

    Java deletes what a commit took away when the snapshots before that commit expire, and does
    not look whether a later one brought it back.  It leaves what the nearest older tag holds.
    """

    target: Snapshot
    tag: Tag | None = None
    unmerged: bool = False
    """Whether only the second snapshot of an interrupted run is missing."""


def make_as_latest(
    table: FileStoreTable, arguments: Arguments, context: RunContext
) -> MetadataPlan[AsLatest]:
    """The snapshot whose files become live again."""
    check_committable(table)
    target = target_of(table, arguments, context)
    latest = table.latest_or_not_found()
    changes = _difference(table, latest, target)
    back = [e for e in changes.files if e.kind is FileKind.ADD]
    tag = None
    if back and not any(
        t.time_retained is None and t.snapshot.identity == target.identity for t in table.tags.all()
    ):
        tag = Tag(f"{_PROTECTING}{target.id}-{context.env.new_uuid()}", target)
    actions = []
    if tag is not None:
        why = "without it, expiry by Java would delete the files that come back"
        actions.append(Action(f"tag snapshot {target.id} as {tag.name!r}", why))
    if not changes.is_empty:
        actions.append(
            Action(
                f"commit the content of snapshot {target.id} as snapshot {latest.id + 1}",
                f"{counted(len(back), 'files')} back, {len(changes.files) - len(back):,} gone",
            )
        )
    unmerged = changes.is_empty and _names_twice(table, latest)
    if unmerged:
        why = "an interrupted run left files that are both deleted and there, which Java misreads"
        actions.append(Action("merge the manifests", why))
    return MetadataPlan(
        job="rollback_to_as_latest",
        table=table.name,
        pin=SnapshotPin.of(latest),
        work=AsLatest(target, tag, unmerged),
        actions=tuple(actions),
        arguments=arguments,
    )


def _difference(table: FileStoreTable, latest: Snapshot | None, target: Snapshot) -> Changes:
    """What leads from the newest snapshot to the content of the target."""
    now = {} if latest is None else {e.identity: e for e in scan_files(table, latest)}
    then = {e.identity: e for e in scan_files(table, target)}
    files: list[ManifestEntry] = [e.as_delete() for i, e in now.items() if i not in then]
    files += [e for i, e in then.items() if i not in now]
    old, new = _indexes(table, latest), _indexes(table, target)
    index = [
        IndexManifestEntry(FileKind.DELETE, e.partition, e.bucket, e.index_file)
        for name, e in old.items()
        if name not in new
    ]
    index += [e for name, e in new.items() if name not in old]
    return Changes(tuple(files), (), tuple(index))


def _indexes(table: FileStoreTable, snapshot: Snapshot | None) -> dict[str, IndexManifestEntry]:
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    entries = read_index_manifest(table.io, table.paths.manifest(snapshot.index_manifest))
    return {e.index_file.file_name: e for e in entries}


def apply_as_latest(
    table: FileStoreTable, plan: MetadataPlan[AsLatest], context: RunContext
) -> Committed:
    """One OVERWRITE snapshot; what others commit meanwhile is replaced as well.

    If files go back to the level that they had, a COMPACT snapshot without changes follows, in
    whose manifests they are named once: a compaction will move them up again, and to Java a file
    that any manifest deletes is not there, though a later one adds it.
    """
    target, tag = plan.work.target, plan.work.tag
    merging = with_full_merge(table)
    details: dict[str, object] = {"content_of": target.id}
    merge = CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT)
    if plan.work.unmerged:
        merged = commit_changes(merging, lambda _: Changes((), (), ()), merge, env=context.env)
        return Committed(snapshots=(merged.id,), details=details)
    if tag is not None:
        table.tags.create(tag)
        details["protecting_tag"] = tag.name
    try:
        snapshot = commit_changes(
            merging,
            lambda latest: _difference(table, latest, target),
            CommitRequest(user=context.commit_user, kind=CommitKind.OVERWRITE),
            env=context.env,
        )
    except CommitConflict:
        if tag is not None:
            table.tags.delete(tag.name)
        raise
    snapshots = [snapshot.id]
    if _moves_files(table, snapshot):
        merged = commit_changes(merging, lambda _: Changes((), (), ()), merge, env=context.env)
        snapshots.append(merged.id)
    return Committed(snapshots=tuple(snapshots), details=details)


def _names_twice(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Whether any manifest deletes a file, from the level above that it came back from."""
    live = {e.file.file_name: e.file.level for e in scan_files(table, snapshot)}
    return any(
        entry.kind is FileKind.DELETE
        and entry.file.level > live.get(entry.file.file_name, entry.file.level)
        for meta in data_manifests(table, snapshot)
        if meta.num_deleted_files
        for entry in read_entries(table, meta)
    )


def _moves_files(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Whether the snapshot deletes a file at one level and adds it at another."""
    names: dict[FileKind, set[str]] = {FileKind.ADD: set(), FileKind.DELETE: set()}
    for meta in delta_manifests(table, snapshot):
        for entry in read_entries(table, meta):
            names[entry.kind].add(entry.file.file_name)
    return not names[FileKind.ADD].isdisjoint(names[FileKind.DELETE])


AS_LATEST: Final = metadata_steps(make_as_latest, apply_as_latest)
