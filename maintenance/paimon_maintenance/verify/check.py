"""Verifies a table: all referenced files exist and are consistent.

1. Walk the references (snapshots, tags, changelogs of every branch) and their metadata files.
2. Collect the data, changelog and index files that they need.  The newest snapshot of each branch,
   tags, and snapshots without a direct predecessor are read in full; for other snapshots, only the
   added files.  For a sample of the newest files, compare statistics with rows.
3. List the folders of these files and compare names and sizes; count rows from footers.
4. Drop findings about references that expired during the check.

The checks interpret only metadata, so they also work on tables with unsupported features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import (
    FileSource,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.entries.columns import KEYS, EntryColumns, columns_of, distinct
from paimon_core.reachability.files import appended_is_changelog
from paimon_core.reachability.references import ListOwners
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.job.job import NoProgress, Progress
from paimon_maintenance.verify.collector import Collector
from paimon_maintenance.verify.findings import Finding, Problem, Severity
from paimon_maintenance.verify.hints import check_consumers, check_hints
from paimon_maintenance.verify.invariants import (
    check_live_files,
    next_row_id,
    record_total,
    replaced_columns,
    vectors_without_file,
)
from paimon_maintenance.verify.inventory import Inventory
from paimon_maintenance.verify.keys import check_keys, has_assigned_buckets
from paimon_maintenance.verify.live import added_files, live_files
from paimon_maintenance.verify.metadata import COLUMNS, Metadata
from paimon_maintenance.verify.references import Reference, RefKind, each_branch, references_of
from paimon_maintenance.verify.required_files import RequiredFiles
from paimon_maintenance.verify.share import MOST_ENTRIES, Share, concerns
from paimon_maintenance.verify.statistics import check_statistics, sample

_REFERENCES_AT_ONCE = 64
_EVERY_PARTITION = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a verification.

    `snapshots`: check only the files that these snapshots of the own branch added; None: check all
    references of all branches.  `rows`: open every data file to count its rows.  `deep`: decode
    every data file with this number of threads, and compare the statistics of all live files with
    their rows.  `keys`: read the keys of tables with dynamic buckets.
    """

    snapshots: frozenset[int] | None = None
    rows: bool = True
    keys: bool = False
    deep: bool = False
    parallelism: int = 1

    @classmethod
    def of_snapshots(cls, ids: Iterable[int]) -> Scope:
        """The scope for a check right after a run committed these snapshots."""
        return cls(snapshots=frozenset(ids), rows=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The findings, most severe first, and the number of checked items by kind."""

    findings: list[Finding]
    checked: Mapping[str, int]

    @property
    def clean(self) -> bool:
        """Whether no finding is an error."""
        return not any(f.severity is Severity.ERROR for f in self.findings)

    def to_json(self) -> dict[str, object]:
        """The result as JSON for `caretaker verify --json`."""
        return {
            "clean": self.clean,
            "checked": dict(self.checked),
            "counts": dict(Counter(str(f.severity) for f in self.findings)),
            "findings": [f.to_json() for f in self.findings],
        }


def check_table(
    table: FileStoreTable, scope: Scope | None = None, progress: Progress | None = None
) -> Verification:
    """Verify the table within the scope, by default the whole table.

    Changes nothing.  Raises only errors of the store; problems of the files are findings.
    """
    scope = scope or Scope()
    walk = _Walk(table, samples=scope.rows, keys=scope.keys, deep=scope.deep)
    if scope.snapshots is None:
        for name, branch in each_branch(table):
            if isinstance(branch, FileStoreTable):
                walk.branch(branch)
            else:
                walk.collector.broken_branch(name, branch)
    else:
        walk.some_snapshots(table, scope.snapshots)
    walk.files.look(count=scope.rows)
    if scope.deep:
        walk.files.decode(scope.parallelism, progress or NoProgress())
    return Verification(findings=walk.collector.final(), checked=walk.collector.checked)


@dataclass(slots=True)
class _Walk:
    """A verification in progress."""

    table: FileStoreTable
    collector: Collector = field(default_factory=Collector)
    metadata: Metadata = field(init=False)
    files: RequiredFiles = field(init=False)
    samples: bool = False
    keys: bool = False
    deep: bool = False
    newest: set[str] = field(default_factory=set)
    """The newest snapshot of each branch; for its files, content is checked too."""
    owners: ListOwners = field(default_factory=ListOwners)

    def __post_init__(self) -> None:
        io, inventory = self.table.io, Inventory(self.table.io)
        self.metadata = Metadata(io, self.collector, inventory)
        self.files = RequiredFiles(io, self.collector, inventory)

    def branch(self, branch: FileStoreTable) -> None:
        """Check all references of one branch."""
        self.collector.checked["branches"] += 1
        references: list[Reference] = []
        for found in references_of(branch):
            if isinstance(found, CorruptTable):
                self.collector.unreadable_reference(branch, found)
            else:
                references.append(found)
        snapshots = [r.snapshot for r in references if r.kind is RefKind.SNAPSHOT]
        ids = {s.id for s in snapshots}
        first = min(ids, default=None)
        alive = {s.identity for s in snapshots}
        whole = {
            r.label
            for r in references
            if (r.kind is RefKind.TAG and r.snapshot.identity not in alive)
            # The snapshot before, if it exists, covers the files that this one took over.
            or (
                r.kind is RefKind.SNAPSHOT
                and (r.snapshot.id == max(ids) or r.snapshot.id - 1 not in ids)
            )
        }
        newest = str(max(ids, default=None))
        self.newest |= {
            r.label for r in references if r.kind is RefKind.SNAPSHOT and r.name == newest
        }
        for start in range(0, len(references), _REFERENCES_AT_ONCE):
            part = references[start : start + _REFERENCES_AT_ONCE]
            self.metadata.read_ahead(part)
            for reference in part:
                self.reference(reference, whole=reference.label in whole, first=first)
        begun = branch.branches.begun(branch.branch)
        if begun is not None:
            self.collector.unfinished_branch(branch, begun)
        self.collector.extend(check_hints(branch, sorted(branch.snapshots.ids())))
        self.collector.extend(check_consumers(branch, sorted(ids)))

    def some_snapshots(self, table: FileStoreTable, ids: Iterable[int]) -> None:
        """Check only the changes of these snapshots."""
        first = table.snapshots.earliest_id()
        for snapshot_id in sorted(ids):
            snapshot = table.snapshots.get_or_none(snapshot_id)
            if snapshot is not None:
                self.reference(
                    Reference(
                        table=table,
                        kind=RefKind.SNAPSHOT,
                        name=str(snapshot_id),
                        snapshot=snapshot,
                    ),
                    whole=False,
                    first=first,
                )

    def reference(self, reference: Reference, *, whole: bool, first: int | None) -> None:
        """Check the metadata of one reference and collect the files that it needs.

        `first` is the oldest snapshot of the branch.
        """
        self.collector.begin(reference)
        snapshot = reference.snapshot
        if reference.kind is not RefKind.TAG and reference.name != str(snapshot.id):
            message = f"the file of {reference.label} holds snapshot {snapshot.id}"
            self.collector.error(reference, Problem.WRONG_ID, message)
        shared = self.owners.shared(reference)
        if shared is not None:
            path = reference.table.paths.manifest(shared.name)
            self.collector.error(reference, Problem.SHARED_LIST, shared.problem, file=path)
        self.metadata.schema(reference, snapshot.schema_id)
        if reference.kind is RefKind.CHANGELOG:
            self.changelog(reference)
        else:
            self.snapshot(reference, whole=whole, first=snapshot.id == first)

    def snapshot(self, reference: Reference, *, whole: bool, first: bool) -> None:
        """Check a snapshot or tag: manifests, live files, changelog, index and statistics."""
        paths, snapshot, metadata = reference.table.paths, reference.snapshot, self.metadata
        base = metadata.manifests_of(
            reference, snapshot.base_manifest_list, snapshot.base_manifest_list_size
        )
        delta = metadata.manifests_of(
            reference, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        for meta in (*(base or ()), *(delta or ())):
            metadata.present(reference, paths.manifest(meta.file_name), meta.file_size)
        self.collector.extend(next_row_id(reference, (*(base or ()), *(delta or ()))))
        index: Sequence[IndexManifestEntry] | None = None
        if snapshot.index_manifest is not None:
            index = self.index(reference, snapshot.index_manifest)
        if delta is not None and not whole:
            changes = metadata.changes(reference, delta)
            if changes is not None:
                # Older snapshots added the other files.
                self.need(reference, added_files(changes))
        elif delta is not None and base is not None:
            self.live(reference, [*base, *delta], index or ())
        if reference.kind is RefKind.SNAPSHOT and not (first and self.lost_changelog(reference)):
            self.changelog_files(reference)
        if snapshot.statistics is not None:
            path = paths.statistics(snapshot.statistics)
            metadata.present(reference, path, None, problem=Problem.MISSING_STATISTICS)

    def live(
        self,
        reference: Reference,
        metas: Sequence[ManifestFileMeta],
        index: Sequence[IndexManifestEntry],
    ) -> None:
        """Check and collect all live files of a snapshot, a share of its partitions at a time."""
        newest = reference.label in self.newest
        with_keys = self.keys and newest and has_assigned_buckets(reference.table)
        sampling = self.samples and newest
        entries = sum(m.num_added_files + m.num_deleted_files for m in metas)
        shares, manifests = [Share(range(_EVERY_PARTITION))], {}
        # Keys across partitions are compared with each other.
        whole = with_keys and reference.table.bucket_mode is BucketMode.CROSS_PARTITION
        if entries > MOST_ENTRIES and not whole:
            self.metadata.forget_ahead()
            counts = self.metadata.counts(reference, metas)
            if counts is None:
                return
            shares, manifests = counts.shares(), counts.manifests
        with_vectors = {(e.partition, e.bucket) for e in index if e.index_file.dv_ranges}
        beside_vectors: set[tuple[bytes, int, str]] = set()
        sampled: list[ManifestEntry] = []
        rows = 0
        schemas: set[int] = set()
        for share in shares:
            mine = [
                m
                for m in metas
                if concerns(share, reference.table.paths.manifest(m.file_name), manifests)
            ]
            live, objects = self.live_share(
                reference, mine, share, with_objects=with_keys or sampling
            )
            if live is None:
                return
            rows += int(live.numbers["row_count"].sum())
            schemas.update(distinct(live.numbers["schema_id"]).tolist())
            beside_vectors.update(_names_in(live, with_vectors))
            if with_keys:
                compared = check_keys(reference, objects)
                self.collector.checked["keys"] += compared.keys
                self.collector.extend(compared.findings)
            if sampling:
                sampled = objects if self.deep else sample([*sampled, *objects])
                if self.deep or share is shares[-1]:
                    self.collector.checked["sampled files"] += len(sampled)
                    self.collector.extend(check_statistics(reference, sampled))
        self.collector.extend(record_total(reference, rows))
        self.collector.extend(replaced_columns(reference, schemas, newest=newest))
        self.collector.extend(vectors_without_file(reference, index, beside_vectors))

    def live_share(
        self,
        reference: Reference,
        metas: Sequence[ManifestFileMeta],
        share: Share,
        *,
        with_objects: bool,
    ) -> tuple[EntryColumns | None, list[ManifestEntry]]:
        """Check and collect the live files of a share, in columns and, if wanted, as objects.

        None, with findings, if the manifests are unreadable.
        """
        table = reference.table
        wanted = [*COLUMNS, *(KEYS if table.has_primary_key else ())]
        if has_data_evolution(table):
            wanted.append("first_row_id")
        entries: EntryColumns | None
        objects: list[ManifestEntry] = []
        if with_objects:
            read = self.metadata.objects(reference, metas, share)
            objects = read or []
            partitions = self.metadata.partitions
            entries = None if read is None else columns_of(read, partitions, wanted)
        else:
            entries = self.metadata.columns(reference, metas, wanted, share)
        if entries is None:
            return None, []
        try:
            live = live_files(entries)
        except CorruptTable as e:
            self.collector.error(reference, Problem.CONTRADICTING_ENTRIES, e.message, file=e.file)
            return None, []
        del entries
        self.collector.extend(check_live_files(reference, live))
        self.need(reference, live.files)
        return live.files, [objects[i] for i in live.positions] if with_objects else []

    def changelog(self, reference: Reference) -> None:
        """Check a long-lived changelog (java-rules H4)."""
        snapshot = reference.snapshot
        if snapshot.changelog_manifest_list is not None:
            self.changelog_files(reference)
            return
        if snapshot.commit_kind is CommitKind.COMPACT or not appended_is_changelog(reference):
            return
        # Without changelog files, the appended rows are the changelog.
        entries = self.entries_of_list(
            reference, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        if entries is not None:
            appended = entries.numbers["file_source"] != FileSource.COMPACT
            self.need(reference, entries.take(np.flatnonzero(appended)))

    def lost_changelog(self, reference: Reference) -> bool:
        """Whether the first snapshot of a branch lacks its changelog manifest list; adds a finding.

        Java creates such a snapshot from a tag, in a rollback to a tag whose snapshot has expired,
        or when the first snapshot of a branch expires.  All rows exist, and readers do not need the
        changelog of an expired snapshot.
        """
        name = reference.snapshot.changelog_manifest_list
        if name is None:
            return False
        path = reference.table.paths.manifest(name)
        if self.metadata.inventory.size(path) is not None:
            return False
        message = (
            f"the changelog of {reference.label}, the first of its branch, is missing: it was created "
            "from a tag whose snapshot has expired; only streaming reads that start there fail"
        )
        self.collector.note(reference, Problem.LOST_CHANGELOG, message, file=path)
        return True

    def changelog_files(self, reference: Reference) -> None:
        """Check the changelog manifests and collect the changelog files."""
        snapshot = reference.snapshot
        if snapshot.changelog_manifest_list is not None:
            entries = self.entries_of_list(
                reference,
                snapshot.changelog_manifest_list,
                snapshot.changelog_manifest_list_size,
            )
            if entries is not None:
                self.need(reference, entries, missing=Problem.MISSING_CHANGELOG_FILE)

    def entries_of_list(
        self, reference: Reference, name: str, size: int | None
    ) -> EntryColumns | None:
        """The ADD entries of all manifests of a list; None, with findings, if one is broken."""
        metas = self.metadata.manifests_of(reference, name, size) or []
        for meta in metas:
            path = reference.table.paths.manifest(meta.file_name)
            self.metadata.present(reference, path, meta.file_size)
        entries = self.metadata.changes(reference, metas)
        return None if entries is None else entries.take(np.flatnonzero(entries.added))

    def index(self, reference: Reference, name: str) -> Sequence[IndexManifestEntry] | None:
        """Check the index manifest, collect its index files, and return its entries."""
        entries = self.metadata.index_entries(reference, name)
        for entry in entries or ():
            self.files.note_index(reference, entry)
        return entries

    def need(
        self,
        reference: Reference,
        files: EntryColumns,
        *,
        missing: Problem = Problem.MISSING_DATA_FILE,
    ) -> None:
        """Collect files and the schemas that they need."""
        for schema_id in self.files.note(reference, files, missing=missing):
            self.metadata.schema(reference, schema_id)


def _names_in(
    files: EntryColumns, buckets: AbstractSet[tuple[bytes, int]]
) -> Iterator[tuple[bytes, int, str]]:
    """Yield partition, bucket and name of the files of these buckets."""
    codes = [files.partitions.find(partition) for partition, _ in buckets]
    there = np.isin(files.partition, [c for c in codes if c is not None])
    for position in np.flatnonzero(there).tolist():
        file = files.located(position)
        if (file.partition, file.bucket) in buckets:
            yield file.partition, file.bucket, file.file_name
