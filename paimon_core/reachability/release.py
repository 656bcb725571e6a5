"""Removes references so that a crash leaves garbage but no damage (docs/decisions/0010).

1.  Write a *journal* `caretaker/released/UUID.json` below the table's root: the removed snapshots.
2.  Delete the references themselves, so that no reader can start with an incomplete one.
3.  Read the remaining references and find the files that nothing needs; a tag that was created
   meanwhile keeps its files.
4.  Delete the files: data first, then manifests, then manifest lists, so that a second run can find
   what the first one left; the journal last.

Java deletes data before the snapshot file (apache/paimon #6978).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO, FileStat, parent
from paimon_core.io.file_io import delete_files as delete_paths
from paimon_core.io.json_text import to_pretty_json
from paimon_core.io.local import LARGEST_WHOLE
from paimon_core.io.read_retry import read_with_retries
from paimon_core.paths import CARETAKER_DIR
from paimon_core.reachability.files import Metadata, Role
from paimon_core.reachability.garbage import check_deletable, find_garbage
from paimon_core.reachability.needed import check_not_needed
from paimon_core.reachability.references import (
    Reference,
    RefKind,
    all_references,
    on_branch,
    settled_references,
    without,
)
from paimon_core.reachability.stored_files import PlannedFiles, StoredFiles
from paimon_core.snapshot.expiry_beside import read_beside_expiry
from paimon_core.snapshot.snapshot_json import snapshot_from_object, snapshot_to_object

logger = logging.getLogger(__name__)

JOURNALS: Final = f"{CARETAKER_DIR}/released"
_OF_WRITER: Final = ".writer"
"""In the name of a journal without a lease."""
_WRITER_MILLIS: Final = 3_600_000
"""No writer is at work on a journal of this age."""
_DELETED_TOGETHER: Final = 100_000
"""Number of files whose paths are in memory while they are deleted."""
_DATA: Final = (Role.DATA, Role.CHANGELOG)
_PHASES: Final = (
    frozenset({Role.DATA, Role.CHANGELOG, Role.INDEX, Role.STATISTICS}),
    frozenset({Role.MANIFEST, Role.INDEX_MANIFEST}),
    frozenset({Role.MANIFEST_LIST}),
)


Delete = Callable[[FileStoreTable, Sequence[str]], list[bool]]
"""Deletes files in any order and returns whether each existed; raises the first failure."""


def delete_here(table: FileStoreTable, paths: Sequence[str]) -> list[bool]:
    """Delete the files from this process, several at a time."""
    return delete_paths(table.io, paths)


@dataclass(frozen=True, slots=True)
class Removed:
    """What was deleted from storage: files by role, and bytes as far as metadata holds them."""

    files: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    folders: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the figures for reports."""
        return {
            "deleted_files": sum(self.files.values()),
            "deleted_bytes": self.bytes,
            "deleted_by_kind": dict(self.files),
            "deleted_folders": self.folders,
        }


def release(
    table: FileStoreTable,
    going: Sequence[Reference],
    delete_references: Callable[[], None],
    *,
    new_uuid: Callable[[], str],
    metadata: Metadata | None = None,
    planned: PlannedFiles | None = None,
    clean_folders: bool = False,
    delete: Delete = delete_here,
    leased: bool = True,
) -> Removed:
    """Delete references and the files that only they need; return what was deleted.

    `delete_references` deletes the references themselves, or raises StalePlan; if it restored all
    of them, there is nothing to finish.  With `planned`, only those files are deleted.  The journal
    leaves others to the next run: another job has removed references to them since the plan, and
    its plan left them to this job.  Without a lease (`leased`), the journal says so: a job with a
    lease may meet it while this call is at work.  Raises CorruptTable if the remaining references
    cannot be read: then the references are deleted but their files are not, and the journal remains
    for the next run.
    """
    journal = write_journal(table, going, new_uuid, leased=leased) if going else None
    try:
        delete_references()
    except PaimonError:
        if journal is not None and _all_alive(going):
            table.io.delete(journal)
        raise
    garbage = _garbage(table, going, metadata or Metadata(table), settled=planned is None)
    files = garbage if planned is None else garbage.only(planned)
    all_of_it = len(files) == len(garbage)
    if not all_of_it:
        files = files.of_roles(*_PHASES[0])  # the next run finds the others through the metadata
    removed = delete_files(table, files, clean_folders=clean_folders, delete=delete)
    if journal is not None and all_of_it:
        table.io.delete(journal)
    return removed


def _garbage(
    table: FileStoreTable, going: Sequence[Reference], metadata: Metadata, *, settled: bool
) -> StoredFiles:
    """The files that nothing else needs; tried again if what stays expires while it is read."""

    def find() -> StoredFiles:
        # A plan has read the references before: what moves now keeps its files by the plan.
        left = settled_references(table) if settled else all_references(table)
        return find_garbage(table, without(going, left), left, metadata).files

    return read_beside_expiry(find, lambda: table.snapshots)


def _all_alive(references: Iterable[Reference]) -> bool:
    return all(r.is_alive() for r in references)


# --- journals -----------------------------------------------------------------------------------


def write_journal(
    table: FileStoreTable,
    going: Iterable[Reference],
    new_uuid: Callable[[], str],
    *,
    leased: bool,
) -> str:
    """Write the journal of the removed references and return its path."""
    path = f"{table.root}/{JOURNALS}/{new_uuid()}{'' if leased else _OF_WRITER}.json"
    content = {
        "references": [
            {
                "branch": r.table.branch,
                "kind": str(r.kind),
                "name": r.name,
                "snapshot": snapshot_to_object(r.snapshot),
            }
            for r in going
        ]
    }
    table.io.overwrite(path, to_pretty_json(content).encode())
    return path


def journals(table: FileStoreTable) -> list[str]:
    """Return the paths of journals of interrupted runs, sorted.

    Whoever holds the lease knows that nobody else with a lease is at work.  A writer has none: what
    it removes after its commit it may still put back, and then its files must be there.  So its
    journal counts only once the table has files that are much younger.
    """
    found = table.io.list_dir(f"{table.root}/{JOURNALS}")
    found = [f for f in found if not f.is_dir and f.name.endswith(".json")]
    if any(_is_of_writer(f) for f in found):
        others = (f"{table.root}/{CARETAKER_DIR}/leases", table.paths.snapshot_dir)
        files = [*found, *(f for folder in others for f in table.io.list_dir(folder))]
        ended = max(f.modified_millis for f in files) - _WRITER_MILLIS
        found = [f for f in found if not _is_of_writer(f) or f.modified_millis < ended]
    return sorted(f.path for f in found)


def _is_of_writer(file: FileStat) -> bool:
    return file.name.endswith(f"{_OF_WRITER}.json")


def read_journal(table: FileStoreTable, path: str) -> list[Reference]:
    """Return the journal's references; FileNotFoundError if another run has finished it."""

    def parse(content: bytes) -> list[Reference]:
        names = set(table.branches.all_with_main())
        return [
            Reference(
                table=on_branch(table, r["branch"])
                if r["branch"] in names
                else _of_deleted_branch(table, r["branch"]),
                kind=RefKind(r["kind"]),
                name=r["name"],
                snapshot=snapshot_from_object(r["snapshot"]),
            )
            for r in json.loads(content)["references"]
        ]

    return read_with_retries(table.io, path, parse, table=table.name, most=LARGEST_WHOLE)


def _of_deleted_branch(table: FileStoreTable, branch: str) -> FileStoreTable:
    """Return a handle for snapshots of a branch that is gone; their files lie among the table's.

    It has the name of the branch: the snapshots are no part of another line that has their numbers.
    """
    return replace(table, branch=branch)


def read_journals(table: FileStoreTable, paths: Iterable[str]) -> list[Reference]:
    """Return the references of the journals, without journals that another run has finished."""
    going: list[Reference] = []
    for path in paths:
        try:
            going += read_journal(table, path)
        except FileNotFoundError:
            continue
    return going


def finish_interrupted(
    table: FileStoreTable,
    paths: Sequence[str],
    *,
    clean_folders: bool = False,
    delete: Delete = delete_here,
) -> Removed:
    """Delete the files that interrupted runs left, and their journals.

    A reference that still exists was not deleted, and is kept.
    """
    going = read_journals(table, paths)
    left = settled_references(table)
    garbage = find_garbage(table, without(going, left), left, Metadata(table))
    check_not_needed(table, garbage.files)
    removed = delete_files(table, garbage.files, clean_folders=clean_folders, delete=delete)
    for path in paths:
        table.io.delete(path)
    return removed


# --- deleting -----------------------------------------------------------------------------------


def delete_files(
    table: FileStoreTable,
    files: StoredFiles,
    *,
    clean_folders: bool = False,
    delete: Delete = delete_here,
) -> Removed:
    """Delete the files concurrently: data, then manifests, then lists.

    Raises CorruptTable, and deletes nothing, if a file lies outside the table. The first failure of
    the store is raised, and later phases do not start.
    """
    check_deletable(table, files)
    counts: Counter[str] = Counter()
    size = 0
    for roles in _PHASES:
        todo = files.positions(*roles)
        for start in range(0, len(todo), _DELETED_TOGETHER):
            part = files.take(todo[start : start + _DELETED_TOGETHER])
            deleted = delete(table, [f.path for f in part])
            done = part.take(np.flatnonzero(deleted))
            counts.update(done.counts())
            size += done.bytes
    folders = 0
    if clean_folders:
        data = {parent(f.path) for f in files.of_roles(*_DATA).one_of_each_folder()}
        folders = delete_empty_folders(table.io, data, stop_at=table.paths.data_root)
    logger.info("table=%s deleted files=%d bytes=%d", table.name, sum(counts.values()), size)
    return Removed(dict(counts), size, folders)


def delete_empty_folders(io: FileIO, folders: Iterable[str], *, stop_at: str) -> int:
    """Delete the given folders that are empty and parents that become empty; return their number.

    Nothing at or above `stop_at` is deleted.
    """
    deleted = 0
    todo = {f for f in folders if f.startswith(stop_at + "/")}
    while todo:
        above: set[str] = set()
        for folder in sorted(todo):
            if io.delete_dir(folder, recursive=False):
                deleted += 1
                if parent(folder).startswith(stop_at + "/"):
                    above.add(parent(folder))
        todo = above
    return deleted
