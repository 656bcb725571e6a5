"""rollback_to_as_latest (Java: `FileStoreCommitImpl.rollbackToAsLatest` of 2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_core.commit.base_check import revert_commit
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.content import changes_between, moves_files, names_file_twice
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CommitStateUnknown, PaimonError, StalePlan
from paimon_core.features import check_committable, check_not_renumbered
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.options import BUCKET
from paimon_core.reachability.keep import create_kept
from paimon_core.reachability.references import Reference, snapshot_reference, tag_reference
from paimon_core.refs.tags import Tag
from paimon_core.retention.registered_partitions import synchronise_partitions
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import SnapshotPin
from paimon_maintenance.job.text import counted
from paimon_maintenance.jobs.versions.other_buckets import with_other_buckets
from paimon_maintenance.jobs.versions.target import target_of

Arguments = Mapping[str, object]
_PROTECTING: Final = "rollback-to-as-latest-"


@dataclass(frozen=True, slots=True)
class AsLatest:
    """The snapshot whose content becomes the newest, and the tag that protects its files.

    When snapshots expire, Java deletes the files that the next commit removed, without checking
    that a later commit added them again.  It keeps the files of the nearest older tag.  When a tag
    is deleted, it keeps those of its neighbours and of the oldest snapshot, but not those of the
    newest one; so the tag that the target has may not be the only one.

    If the new snapshot expires, the nearest older tag may be one between the two, without the
    files; Java would then delete files of the target's tags.  So the new snapshot is tagged as well
    if there are such tags.
    """

    target: Snapshot
    tag: Tag | None = None
    brings_back: bool = False
    """Whether the commit adds data or index files that the newest snapshot does not have."""
    buckets: int = 0
    """The table's option when the plan was made."""
    commits: bool = True
    """Whether the newest snapshot has another content."""
    unmerged: bool = False
    """Whether only the second snapshot of an interrupted run is missing."""
    tags_new: bool = False
    """Whether the new snapshot gets a tag."""


def make_as_latest(
    table: FileStoreTable, arguments: Arguments, context: RunContext
) -> MetadataPlan[AsLatest]:
    """The plan to commit the content of the target snapshot."""
    check_committable(table)
    check_not_renumbered(table, "rolled back by a new snapshot")
    target = target_of(table, arguments, context)
    latest = table.latest_or_not_found()
    changes = changes_between(table, latest, target)
    back = [e for e in changes.files if e.kind is FileKind.ADD]
    added = _added(changes)
    removed = len(changes.files) + len(changes.index_files) - len(added)
    tag = None
    tags = table.tags.all()
    ours = [t for t in tags if t.name.startswith(_PROTECTING) and t.time_retained is None]
    # Another tag of the target may be deleted by Java, which looks at the oldest snapshot only.
    protected = any(t.snapshot.identity == target.identity for t in ours)
    if added and not protected:
        tag = Tag(f"{_PROTECTING}{target.id}-{context.env.new_uuid()}", target)
    actions = []
    if tag is not None:
        why = "without it, Java's expiry, or Java's deletion of another tag, deletes the restored files"
        actions.append(Action(f"tag snapshot {target.id} as {tag.name!r}", why))
    if not changes.is_empty:
        actions.append(
            Action(
                f"commit the content of snapshot {target.id} as snapshot {latest.id + 1}",
                f"{counted(len(added), 'files')} added, {removed:,} removed",
            )
        )
    buckets = table.options.value(BUCKET)
    kept = with_other_buckets(table, back)
    between = [t for t in tags if target.id < t.snapshot.id and t not in ours]
    covered = any(all(t.snapshot.id > b.snapshot.id for b in between) for t in ours)
    tags_new = bool(between) and not covered and (bool(added) or (changes.is_empty and protected))
    if tags_new:
        why = f"Java's expiry keeps the files of the nearest older tag alone, which may be {between[-1].name!r}"
        actions.append(Action("tag the new snapshot, too", why))
    unmerged = changes.is_empty and names_file_twice(table, latest)
    if unmerged:
        why = "an interrupted run left files with both DELETE and ADD entries, which Java misreads"
        actions.append(Action("merge the manifests", why))
    return MetadataPlan(
        job="rollback_to_as_latest",
        table=table.name,
        pin=SnapshotPin.of(latest),
        work=AsLatest(
            target=target,
            tag=tag,
            brings_back=bool(added),
            buckets=buckets,
            commits=not changes.is_empty,
            unmerged=unmerged,
            tags_new=tags_new,
        ),
        actions=tuple(actions),
        kept=tuple(kept),
        arguments=arguments,
    )


def apply_as_latest(
    table: FileStoreTable, plan: MetadataPlan[AsLatest], context: RunContext
) -> Committed:
    """Commit one OVERWRITE snapshot; it also replaces concurrent commits.

    If files return to their previous level, a COMPACT snapshot without changes follows, with one
    entry per file in its manifests: to Java, a file with a DELETE entry in any manifest does not
    exist, even if a later manifest adds it.

    StalePlan, without a commit, if another job removed the version before its files were live.
    """
    target, tag = plan.work.target, plan.work.tag
    merging = with_full_merge(table)
    details: dict[str, object] = {"content_of": target.id}
    merge = CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT)
    if not plan.work.commits:  # an interrupted run did
        newest = table.latest_or_not_found()
        made: tuple[int, ...] = ()
        if plan.work.unmerged:
            newest = commit_changes(
                merging, lambda _: ManifestChanges((), (), ()), merge, env=context.env
            )
            made = (newest.id,)
        _tag_new(table, plan.work, newest, context, details)
        return Committed(snapshots=made, details=details)
    context.fence()
    keeper = _keeper(table, plan.work)
    if tag is not None:
        details["protecting_tag"] = tag.name

    def provide(latest: Snapshot | None) -> ManifestChanges:
        buckets = table.refreshed().options.value(BUCKET)
        if buckets != plan.work.buckets:
            raise StalePlan(
                f"table {table.name} was rescaled to {counted(buckets, 'buckets')} since the plan: "
                f"with the files of snapshot {target.id} writers would be refused",
                table=table.name,
                snapshot=target.id,
            )
        changes = changes_between(table, latest, target)
        if keeper is None and _added(changes):
            raise StalePlan(
                f"table {table.name} changed after the plan: the newest snapshot no longer has "
                f"files of snapshot {target.id}",
                table=table.name,
                snapshot=target.id,
            )
        return changes

    try:
        snapshot = commit_changes(
            merging,
            provide,
            CommitRequest(user=context.commit_user, kind=CommitKind.OVERWRITE),
            env=context.env,
        )
    except CommitStateUnknown:
        raise
    except PaimonError:
        if tag is not None:
            table.tags.delete(tag.name)
        raise
    if keeper is not None and not keeper.is_alive():
        revert_commit(table, snapshot, f"{keeper.label}, which protected its files, was removed")
        keeper.prove_alive()
    snapshots = [snapshot.id]
    _tag_new(table, plan.work, snapshot, context, details)
    if moves_files(table, snapshot):
        merged = commit_changes(
            merging, lambda _: ManifestChanges((), (), ()), merge, env=context.env
        )
        snapshots.append(merged.id)
    synchronise_partitions(table)
    return Committed(snapshots=tuple(snapshots), details=details)


def _tag_new(
    table: FileStoreTable,
    work: AsLatest,
    snapshot: Snapshot,
    context: RunContext,
    details: dict[str, object],
) -> None:
    """Tag the new snapshot if the plan says so."""
    if not work.tags_new:
        return
    tag = Tag(f"{_PROTECTING}{snapshot.id}-{context.env.new_uuid()}", snapshot)
    create_kept(table, tag)
    details["protecting_tag_of_new_snapshot"] = tag.name


def _added(changes: ManifestChanges) -> list[ManifestEntry | IndexManifestEntry]:
    """The data files that these add, and the index files, such as those of deletion vectors."""
    files = [e for e in changes.files if e.kind is FileKind.ADD]
    return [*files, *(e for e in changes.index_files if e.kind is FileKind.ADD)]


def _keeper(table: FileStoreTable, work: AsLatest) -> Reference | None:
    """A reference that protects the restored files until the commit, checked to be alive.

    None if there are no restored files, because the newest snapshot has all of them.
    """
    if not work.brings_back:
        return None
    if work.tag is not None:
        create_kept(table, work.tag)
        return tag_reference(table, work.tag)
    references = [tag_reference(table, t) for t in table.tags.all() if t.time_retained is None]
    references.append(snapshot_reference(table, work.target))
    mine = [r for r in references if r.snapshot.identity == work.target.identity]
    alive = next((r for r in mine if r.is_alive()), mine[-1])
    alive.prove_alive()
    return alive


AS_LATEST: Final = metadata_steps(make_as_latest, apply_as_latest)
