"""Closes a gap between snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.content import changes_between
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, StalePlan
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.references import snapshot_reference
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.line import Gap, gaps_in
from paimon_core.snapshot.removal import Removal, Side, remove_newest
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_maintenance.job.metadata_job import Action
from paimon_maintenance.job.text import counted
from paimon_maintenance.jobs.repair.fixes import FixResult, place
from paimon_maintenance.verify.findings import Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFix:
    """A commit on top of a snapshot that a rollback removed, which left a gap.

    Its writer considers it committed.  So the fix commits its content again after the snapshot
    before the gap, and removes the snapshots beyond the gap.  If its files are gone, there is no
    content to keep, unless files of the snapshot before the gap are missing, too: then it is the
    storage that lacks them, which may not be mounted.
    """

    branch: FileStoreTable
    gap: Gap
    why: str
    repair: Repair = Repair.CLOSE_GAP

    def actions(self) -> list[Action]:
        beyond = _beyond(self.branch, self.gap)
        where = place(self.branch)
        kept = beyond[-1] if _is_whole(self.branch, beyond[-1]) else None
        ids = ", ".join(str(s.id) for s in beyond)
        if kept is None and _is_unmounted(self.branch, self.gap):
            what = f"close the gap after snapshot {self.gap.before}{where} once its files are back"
            return [Action(what, "files on both sides of it are missing: mount the storage")]
        if kept is None:
            what = f"remove {counted(len(beyond), 'snapshots')}{where} beyond the gap: {ids}"
            return [Action(what, "their files are missing, so there is no content to keep")]
        return [
            Action(
                f"commit the content of snapshot {kept.id}{where} as {self.gap.before + 1}, then "
                f"remove {ids}",
                self.why,
                {"kept": kept.id, "removed": [s.id for s in beyond]},
            )
        ]

    def apply(self, *, user: str, env: Environment) -> FixResult:
        branch = self.branch
        if self.gap not in gaps_in(branch.snapshots.ids()):
            return FixResult()
        beyond = _beyond(branch, self.gap)
        kept = beyond[-1] if _is_whole(branch, beyond[-1]) else None
        if kept is None and _is_unmounted(branch, self.gap):
            raise CorruptTable(
                f"files of snapshots {self.gap.before} and {self.gap.after} of table {branch.name} are "
                "missing, on both sides of the gap",
                table=branch.name,
                snapshot=self.gap.before,
                next_step="mount or restore the storage, then run the repair again; if the files are "
                "lost, run rollback to a snapshot that `caretaker verify` finds whole",
            )
        # The hint decides on which side of the gap readers find the newest snapshot.
        branch.snapshots.write_latest_hint(self.gap.before)
        made = None if kept is None else _commit_content(branch, kept, user, env)
        newest = branch.snapshots.get(self.gap.before) if made is None else made
        remove_newest(
            Removal(branch.snapshots, Side.END),
            beyond,
            back_to=newest.id,
            prove=snapshot_reference(branch, newest).prove_alive,
        )
        branch.snapshots.write_latest_hint(newest.id)
        content = "" if kept is None else f", the content of {kept.id} is snapshot {newest.id}"
        text = f"the gap after snapshot {self.gap.before}{place(branch)} closed{content}"
        return FixResult(text=text, snapshot=None if made is None else made.id)


def _beyond(branch: FileStoreTable, gap: Gap) -> list[Snapshot]:
    """The snapshots beyond the gap, oldest first."""
    ids = [i for i in branch.snapshots.ids() if i >= gap.after]
    return branch.snapshots.get_many(ids)


def _is_whole(branch: FileStoreTable, snapshot: Snapshot) -> bool:
    """Whether all files of the snapshot exist."""
    try:
        Metadata(branch).prove_readable(snapshot)
        live = scan_files(branch, snapshot)
        index = branch.index_entries(snapshot)
    except CorruptTable:
        return False
    paths = [branch.paths.data_file(e.partition, e.bucket, e.file) for e in live]
    paths += [branch.paths.index_file(e.partition, e.bucket, e.index_file) for e in index]
    return all(map_parallel(branch.io, branch.io.exists, paths))


def _is_unmounted(branch: FileStoreTable, gap: Gap) -> bool:
    """Whether files of the snapshot before the gap are missing as well."""
    before = branch.snapshots.get_or_none(gap.before)
    return before is not None and not _is_whole(branch, before)


def _commit_content(
    branch: FileStoreTable, kept: Snapshot, user: str, env: Environment
) -> Snapshot | None:
    """Commit the content of `kept`; None if the newest snapshot before the gap already has it."""
    latest = branch.latest_or_not_found()
    if changes_between(branch, latest, kept).is_empty:
        return None

    def provide(now: Snapshot | None) -> ManifestChanges:
        if now is None or now.identity != latest.identity:
            raise StalePlan(
                f"a writer committed to table {branch.name} while its gap was being closed",
                table=branch.name,
                snapshot=None if now is None else now.id,
                next_step="stop the writers, then run the repair again",
            )
        return changes_between(branch, now, kept)

    request = CommitRequest(user=user, kind=CommitKind.OVERWRITE)
    return commit_changes(with_full_merge(branch), provide, request, env=env)


def gap_fixes(branch: FileStoreTable, ids: Sequence[int], why: str) -> list[GapFix]:
    """The fix for the first gap; the next repair finds a second one."""
    return [GapFix(branch=branch, gap=gap, why=why) for gap in gaps_in(ids)[:1]]
