"""Collects the data, changelog and index files that references need, and checks them at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable
from paimon_core.format.blob.pack_references import REFERENCES_SUFFIX
from paimon_core.io.file_io import FileIO, map_parallel, parent
from paimon_core.manifest.data_file import IndexManifestEntry
from paimon_core.manifest.entries.columns import Column, EntryColumns, as_flags, distinct
from paimon_core.paths import FileSlice, compacted_changelog
from paimon_maintenance.job.job import Progress
from paimon_maintenance.verify.blob_packs import wrong_packs
from paimon_maintenance.verify.collector import Collector
from paimon_maintenance.verify.deep import broken_files
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.footers import count_rows
from paimon_maintenance.verify.index_files import wrong_index
from paimon_maintenance.verify.inventory import Inventory
from paimon_maintenance.verify.references import Reference
from paimon_maintenance.verify.required_columns import FilesOfFolders, RequiredColumns
from paimon_maintenance.verify.required_file import RequiredFile

_FILES_AT_ONCE = 10_000
"""Number of files that are objects at a time, and to count before comparing row counts."""
_ABSENT = -1
_SLICE = "$"
"""In the names of slices of joined changelog files only."""


@dataclass(slots=True)
class RequiredFiles:
    """All files that references need, without duplicates.

    Index files and slices of joined changelog files are few; the others are columns.
    """

    io: FileIO
    collector: Collector
    inventory: Inventory
    _files: RequiredColumns = field(default_factory=RequiredColumns)
    _special: dict[str, RequiredFile] = field(default_factory=dict)

    def note(
        self,
        reference: Reference,
        files: EntryColumns,
        *,
        missing: Problem = Problem.MISSING_DATA_FILE,
    ) -> list[int]:
        """Add files and their extra files, and return the ids of their schemas.

        A path outside the table is a finding.
        """
        special = as_flags(pc.match_substring(files.names, _SLICE))
        special[list(files.rare)] = True
        plain = files if not special.any() else files.take(np.flatnonzero(~special))
        self._files.add_columns(reference, plain, missing)
        schemas = set(distinct(plain.numbers["schema_id"]).tolist())
        for position in np.flatnonzero(special).tolist():
            if self._note_one(reference, files, position, missing):
                schemas.add(int(files.numbers["schema_id"][position]))
        return sorted(schemas)

    def _note_one(
        self, reference: Reference, files: EntryColumns, position: int, missing: Problem
    ) -> bool:
        """Add a slice, or a file with extra files or a path of its own.

        False if that is outside.
        """
        paths, file = reference.table.paths, files.located(position)
        place = (file.partition, file.bucket)
        try:
            path = paths.data_file(*place, file)
        except CorruptTable as e:
            self.collector.error(reference, Problem.UNREADABLE, e.message, file=e.file)
            return False
        part = compacted_changelog(path) if _SLICE in path else None
        need = RequiredFile(
            path,
            reference,
            missing,
            *place,
            size=int(files.numbers["file_size"][position]),
            rows=int(files.numbers["row_count"][position]),
            part=part,
        )
        if part is None:
            self._files.add(need)
        else:
            self._special.setdefault(path, need)
        for extra in file.extra_files:
            beside = paths.extra_file(*place, file, extra)
            self._files.add(RequiredFile(beside, reference, Problem.MISSING_EXTRA_FILE, *place))
        return True

    def note_index(self, reference: Reference, entry: IndexManifestEntry) -> None:
        """Add an index file."""
        file = entry.index_file
        try:
            path = reference.table.paths.index_file(entry.partition, entry.bucket, file)
        except CorruptTable as e:
            self.collector.error(reference, Problem.UNREADABLE, e.message, file=e.file)
            return
        self._special.setdefault(
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
        for files in self._files.by_folder(_FILES_AT_ONCE):
            self.inventory.prefetch(files.folders)
            odd = self._not_as_expected(files)
            if count:
                here = list(files.files(np.arange(len(files))))
                present = [n for n, is_odd in zip(here, odd, strict=True) if not is_odd]
                odd_files = [n for n, is_odd in zip(here, odd, strict=True) if is_odd]
                present += [n for n in odd_files if self._is_there(n)]
                self._compare_rows([n for n in present if n.rows is not None])
                self._check_packs(n for n in present if n.path.endswith(REFERENCES_SUFFIX))
            else:
                for need in files.files(np.flatnonzero(odd)):
                    self._is_there(need)
            self.inventory.forget(files.folders)
        for needs in self._special_together():
            self.inventory.prefetch(parent(need.stored) for need in needs)
            present = [need for need in needs if self._is_there(need)]
            if count:
                self._compare_rows([need for need in present if need.rows is not None])
                self._check_indexes([need for need in present if need.index is not None])
            self.inventory.forget(parent(need.stored) for need in needs)

    def _not_as_expected(self, files: FilesOfFolders) -> Column:
        """Whether each file is not listed, or with another size; counts the others as checked."""
        found = np.empty(len(files), np.int64)
        names = files.names.to_pylist()
        for folder, here in files.folders.items():
            sizes = self.inventory.sizes(folder)
            found[here] = [sizes.get(name.decode(), _ABSENT) for name in names[here]]
        wanted = files.sizes
        odd: Column = (found == _ABSENT) | ((wanted >= 0) & (wanted != found))
        self.collector.checked["files"] += int(np.count_nonzero(~odd))
        self.collector.checked["bytes"] += int(found[~odd].sum())
        return odd

    def decode(self, parallelism: int, progress: Progress) -> None:
        """Decode all existing files completely; call it after `look`."""
        broken = {f.file for f in self.collector.findings}
        needs = [
            n
            for together in self._together()
            for n in together
            if n.index is None and n.path not in broken and self.inventory.listed(n.stored)
        ]
        self.collector.checked["decoded files"] += sum(n.rows is not None for n in needs)
        found = broken_files(self.io, needs, parallelism=parallelism, progress=progress)
        for need, message in found:
            self._error(need, Problem.UNREADABLE, f"{need.path}: {message}")

    def _together(self) -> Iterator[list[RequiredFile]]:
        """Yield the files, some thousand together, those of a folder one after the other."""
        for files in self._files.by_folder(_FILES_AT_ONCE):
            yield list(files.files(np.arange(len(files))))
        yield from self._special_together()

    def _special_together(self) -> Iterator[list[RequiredFile]]:
        special = list(self._special.values())
        for start in range(0, len(special), _FILES_AT_ONCE):
            yield special[start : start + _FILES_AT_ONCE]

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
        rows: dict[tuple[bytes, int], dict[str, int | None]] = {
            (need.partition, need.bucket): {} for need in needs
        }
        for need in chain.from_iterable(self._together()):
            known = rows.get((need.partition, need.bucket))
            if known is not None:
                known[need.path.rpartition("/")[2]] = need.rows

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

    def _check_packs(self, needs: Iterable[RequiredFile]) -> None:
        for need in needs:
            boundary = need.reference.table.paths.boundary
            for message in wrong_packs(self.io, need.path, boundary, self.inventory):
                self._error(need, Problem.MISSING_EXTRA_FILE, message)

    def _error(self, need: RequiredFile, problem: Problem, message: str) -> None:
        self.collector.error(
            need.reference,
            problem,
            f"{message} (needed by {need.reference.label})",
            file=need.path,
            partition=need.reference.table.paths.partition_path(need.partition),
            bucket=need.bucket,
        )
