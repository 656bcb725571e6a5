"""Verification of a table: does everything that is referred to exist, and does it fit together?

1. Walk the references (snapshots, tags, changelogs of every branch) and their metadata files.
2. Collect the data, changelog and index files that they need.  A full list is merged for each
   branch's oldest and newest snapshot and for tags; in between, what each snapshot added.
3. List the folders of these files and compare names and sizes; count rows from footers.
4. Drop findings about references that expired while we looked.

Only metadata is interpreted, so tables with features that cannot be read are verified as well.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from maintenance.jobs.verify.findings import Finding, Problem, Repair, Severity
from maintenance.jobs.verify.footers import count_rows
from maintenance.jobs.verify.hints import check_consumers, check_hints
from maintenance.jobs.verify.invariants import (
    check_live_files,
    partition_text,
    vectors_without_file,
)
from maintenance.jobs.verify.inventory import Inventory
from maintenance.jobs.verify.references import Reference, RefKind, branches_of, references_of
from paimon_core.errors import CorruptTable, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import map_parallel
from paimon_core.manifest.data_file import (
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.manifest.manifest_file import read_manifest
from paimon_core.manifest.manifest_list import read_manifest_list
from paimon_core.manifest.merge_entries import live_entries
from paimon_core.options import CHANGELOG_PRODUCER
from paimon_core.snapshot.snapshot import CommitKind

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What to look at.

    `snapshots`: only these of the table's own branch, and only what they added; None: all
    references of all branches.  `rows`: open every data file to count its rows.
    """

    snapshots: frozenset[int] | None = None
    rows: bool = True

    @classmethod
    def of_snapshots(cls, ids: Iterable[int]) -> Scope:
        """What to look at right after a run committed these snapshots."""
        return cls(snapshots=frozenset(ids), rows=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found, worst first, and how much was looked at, by kind."""

    findings: list[Finding]
    checked: Mapping[str, int]

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong: no finding is an error."""
        return not any(f.severity is Severity.ERROR for f in self.findings)

    def to_json(self) -> dict[str, object]:
        """The result as `caretaker verify --json` prints it."""
        return {
            "clean": self.clean,
            "checked": dict(self.checked),
            "counts": dict(Counter(str(f.severity) for f in self.findings)),
            "findings": [f.to_json() for f in self.findings],
        }


def check_table(table: FileStoreTable, scope: Scope | None = None) -> Verification:
    """The verification of the table within the scope; the whole table by default.

    Nothing is changed.  Errors are those of the store; whatever the table's own files do wrong is
    a finding.
    """
    scope = scope or Scope()
    walk = _Walk(table, scope)
    if scope.snapshots is None:
        for branch in branches_of(table):
            walk.branch(branch)
    else:
        walk.some_snapshots(table, scope.snapshots)
    walk.files()
    findings = [f for f in walk.findings if walk.still_matters(f)]
    order = list(Severity)
    findings.sort(key=lambda f: (order.index(f.severity), f.snapshot or 0, f.message))
    return Verification(findings=findings, checked=walk.checked)


@dataclass(frozen=True, slots=True)
class _Needed:
    """A file that a reference needs, and how a finding about it is to be called."""

    path: str
    size: int
    reference: Reference
    missing: Problem
    entry: ManifestEntry | None = None


@dataclass(slots=True)
class _Walk:
    """A verification under way."""

    table: FileStoreTable
    scope: Scope
    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    references: dict[str, Reference] = field(default_factory=dict)
    needed: dict[str, _Needed] = field(default_factory=dict)
    lists: dict[str, list[ManifestFileMeta] | None] = field(default_factory=dict)
    decoded: dict[str, Sequence[ManifestEntry] | None] = field(default_factory=dict)
    schemas: set[str] = field(default_factory=set)
    inventory: Inventory = field(init=False)

    def __post_init__(self) -> None:
        self.inventory = Inventory(self.table.io)

    # --- references ---------------------------------------------------------------------------

    def branch(self, branch: FileStoreTable) -> None:
        """Check all references of one branch."""
        self.checked["branches"] += 1
        references = []
        walking = references_of(branch)
        while True:
            try:
                references.append(next(walking))
            except StopIteration:
                break
            except CorruptTable as e:
                self.unreadable(e, branch)
                break
        ids = [r.snapshot.id for r in references if r.kind is RefKind.SNAPSHOT]
        alive = {r.snapshot.identity for r in references if r.kind is RefKind.SNAPSHOT}
        for reference in references:
            snapshot = reference.snapshot
            if reference.kind is RefKind.SNAPSHOT:
                # What a snapshot took over is covered by the one before it, if that is there.
                whole = snapshot.id == max(ids) or snapshot.id - 1 not in ids
            else:
                whole = reference.kind is RefKind.TAG and snapshot.identity not in alive
            self.reference(reference, whole=whole)
        self.findings += check_hints(branch, ids)
        self.findings += check_consumers(branch, ids)

    def some_snapshots(self, table: FileStoreTable, ids: Iterable[int]) -> None:
        """Check these snapshots, their own changes only."""
        for snapshot_id in sorted(ids):
            try:
                snapshot = table.snapshots.get(snapshot_id)
            except NotFound:
                continue
            name = str(snapshot_id)
            self.reference(
                Reference(table=table, kind=RefKind.SNAPSHOT, name=name, snapshot=snapshot),
                whole=False,
            )

    def reference(self, reference: Reference, *, whole: bool) -> None:
        """Check one reference's metadata, and note the files that it needs."""
        self.references[reference.label] = reference
        self.checked[f"{reference.kind}s"] += 1
        snapshot = reference.snapshot
        if reference.kind is not RefKind.TAG and reference.name != str(snapshot.id):
            self.find(
                reference,
                Problem.WRONG_ID,
                f"the file of {reference.label} holds snapshot {snapshot.id}",
            )
        self.schema(reference, snapshot.schema_id)
        if reference.kind is RefKind.CHANGELOG:
            self.changelog(reference)
            return
        self.snapshot(reference, whole=whole)

    def schema(self, reference: Reference, schema_id: int) -> None:
        """Check that a schema is there and can be read, once a branch."""
        table = reference.table
        path = table.paths.schema(schema_id)
        if path in self.schemas:
            return
        self.schemas.add(path)
        if self.present(reference, path, None, problem=Problem.MISSING_SCHEMA):
            try:
                table.schemas.get(schema_id)
            except CorruptTable as e:
                self.find(reference, Problem.UNREADABLE, e.message, file=e.file)

    def snapshot(self, reference: Reference, *, whole: bool) -> None:
        """Check a snapshot or tag: its manifests, index, statistics, live files, changelog."""
        table, snapshot = reference.table, reference.snapshot
        live: list[ManifestEntry] | None = None
        base = self.manifests_of(
            reference, snapshot.base_manifest_list, snapshot.base_manifest_list_size
        )
        delta = self.manifests_of(
            reference, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        if base is not None and delta is not None:
            for meta in (*base, *delta):
                self.present(reference, table.paths.manifest(meta.file_name), meta.file_size)
            entries = self.entries(reference, [*base, *delta] if whole else delta)
            if whole and entries is not None:
                live = self.live(reference, entries)
            elif entries is not None:
                self.added(reference, entries)
        if reference.kind is RefKind.SNAPSHOT and snapshot.changelog_manifest_list is not None:
            self.changelog_files(reference)
        if snapshot.index_manifest is not None:
            self.index(reference, snapshot.index_manifest, live)
        if snapshot.statistics is not None:
            path = table.paths.statistics(snapshot.statistics)
            self.present(reference, path, None, problem=Problem.MISSING_STATISTICS)

    def live(
        self, reference: Reference, entries: Sequence[ManifestEntry]
    ) -> list[ManifestEntry] | None:
        """Check and note all live files of a snapshot; None if they cannot be told."""
        try:
            live = live_entries(entries)
        except CorruptTable as e:
            self.find(reference, Problem.CONTRADICTING_ENTRIES, e.message, file=e.file)
            return None
        self.findings += check_live_files(reference, live)
        for entry in live:
            self.need(reference, entry)
        return live

    def added(self, reference: Reference, entries: Sequence[ManifestEntry]) -> None:
        """Note what a snapshot added: what it only took over was added by an older one."""
        gone = {e.identity for e in entries if e.kind is FileKind.DELETE}
        for entry in entries:
            if entry.kind is FileKind.ADD and entry.identity not in gone:
                self.need(reference, entry)

    def changelog(self, reference: Reference) -> None:
        """Check a changelog that outlived its snapshot (JAVA_RULES H4)."""
        snapshot = reference.snapshot
        if snapshot.changelog_manifest_list is not None:
            self.changelog_files(reference)
            return
        producer = reference.table.options.value(CHANGELOG_PRODUCER)
        if producer != "none" or snapshot.commit_kind is CommitKind.COMPACT:
            return
        # Without changelog files, the rows that writers appended are the changelog.
        delta = self.manifests_of(
            reference, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        for entry in self.entries(reference, delta or []) or ():
            if entry.kind is FileKind.ADD and entry.file.file_source is not FileSource.COMPACT:
                self.need(reference, entry)

    def changelog_files(self, reference: Reference) -> None:
        """Check the changelog manifests, and note the changelog files."""
        snapshot = reference.snapshot
        name = snapshot.changelog_manifest_list
        if name is None:
            return
        metas = self.manifests_of(reference, name, snapshot.changelog_manifest_list_size)
        for entry in self.entries(reference, metas or []) or ():
            self.need(reference, entry, problem=Problem.MISSING_CHANGELOG_FILE)

    # --- metadata files -----------------------------------------------------------------------

    def manifests_of(
        self, reference: Reference, name: str, size: int | None
    ) -> list[ManifestFileMeta] | None:
        """The manifests of a manifest list; None, and a finding, if it cannot be had."""
        path = reference.table.paths.manifest(name)
        if not self.present(reference, path, size, problem=Problem.MISSING_MANIFEST_LIST):
            return None
        if name not in self.lists:
            try:
                self.lists[name] = read_manifest_list(self.table.io, path)
            except (CorruptTable, FileNotFoundError) as e:
                self.lists[name] = None
                self.find(reference, Problem.UNREADABLE, str(e), file=path)
        return self.lists[name]

    def entries(
        self, reference: Reference, metas: Iterable[ManifestFileMeta]
    ) -> list[ManifestEntry] | None:
        """The entries of these manifests in order; None if one of them cannot be had."""
        result: list[ManifestEntry] = []
        complete = True
        for meta in metas:
            path = reference.table.paths.manifest(meta.file_name)
            if not self.present(reference, path, meta.file_size):
                complete = False
                continue
            if meta.file_name not in self.decoded:
                self.decoded[meta.file_name] = self.read_manifest(reference, path)
            entries = self.decoded[meta.file_name]
            if entries is None:
                complete = False
            else:
                result += entries
        return result if complete else None

    def read_manifest(self, reference: Reference, path: str) -> Sequence[ManifestEntry] | None:
        """The entries of one manifest; None, and a finding, if it cannot be read."""
        try:
            return read_manifest(self.table.io, path)
        except (CorruptTable, FileNotFoundError) as e:
            self.find(reference, Problem.UNREADABLE, str(e), file=path)
            return None

    def index(self, reference: Reference, name: str, live: Sequence[ManifestEntry] | None) -> None:
        """Check the index manifest and note its index files."""
        table = reference.table
        path = table.paths.manifest(name)
        if not self.present(reference, path, None, problem=Problem.MISSING_INDEX_MANIFEST):
            return
        try:
            entries = read_index_manifest(table.io, path)
        except (CorruptTable, FileNotFoundError) as e:
            self.find(reference, Problem.UNREADABLE, str(e), file=path)
            return
        for entry in entries:
            file = entry.index_file
            index_path = table.paths.index_file(entry.partition, entry.bucket, file)
            self.needed.setdefault(
                index_path,
                _Needed(index_path, file.file_size, reference, Problem.MISSING_INDEX_FILE),
            )
        if live is not None:
            self.findings += vectors_without_file(reference, entries, live)

    def present(
        self,
        reference: Reference,
        path: str,
        size: int | None,
        *,
        problem: Problem = Problem.MISSING_MANIFEST,
    ) -> bool:
        """Whether a metadata file is there and has the size that was noted; else a finding."""
        self.checked["metadata files"] += 1
        found = self.inventory.size(path)
        if found is None:
            self.find(
                reference, problem, f"{reference.label} needs {path}, which is missing", file=path
            )
            return False
        if size is not None and found != size:
            self.find(
                reference,
                Problem.WRONG_SIZE,
                f"{path} has {found:,} bytes, {reference.label} says {size:,}",
                file=path,
            )
        return True

    # --- data files ---------------------------------------------------------------------------

    def need(
        self,
        reference: Reference,
        entry: ManifestEntry,
        *,
        problem: Problem = Problem.MISSING_DATA_FILE,
    ) -> None:
        """Note a file, and those beside it, to be looked for in the end."""
        paths, file = reference.table.paths, entry.file
        path = paths.data_file(entry.partition, entry.bucket, file)
        if path in self.needed:
            return
        self.needed[path] = _Needed(path, file.file_size, reference, problem, entry)
        self.schema(reference, file.schema_id)
        for extra in file.extra_files:
            extra_path = paths.extra_file(entry.partition, entry.bucket, file, extra)
            self.needed.setdefault(
                extra_path,
                _Needed(extra_path, -1, reference, Problem.MISSING_EXTRA_FILE, entry),
            )

    def files(self) -> None:
        """Look for all files that were noted."""
        self.inventory.prefetch(self.needed)
        present = []
        for need in self.needed.values():
            self.checked["files"] += 1
            found = self.inventory.size(need.path)
            if found is None:
                self.find_file(need, need.missing, f"{need.path} is missing")
                continue
            self.checked["bytes"] += found
            if need.size >= 0 and found != need.size:
                self.find_file(
                    need,
                    Problem.WRONG_SIZE,
                    f"{need.path} has {found:,} bytes, the manifest says {need.size:,}",
                )
            present.append(need)
        if self.scope.rows:
            data = [n for n in present if n.entry is not None and n.size >= 0]
            for need, outcome in zip(
                data, map_parallel(self.table.io, self.rows_of, data), strict=True
            ):
                self.compare_rows(need, outcome)

    def rows_of(self, need: _Needed) -> int | CorruptTable | None:
        """The rows of a file, or what is wrong with it; None if there is nothing to compare."""
        try:
            return count_rows(self.table.io, need.path)
        except FileNotFoundError:
            return None  # gone since it was listed: the reference has expired
        except CorruptTable as e:
            return e

    def compare_rows(self, need: _Needed, outcome: int | CorruptTable | None) -> None:
        """A finding if the rows are not as many as the manifest says."""
        if outcome is None or need.entry is None:
            return
        if isinstance(outcome, CorruptTable):
            self.find_file(need, Problem.UNREADABLE, outcome.message)
            return
        self.checked["rows"] += outcome
        if outcome != need.entry.file.row_count:
            self.find_file(
                need,
                Problem.WRONG_ROW_COUNT,
                f"{need.path} holds {outcome:,} rows, the manifest says "
                f"{need.entry.file.row_count:,}",
            )

    # --- findings -----------------------------------------------------------------------------

    def find(
        self, reference: Reference, problem: Problem, message: str, *, file: str | None = None
    ) -> None:
        """Note an error about a reference's metadata."""
        self.findings.append(
            Finding(
                problem=problem,
                severity=Severity.ERROR,
                message=message,
                reference=reference.label,
                branch=reference.table.branch,
                snapshot=reference.snapshot.id,
                file=file,
                repair=_repair_of(reference),
            )
        )

    def find_file(self, need: _Needed, problem: Problem, message: str) -> None:
        """Note an error about a file that a reference needs."""
        reference, entry = need.reference, need.entry
        self.findings.append(
            Finding(
                problem=problem,
                severity=Severity.ERROR,
                message=f"{message} (needed by {reference.label})",
                reference=reference.label,
                branch=reference.table.branch,
                snapshot=reference.snapshot.id,
                partition=None
                if entry is None
                else partition_text(reference.table, entry.partition),
                bucket=None if entry is None else entry.bucket,
                file=need.path,
                repair=Repair.REMOVE_UNEXISTING_FILES
                if problem is Problem.MISSING_DATA_FILE
                else _repair_of(reference),
            )
        )

    def unreadable(self, error: CorruptTable, branch: FileStoreTable) -> None:
        """Note a snapshot, tag or changelog file that cannot be read."""
        self.findings.append(
            Finding(
                problem=Problem.UNREADABLE,
                severity=Severity.ERROR,
                message=error.message,
                branch=branch.branch,
                snapshot=error.snapshot,
                file=error.file,
                repair=Repair.DELETE_REFERENCE,
            )
        )

    def still_matters(self, finding: Finding) -> bool:
        """Whether the finding's reference did not expire while we looked."""
        reference = self.references.get(finding.reference or "")
        return (
            reference is None or finding.severity is not Severity.ERROR or reference.still_there()
        )


def _repair_of(reference: Reference) -> Repair:
    """What a broken reference can do for itself: go, or be gone back behind."""
    return Repair.DELETE_REFERENCE if reference.kind is not RefKind.SNAPSHOT else Repair.ROLL_BACK
