"""rollback_to_as_latest (Java: `FileStoreCommitImpl.rollbackToAsLatest` of 2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_core.commit.base import take_back
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.content import changes_between, moves_files, names_file_twice
from paimon_core.commit.manifest_changes import Changes
from paimon_core.commit.manifest_merge import with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CommitStateUnknown, PaimonError, StalePlan
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.options import BUCKET
from paimon_core.reachability.keep import create_kept
from paimon_core.reachability.references import Reference, snapshot_reference, tag_reference
from paimon_core.refs.tags import Tag
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import SnapshotPin, counted
from paimon_maintenance.jobs.versions.target import target_of

Arguments = Mapping[str, object]
_PROTECTING: Final = "rollback-to-as-latest-"


@dataclass(frozen=True, slots=True)
class AsLatest:
    """The snapshot whose files become live again, and the tag that keeps them from Java's expiry.

    Java deletes what a commit took away when the snapshots before that commit expire, and does
    not look whether a later one brought it back.  It leaves what the nearest older tag holds.
    """

    target: Snapshot
    tag: Tag | None = None
    brings_back: bool = False
    """Whether files become live again that the newest snapshot does not hold."""
    buckets: int = 0
    """The table's option when the plan was made."""
    unmerged: bool = False
    """Whether only the second snapshot of an interrupted run is missing."""


def make_as_latest(
    table: FileStoreTable, arguments: Arguments, context: RunContext
) -> MetadataPlan[AsLatest]:
    """The snapshot whose files become live again."""
    check_committable(table)
    target = target_of(table, arguments, context)
    latest = table.latest_or_not_found()
    changes = changes_between(table, latest, target)
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
    unmerged = changes.is_empty and names_file_twice(table, latest)
    if unmerged:
        why = "an interrupted run left files that are both deleted and there, which Java misreads"
        actions.append(Action("merge the manifests", why))
    return MetadataPlan(
        job="rollback_to_as_latest",
        table=table.name,
        pin=SnapshotPin.of(latest),
        work=AsLatest(
            target, tag, bool(back), buckets=table.options.value(BUCKET), unmerged=unmerged
        ),
        actions=tuple(actions),
        arguments=arguments,
    )


def apply_as_latest(
    table: FileStoreTable, plan: MetadataPlan[AsLatest], context: RunContext
) -> Committed:
    """One OVERWRITE snapshot; what others commit meanwhile is replaced as well.

    If files go back to the level that they had, a COMPACT snapshot without changes follows, in
    whose manifests they are named once: a compaction will move them up again, and to Java a file
    that any manifest deletes is not there, though a later one adds it.

    StalePlan, and nothing is committed, if another job removed the version before its files were
    live again.
    """
    target, tag = plan.work.target, plan.work.tag
    merging = with_full_merge(table)
    details: dict[str, object] = {"content_of": target.id}
    merge = CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT)
    if plan.work.unmerged:
        merged = commit_changes(merging, lambda _: Changes((), (), ()), merge, env=context.env)
        return Committed(snapshots=(merged.id,), details=details)
    context.fence()
    keeper = _keeper(table, plan.work)
    if tag is not None:
        details["protecting_tag"] = tag.name

    def provide(latest: Snapshot | None) -> Changes:
        buckets = table.refreshed().options.value(BUCKET)
        if buckets != plan.work.buckets:
            raise StalePlan(
                f"table {table.name} was rescaled to {counted(buckets, 'buckets')} since the plan: "
                f"with the files of snapshot {target.id} writers would be refused",
                table=table.name,
                snapshot=target.id,
            )
        changes = changes_between(table, latest, target)
        if keeper is None and any(e.kind is FileKind.ADD for e in changes.files):
            raise StalePlan(
                f"table {table.name} changed since the plan: files of snapshot {target.id} are no "
                f"longer part of the newest one",
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
        take_back(table, snapshot, f"{keeper.label}, which kept its files, was removed meanwhile")
        keeper.prove_alive()
    snapshots = [snapshot.id]
    if moves_files(table, snapshot):
        merged = commit_changes(merging, lambda _: Changes((), (), ()), merge, env=context.env)
        snapshots.append(merged.id)
    return Committed(snapshots=tuple(snapshots), details=details)


def _keeper(table: FileStoreTable, work: AsLatest) -> Reference | None:
    """What keeps the files that come back until the commit is there, proven alive.

    None if no file comes back: the newest snapshot holds all of them.
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
