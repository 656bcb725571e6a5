"""Tables that are broken in one way each, and the repair for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from lakes import ENV, Lake

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX, write_deletion_vectors
from paimon_core.manifest.data_file import FileKind, IndexFileMeta, IndexManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_maintenance.verify.findings import Problem


def sound(lake: Lake) -> None:
    """Four snapshots of two buckets."""
    lake.primary_key(buckets=2)
    for i in range(4):
        lake.append({"k": [i * 10, i * 10 + 1, i * 10 + 2], "v": ["a", "b", "c"]})


def live_paths(table: FileStoreTable) -> list[Path]:
    entries = scan_files(table, table.latest_or_not_found())
    return [Path(table.paths.data_file(e.partition, e.bucket, e.file)) for e in entries]


def wrong_hints(lake: Lake) -> None:
    folder = Path(lake.table().paths.snapshot_dir)
    (folder / "EARLIEST").write_text("3")
    (folder / "LATEST").write_text("2")


def lost_consumers(lake: Lake) -> None:
    table = lake.table()
    table.snapshots.delete(1)
    table.snapshots.write_earliest_hint(2)
    table.consumers.set("behind", 1)
    table.consumers.set("ahead", 99)
    table.consumers.set("fine", 3)


def wrong_sizes(lake: Lake) -> None:
    table = lake.table()
    snapshot = table.snapshots.get(3)
    wrong = replace(snapshot, base_manifest_list_size=7, delta_manifest_list_size=1)
    Path(table.paths.snapshot(3)).write_text(snapshot_to_json(wrong))


def lost_file(lake: Lake) -> None:
    live_paths(lake.table())[0].unlink()


def overlap(lake: Lake) -> None:
    """All files go straight to level 1, unchecked."""
    table = lake.table()
    files = scan_files(table, table.latest_or_not_found())
    up = [replace(e, file=e.file.upgraded(1)) for e in files]
    changes = ManifestChanges((*(e.as_delete() for e in files), *up))
    lake.append({"k": [1, 2, 11], "v": ["new", "new", "new"]})
    commit_changes(
        table,
        lambda _: changes,
        CommitRequest(user="broken", kind=CommitKind.COMPACT, check=False),
        env=ENV,
    )
    more = [e for e in scan_files(table, table.latest_or_not_found()) if e.file.level == 0]
    again = ManifestChanges(
        (*(e.as_delete() for e in more), *(replace(e, file=e.file.upgraded(1)) for e in more))
    )
    commit_changes(
        table,
        lambda _: again,
        CommitRequest(user="broken2", kind=CommitKind.COMPACT, check=False),
        env=ENV,
    )


def broken_tag(lake: Lake) -> None:
    table = lake.table()
    text = snapshot_to_json(replace(table.snapshots.get(2), base_manifest_list="gone"))
    Path(table.paths.tag("bad")).parent.mkdir(exist_ok=True)
    Path(table.paths.tag("bad")).write_text(text)
    Path(table.paths.tag("worse")).write_text("{")


def unreadable_newest(lake: Lake) -> None:
    Path(lake.table().paths.snapshot(4)).write_text("{")


def stale_vector(lake: Lake) -> None:
    """A vector of a file that a compaction has rewritten, as Java 1.4 leaves it."""
    table = lake.table()
    entry = scan_files(table, table.latest_or_not_found())[0]
    gone, stays = "data-gone-0.parquet", entry.file.file_name
    name = IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX, file_name="index-stale-0", file_size=0, row_count=0
    )
    path = table.paths.index_file(entry.partition, entry.bucket, name)
    vectors = {gone: np.array([0, 1]), stays: np.array([0])}
    written = write_deletion_vectors(table.io, path, vectors, bitmap64=False)
    added = IndexManifestEntry(FileKind.ADD, entry.partition, entry.bucket, written)
    commit_changes(
        table,
        lambda _: ManifestChanges((), (), (added,)),
        CommitRequest(user="broken", kind=CommitKind.COMPACT, check=False),
        env=ENV,
    )


CASES = {
    "hints": (wrong_hints, Problem.WRONG_HINT, "rewrite_hint"),
    "consumers": (lost_consumers, Problem.STALE_CONSUMER, "reset_consumer"),
    "sizes": (wrong_sizes, Problem.WRONG_SIZE, "correct_sizes"),
    "vectors": (stale_vector, Problem.VECTOR_WITHOUT_FILE, "drop_vectors"),
    "lost_file": (lost_file, Problem.MISSING_DATA_FILE, "remove_unexisting_files"),
    "overlap": (overlap, Problem.KEY_OVERLAP, "move_down"),
    "tag": (broken_tag, Problem.UNREADABLE, "delete_reference"),
    "snapshot": (unreadable_newest, Problem.UNREADABLE, "delete_reference"),
}
"""How it is broken, what is found, the name of the repair."""
