"""What lies on disk, and what is referenced: after expiry the two are the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, FileSource, ManifestEntry
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.reachability.files import (
    Metadata,
    Role,
    StoredFile,
    appended_is_changelog,
    data_files,
)
from paimon_core.reachability.references import Reference, RefKind, all_references
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Severity

FOLDERS = ("manifest", "index", "statistics")


def is_appended(entry: ManifestEntry) -> bool:
    """Whether the entry adds appended rows; a missing source counts as APPEND."""
    return entry.kind is FileKind.ADD and entry.file.file_source is not FileSource.COMPACT


def on_disk(root: Path) -> set[str]:
    """Data, index, statistics and manifest files below the table's root."""
    found = {str(p) for folder in FOLDERS for p in (root / folder).glob("*")}
    data = (p for p in root.rglob("bucket-*/*") if not p.name.startswith("."))
    return found | {str(p) for p in data if "caretaker" not in p.relative_to(root).parts}


def referenced(warehouse: Path, name: str = "db.t") -> set[str]:
    """The files that any reference of any branch needs."""
    table = open_table(str(warehouse), name)
    return needed_by(table, all_references(table))


def needed_by(table: FileStoreTable, references: Iterable[Reference]) -> set[str]:
    """The slow way: every reference's files, all read and merged."""
    metadata = Metadata(table)
    found: set[StoredFile] = set()
    for reference in references:
        paths, s = reference.table.paths, reference.snapshot
        lists: set[str | None] = set()
        first = s.id == reference.table.snapshots.earliest_id()
        for list_name in metadata.needed_lists(reference, first=first):
            lists.add(list_name)
            found.add(StoredFile(paths.manifest(list_name), Role.MANIFEST_LIST, None))
            for m in metadata.manifests(list_name):
                found.add(StoredFile(paths.manifest(m.file_name), Role.MANIFEST, None))
        if reference.kind is not RefKind.CHANGELOG:
            for e in live_entries(metadata.entries(metadata.data_manifests(s))):
                found.update(data_files(reference.table, e))
            if s.index_manifest:
                found.add(StoredFile(paths.manifest(s.index_manifest), Role.INDEX_MANIFEST, None))
                for i in metadata.index_entries(s.index_manifest):
                    path = paths.index_file(i.partition, i.bucket, i.index_file)
                    found.add(StoredFile(path, Role.INDEX, None))
            if s.statistics:
                found.add(StoredFile(paths.statistics(s.statistics), Role.STATISTICS, None))
        elif appended_is_changelog(reference):
            for e in metadata.entries(metadata.manifests(s.delta_manifest_list)):
                if is_appended(e):
                    found.update(data_files(reference.table, e))
        if reference.kind is not RefKind.TAG and s.changelog_manifest_list in lists:
            for e in metadata.entries(metadata.manifests(s.changelog_manifest_list)):
                found.update(data_files(reference.table, e))
    return {f.path for f in found}


def assert_whole(warehouse: Path, name: str = "db.t") -> None:
    """Verification finds no error."""
    found = check_table(open_table(str(warehouse), name)).findings
    assert [f for f in found if f.severity is Severity.ERROR] == []


def assert_no_leftovers(warehouse: Path, name: str = "db.t") -> None:
    """Verification finds no error, and every file is needed."""
    assert_whole(warehouse, name)
    database, table = name.split(".")
    root = warehouse / f"{database}.db" / table
    assert on_disk(root) == referenced(warehouse, name)
    assert not list(root.glob("caretaker/*/*"))
