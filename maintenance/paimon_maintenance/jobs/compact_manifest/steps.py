"""compact_manifest (Java: `FileStoreCommitImpl.compactManifest`; java-rules B4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import check_mergeable, with_full_merge
from paimon_core.commit.request import CommitRequest
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import MANIFEST_TARGET_SIZE
from paimon_core.scan.manifests import data_manifests
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, metadata_steps
from paimon_maintenance.job.plan import Retained, SnapshotPin
from paimon_maintenance.job.text import counted, human_bytes


def make(
    table: FileStoreTable, arguments: Mapping[str, object], _: RunContext
) -> MetadataPlan[None]:
    """The small manifests and those with deletions.

    Empty for a single manifest without deletions.
    """
    check_committable(table)
    latest = table.snapshots.latest()
    metas = [] if latest is None else data_manifests(table, latest)
    target = table.options.value(MANIFEST_TARGET_SIZE)
    small = [m for m in metas if m.file_size < target]
    deletes = sum(m.num_deleted_files for m in metas)
    actions = []
    if deletes or len(small) > 1:
        check_mergeable(metas)
        size = human_bytes(sum(m.file_size for m in metas))
        actions.append(
            Action(
                f"merge {counted(len(metas), 'manifests')} ({size})",
                f"{len(small):,} of them small; {counted(deletes, 'deletions')} in the entries",
                {"manifests": len(metas), "small": len(small), "deletions": deletes},
            )
        )
    kept = []
    if not actions:
        why = "they are already merged and have no deletions"
        kept.append(Retained(what="manifests", why=why, count=len(metas)))
    return MetadataPlan(
        job="compact_manifest",
        table=table.name,
        pin=None if latest is None else SnapshotPin.of(latest),
        work=None,
        actions=tuple(actions),
        kept=tuple(kept),
        arguments=arguments,
    )


def apply(table: FileStoreTable, _: MetadataPlan[None], context: RunContext) -> Committed:
    """Commit one COMPACT snapshot without changes and with fully merged manifests."""
    snapshot = commit_changes(
        with_full_merge(table),
        lambda _: ManifestChanges((), (), ()),
        CommitRequest(user=context.commit_user, kind=CommitKind.COMPACT),
        env=context.env,
    )
    left = data_manifests(table, snapshot)
    return Committed(snapshots=(snapshot.id,), details={"manifests": len(left)})


STEPS: Final = metadata_steps(make, apply)
