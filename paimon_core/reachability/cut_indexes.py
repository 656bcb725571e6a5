"""Detects truncated index manifests of the remaining references.

A manifest list stores the number of entries of each manifest, and a snapshot the size of each list.
But no metadata stores the number of entries of an index manifest.  One that was truncated between
two blocks of its Avro file reads like a complete one, and index files of the lost entries would
look like garbage.  The removed references show which entries it should have:

- a data file that had deletion vectors has some as long as it is live;
- a bucket with a hash index has one as long as it has files.

Only index manifests that end like a truncated one are checked (`IndexEntries.may_be_cut`), because
a rollback to older content also removes deletion vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_core.errors import CorruptTable
from paimon_core.index.hash_index import HASH_INDEX
from paimon_core.manifest.data_file import IndexManifestEntry
from paimon_core.reachability.files import Metadata
from paimon_core.reachability.references import Reference, RefKind
from paimon_core.scan.columns import scan_columns


def check_indexes(
    going: Sequence[Reference], staying: Sequence[Reference], metadata: Metadata
) -> None:
    """Raise CorruptTable if an index manifest in `staying` lacks entries of one in `going`."""
    going = [r for r in going if _names_index(r)]
    oldest = min((r.snapshot.id for r in going), default=None)
    checked: set[str] = set()
    for reference in staying:
        name = reference.snapshot.index_manifest
        if name is None or name in checked or oldest is None or not _names_index(reference):
            continue
        checked.add(name)
        found = metadata.index_entries(name)
        if not found.may_be_cut:
            continue
        earlier = [
            entry
            for r in going
            if r.snapshot.id < reference.snapshot.id and r.table.branch == reference.table.branch
            for entry in metadata.index_entries_if_readable(r.snapshot.index_manifest or "")
        ]
        if earlier:
            _check(reference, found, earlier)


def _names_index(reference: Reference) -> bool:
    return reference.kind is not RefKind.CHANGELOG and reference.snapshot.index_manifest is not None


def _check(
    reference: Reference, found: Sequence[IndexManifestEntry], earlier: Sequence[IndexManifestEntry]
) -> None:
    table, snapshot = reference.table, reference.snapshot
    live = scan_columns(table, snapshot)
    files = set(_vectors(earlier)) - set(_vectors(found))
    lost = next((name for i in range(len(live)) if (name := live.name(i)) in files), None)
    what = f"deletion vectors of the data file {lost}"
    if lost is None:
        buckets = {(e.partition, e.bucket) for e in earlier if _is_hash(e)}
        buckets -= {(e.partition, e.bucket) for e in found if _is_hash(e)}
        places = (live.located(i) for i in range(len(live))) if buckets else ()
        bucket = next((p.bucket for p in places if (p.partition, p.bucket) in buckets), None)
        if bucket is None:
            return
        what = f"the hash index of bucket {bucket}"
    assert snapshot.index_manifest is not None
    path = table.paths.manifest(snapshot.index_manifest)
    raise CorruptTable(
        f"index manifest {path} of table {table.name} has lost entries: it does not name {what}, as an "
        "older one does",
        table=table.name,
        file=path,
        snapshot=snapshot.id,
        next_step="restore the file from a backup, or roll back to an older snapshot",
    )


def _vectors(entries: Sequence[IndexManifestEntry]) -> list[str]:
    """Return the data files that have deletion vectors."""
    return [r.data_file for e in entries for r in e.index_file.dv_ranges or ()]


def _is_hash(entry: IndexManifestEntry) -> bool:
    return entry.index_file.index_type == HASH_INDEX
