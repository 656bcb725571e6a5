"""What a deleting plan removes, by kind; the guards check it.

Expiry jobs delete superseded files.  A healthy table has more of them than live files, so their
share means nothing: the guards look at the number of versions, and at files that the newest
snapshot needs.  For jobs that change what readers of the newest snapshot see, the guards look at
its data files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.manifest.entries.columns import no_columns
from paimon_core.reachability.files import Role, data_files
from paimon_core.reachability.needed import needed_files
from paimon_core.reachability.references import Reference, RefKind, snapshot_reference
from paimon_core.reachability.stored_files import StoredFiles
from paimon_core.scan.columns import scan_columns
from paimon_maintenance.job.plan import Effect, Loss, LossKind

_KINDS = {
    RefKind.SNAPSHOT: LossKind.SNAPSHOTS,
    RefKind.CHANGELOG: LossKind.CHANGELOGS,
    RefKind.TAG: LossKind.TAGS,
}
_DATA = (Role.DATA, Role.CHANGELOG)


def live_effect(
    going: Sequence[ManifestEntry], live: Sequence[ManifestEntry], *, exact: bool = False
) -> Effect:
    """The effect of removing live files from the newest snapshot.

    `exact`: the share also counts for very small tables.
    """
    gone, size = len(going), sum(e.file.file_size for e in going)
    files, total = len(live), sum(e.file.file_size for e in live)
    return Effect(
        deleted_files=gone,
        deleted_bytes=size,
        table_files=files,
        table_bytes=total,
        losses=(
            Loss(LossKind.FILES, gone, files, exact),
            Loss(LossKind.BYTES, size, total, exact),
        ),
    )


def expiry_effect(
    table: FileStoreTable,
    going: Sequence[Reference],
    references: Sequence[Reference],
    garbage: StoredFiles,
    *,
    branches: Loss | None = None,
) -> Effect:
    """The effect of deleting versions and the files that only they need.

    `references` are all references of the table.  `Effect.needed` lists the files that the newest
    snapshot needs: there must be none.
    """
    latest = table.snapshots.latest() if garbage else None
    live = no_columns() if latest is None else scan_columns(table, latest, ("file_size",))
    needed = (
        () if latest is None else needed_files(snapshot_reference(table, latest), live, garbage)
    )
    return Effect(
        deleted_files=len(garbage),
        deleted_bytes=garbage.bytes,
        table_files=len(live),
        table_bytes=int(live.numbers["file_size"].sum()),
        losses=(
            *version_losses(going, references),
            *(() if branches is None else (branches,)),
            *_stored(garbage),
        ),
        needed=needed,
    )


def history_effect(
    table: FileStoreTable,
    going: Sequence[Reference],
    references: Sequence[Reference],
    garbage: StoredFiles,
    live: Sequence[ManifestEntry],
    *,
    newest: Reference | None,
) -> Effect:
    """The effect of a job that moves the newest snapshot: lost versions and lost live files.

    `live` are the data files of the newest snapshot before the job.  `newest` is the newest
    snapshot after it, which must need none of the garbage.
    """
    paths = {f.path for f in garbage}
    lost = [e for e in live if any(f.path in paths for f in data_files(table, e))]
    of_live = live_effect(lost, live)
    return Effect(
        deleted_files=len(garbage),
        deleted_bytes=garbage.bytes,
        table_files=of_live.table_files,
        table_bytes=of_live.table_bytes,
        losses=(*version_losses(going, references), *of_live.losses, *_stored(garbage)),
        needed=()
        if newest is None or not garbage
        else needed_files(newest, scan_columns(newest.table, newest.snapshot), garbage),
    )


def version_losses(going: Iterable[Reference], references: Iterable[Reference]) -> tuple[Loss, ...]:
    """The lost snapshots, changelogs and tags, relative to those of the same branches."""
    gone = Counter(r.kind for r in going)
    branches = {r.table.branch for r in going}
    there = Counter(r.kind for r in references if r.table.branch in branches)
    return tuple(
        Loss(_KINDS[kind], count, max(count, there[kind])) for kind, count in sorted(gone.items())
    )


def _stored(garbage: StoredFiles) -> tuple[Loss, ...]:
    """The stored files, without a total: only absolute limits apply to them."""
    count, size = garbage.total(*_DATA)
    return (
        Loss(LossKind.FILES, count),
        Loss(LossKind.BYTES, size),
        Loss(LossKind.METADATA, len(garbage) - count),
    )
