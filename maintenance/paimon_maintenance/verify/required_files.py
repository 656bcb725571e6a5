"""Collects the data, changelog and index files that references need, and checks them at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from paimon_core.errors import CorruptTable
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.manifest.data_file import IndexManifestEntry, ManifestEntry
from paimon_core.paths import FileSlice, compacted_changelog
from paimon_maintenance.job.job import Progress
from paimon_maintenance.verify.collector import Collector
from paimon_maintenance.verify.deep import broken_files
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.footers import count_rows
from paimon_maintenance.verify.index_files import wrong_index
from paimon_maintenance.verify.inventory import Inventory
from paimon_maintenance.verify.references import Reference
from paimon_maintenance.verify.required_file import RequiredFile

_FILES_AT_ONCE = 10_000
"""Number of files to count before comparing row counts; bounds the memory."""


@dataclass(slots=True)
class RequiredFiles:
    """All files that references need, without duplicates."""

    io: FileIO
    collector: Collector
    inventory: Inventory
    _files: dict[str, RequiredFile] = field(default_factory=dict)

    def note(
        self,
        reference: Reference,
        entry: ManifestEntry,
        *,
        missing: Problem = Problem.MISSING_DATA_FILE,
    ) -> bool:
        """Add a file and its extra files; returns whether it is new."""
        paths, file = reference.table.paths, entry.file
        place = (entry.partition, entry.bucket)
        try:
            path = paths.data_file(*place, file)
        except CorruptTable as e:
            self.collector.error(reference, Problem.UNREADABLE, e.message, file=e.file)
            return False
        if path in self._files:
            return False
        self._files[path] = RequiredFile(
            path,
            reference,
            missing,
            *place,
            size=file.file_size,
            rows=file.row_count,
            part=compacted_changelog(path),
        )
        for extra in file.extra_files:
            beside = paths.extra_file(*place, file, extra)
            self._files.setdefault(
                beside, RequiredFile(beside, reference, Problem.MISSING_EXTRA_FILE, *place)
            )
        return True

    def note_index(self, reference: Reference, entry: IndexManifestEntry) -> None:
        """Add an index file."""
        file = entry.index_file
        try:
            path = reference.table.paths.index_file(entry.partition, entry.bucket, file)
        except CorruptTable as e:
            self.collector.error(reference, Problem.UNREADABLE, e.message, file=e.file)
            return
        self._files.setdefault(
            path,
            RequiredFile(
                path,
                reference,
                Problem.MISSING_INDEX_FILE,
                entry.partition,
                entry.bucket,
                size=file.file_size,
                index=file,
            ),
        )

    def look(self, *, count: bool) -> None:
        """Check that all files exist; with `count`, also compare row counts and index content."""
        self.inventory.prefetch(need.stored for need in self._files.values())
        present = [need for need in self._files.values() if self._is_there(need)]
        if not count:
            return
        for start in range(0, len(present), _FILES_AT_ONCE):
            part = [n for n in present[start : start + _FILES_AT_ONCE] if n.rows is not None]
            self._compare_rows(part)
        self._check_indexes([n for n in present if n.index is not None])

    def decode(self, parallelism: int, progress: Progress) -> None:
        """Decode all existing files completely; call it after `look`."""
        broken = {f.file for f in self.collector.findings}
        needs = [
            n
            for n in self._files.values()
            if n.index is None and n.path not in broken and self.inventory.listed(n.stored)
        ]
        self.collector.checked["decoded files"] += sum(n.rows is not None for n in needs)
        found = broken_files(self.io, needs, parallelism=parallelism, progress=progress)
        for need, message in found:
            self._error(need, Problem.UNREADABLE, f"{need.path}: {message}")

    def _is_there(self, need: RequiredFile) -> bool:
        self.collector.checked["files"] += 1
        found = self.inventory.size(need.stored)
        if found is None:
            self._error(need, need.missing, f"{need.stored} is missing")
            return False
        if need.part is not None:
            return self._holds_part(need, need.part, found)
        self.collector.checked["bytes"] += found
        if need.size is not None and found != need.size:
            message = f"{need.path} has {found:,} bytes, but the manifest says {need.size:,}"
            self._error(need, Problem.WRONG_SIZE, message)
        return True

    def _holds_part(self, need: RequiredFile, part: FileSlice, found: int) -> bool:
        self.collector.checked["bytes"] += part.length
        if part.length != need.size or part.offset + part.length > found:
            message = (
                f"{part.path} has {found:,} bytes, but the manifest needs {need.size or 0:,} from byte "
                f"{part.offset:,}"
            )
            self._error(need, Problem.WRONG_SIZE, message)
            return False
        return True

    def _compare_rows(self, needs: Sequence[RequiredFile]) -> None:
        counts = map_parallel(self.io, self._count, needs)
        for need, rows in zip(needs, counts, strict=True):
            if isinstance(rows, CorruptTable):
                self._error(need, Problem.UNREADABLE, rows.message)
            elif rows is not None:
                self.collector.checked["rows"] += rows
                if rows != need.rows:
                    message = (
                        f"{need.path} contains {rows:,} rows, but the manifest says {need.rows:,}"
                    )
                    self._error(need, Problem.WRONG_ROW_COUNT, message)

    def _count(self, need: RequiredFile) -> int | CorruptTable | None:
        try:
            return count_rows(self.io, need.path)
        except FileNotFoundError:
            return None  # gone since it was listed: its reference has expired
        except CorruptTable as e:
            return e

    def _check_indexes(self, needs: Sequence[RequiredFile]) -> None:
        if not needs:
            return
        rows: dict[tuple[bytes, int], dict[str, int | None]] = defaultdict(dict)
        for need in self._files.values():
            rows[need.partition, need.bucket][need.path.rpartition("/")[2]] = need.rows

        def wrong(need: RequiredFile) -> tuple[Problem, str] | None:
            assert need.index is not None
            try:
                known = rows[need.partition, need.bucket]
                message = wrong_index(self.io, need.stored, need.index, known)
            except FileNotFoundError:
                return None  # gone since it was listed: its reference has expired
            except CorruptTable as e:
                return Problem.UNREADABLE, e.message
            return None if message is None else (Problem.WRONG_ROW_COUNT, f"{need.path}: {message}")

        for need, found in zip(needs, map_parallel(self.io, wrong, needs), strict=True):
            self.collector.checked["index_files"] += 1
            if found is not None:
                self._error(need, *found)

    def _error(self, need: RequiredFile, problem: Problem, message: str) -> None:
        self.collector.error(
            need.reference,
            problem,
            f"{message} (needed by {need.reference.label})",
            file=need.path,
            partition=need.reference.table.paths.partition_path(need.partition),
            bucket=need.bucket,
        )
