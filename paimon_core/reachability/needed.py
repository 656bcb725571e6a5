"""The last check before files are deleted: the newest snapshot must need none of them.

It repeats what `find_garbage` has found out, from the newest snapshot's own metadata.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.entries.columns import EntryColumns, as_flags
from paimon_core.reachability.files import Metadata, listed_names, paths_of
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import Reference, snapshot_reference
from paimon_core.reachability.stored_files import StoredFiles
from paimon_core.scan.columns import scan_columns


def check_not_needed(table: FileStoreTable, files: StoredFiles) -> None:
    """Raise CorruptTable if the newest snapshot needs one of the files."""
    latest = table.snapshots.latest() if files else None
    if latest is None:
        return
    needed = needed_files(snapshot_reference(table, latest), scan_columns(table, latest), files)
    if needed:
        raise CorruptTable(
            f"nothing was deleted: the newest snapshot of table {table.name} needs {len(needed)} of "
            "the files that were found to be garbage",
            table=table.name,
            file=needed[0],
            snapshot=latest.id,
            next_step="run `caretaker verify` on the table",
        )


def needed_files(newest: Reference, live: EntryColumns, garbage: StoredFiles) -> tuple[str, ...]:
    """Return the paths of garbage files that the newest snapshot with these live files needs."""
    kept = _live_paths(newest.table, live, NameSet(garbage.names)) | _metadata_paths(newest)
    names = NameSet.of(path.rsplit("/", 1)[-1] for path in kept)
    same_name = garbage.take(np.flatnonzero(names.left(garbage.names)))
    return tuple(f.path for f in same_name if f.path in kept)


def _live_paths(table: FileStoreTable, live: EntryColumns, names: NameSet) -> set[str]:
    """Return the paths of live files with these names, and of those with more than a name."""
    # A slice of a joined changelog file is stored under another name.
    chosen = names.left(live.names) | as_flags(pc.match_substring(live.names, "$"))
    chosen[list(live.rare)] = True
    return {path for i in np.flatnonzero(chosen).tolist() for path in paths_of(table, live, i)}


def _metadata_paths(reference: Reference) -> set[str]:
    """Return the paths of the lists, manifests, indexes and statistics of a snapshot."""
    table, snapshot = reference.table, reference.snapshot
    paths = table.paths
    found = {paths.manifest(name) for name, _ in listed_names(reference)}
    manifests = Metadata(table).data_manifests(snapshot)
    found.update(paths.manifest(meta.file_name) for meta in manifests)
    if snapshot.index_manifest is not None:
        found.add(paths.manifest(snapshot.index_manifest))
        for entry in table.index_entries(snapshot):
            found.add(paths.index_file(entry.partition, entry.bucket, entry.index_file))
    if snapshot.statistics is not None:
        found.add(paths.statistics(snapshot.statistics))
    return found
