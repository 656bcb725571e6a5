"""What a commit does with metadata of newer versions: it carries the fields along, or is refused.

- Unknown fields of manifest entries stay with their file, also when the file moves to another
  level.
- A rewrite puts the rows of such files into new ones.  What the fields mean for those is unknown,
  so the commit is refused.  Dropping or replacing the rows needs no field, and is not refused.
- Unknown fields of the newest snapshot go into the next one if the commit leaves the rows of the
  table as they are, or only removes some.  A commit with rows of a writer is refused: the field may
  have to count them, as `nextRowId` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest, Origin
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.manifest.entries.records import unknown_of
from paimon_core.manifest.unknown_fields import valued
from paimon_core.snapshot.snapshot import Snapshot

_NEXT_STEP: Final = (
    "use a version of Caretaker that knows the field, or compact the table with the version of "
    "Paimon that wrote it"
)


def with_unknown_fields(
    changes: ManifestChanges,
    base: Iterable[ManifestEntry],
    request: CommitRequest,
    *,
    table: str,
    latest: Snapshot,
) -> ManifestChanges:
    """Return the changes with the unknown fields of the files that they delete or move.

    `base` holds the live entries of the changed partitions.  Raises UnsupportedFeature if the
    changes rewrite a file that has unknown fields with values.
    """
    known = {e.place: e for e in base if e.unknown or e.file.unknown}
    if not known:
        return changes
    added = {e.place for e in changes.files if e.kind is FileKind.ADD}
    files: list[ManifestEntry] = []
    for entry in changes.files:
        old = known.get(entry.place)
        if old is None:
            files.append(entry)
            continue
        if entry.kind is FileKind.DELETE and entry.place not in added and request.rewrites:
            check_rewritable([old], table=table, snapshot=latest.id)
        file = replace(entry.file, unknown=entry.file.unknown or old.file.unknown)
        files.append(replace(entry, file=file, unknown=entry.unknown or old.unknown))
    return changes if files == list(changes.files) else replace(changes, files=tuple(files))


def check_rewritable(
    entries: Iterable[ManifestEntry], *, table: str, snapshot: int | None = None
) -> None:
    """Raise UnsupportedFeature if a file has metadata fields that this version does not know.

    New files with its rows would lose them.  Fields that are null have nothing to lose.
    """
    for entry in entries:
        names = valued(unknown_of(entry))
        if names:
            raise UnsupportedFeature(
                f"metadata field {names[0]}",
                f"data file {entry.file.file_name} of table {table} cannot be rewritten: its "
                f"manifest entry has {', '.join(names)}, which this version does not know, and new "
                "files would lose",
                table=table,
                file=entry.file.file_name,
                snapshot=snapshot,
                next_step=_NEXT_STEP,
            )


def check_index_replacement(
    live: Mapping[str, IndexManifestEntry], changes: Sequence[IndexManifestEntry]
) -> None:
    """Raise UnsupportedFeature if a new index file replaces one with unknown fields.

    `live` maps the names of the present index files to their entries.  Entries that come back, as
    in a rollback, have their own fields.
    """
    new = {_index_place(e) for e in changes if e.kind is FileKind.ADD and not e.unknown}
    for change in changes:
        name = change.index_file.file_name
        entry = live.get(name)
        if entry is None or change.kind is FileKind.ADD or _index_place(change) not in new:
            continue
        names = valued(entry.unknown)
        if names:
            raise UnsupportedFeature(
                f"metadata field {names[0]}",
                f"index file {name} cannot be replaced: its entry in the index manifest has "
                f"{', '.join(names)}, which this version does not know",
                file=name,
                next_step=_NEXT_STEP,
            )


def next_extra(
    latest: Snapshot | None, request: CommitRequest, *, env: Environment, table: str
) -> dict[str, object]:
    """Return the fields beyond those of `Snapshot` for the snapshot after `latest`.

    It gets a new `uuid` if the newest snapshot has one, and the operation that it is for.  Raises
    UnsupportedFeature for rows of a writer if the newest snapshot has unknown fields.
    """
    operation: dict[str, object] = {}
    if env.operation is not None:
        operation["operation"] = env.operation
    if latest is None:
        return operation
    # The newest snapshot shows which Java version writes the table (java-rules N1).
    result: dict[str, object] = {"uuid": env.new_uuid()} if latest.written_by_2_0 else {}
    carried = latest.unknown
    if carried and request.origin is not Origin.MAINTENANCE:
        name = min(carried)
        raise UnsupportedFeature(
            f"snapshot field {name}",
            f"no rows can be committed to table {table}: snapshot {latest.id} has the field {name}, "
            "which this version does not know and which new rows may have to change",
            table=table,
            snapshot=latest.id,
            next_step="write with the version of Paimon that made the snapshot; maintenance jobs "
            "carry the field along",
        )
    return {**result, **operation, **carried}


def _index_place(entry: IndexManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.index_file.index_type
