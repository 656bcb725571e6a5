"""Lists folders, reads states and deletes files; on the engine if the paths are very many.

The threads of one process send a few hundred requests at a time, or read a few local folders, which
is enough for nearly all tables.  Above the limits below, the workers of the engine send the
requests, in units of paths.  A unit may run twice if a worker is lost: it lists again, or finds
files already deleted.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, cast

import numpy as np

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import (
    FileIO,
    FileStat,
    FolderNames,
    delete_files,
    read_parallel,
)
from paimon_core.io.file_stats import NO_SIZE, Column, FileStats, FileStatsBuilder
from paimon_core.retention.deleting import Deleting
from paimon_maintenance.engines.packing import SMALLEST_TASK_BYTES
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.ledger import without_ledger

FROM_FOLDERS: Final = 5_000
FROM_FILES: Final = 50_000
_PATHS_A_UNIT: Final = 500
_FOLDERS_HERE: Final = 2_000
_FOLDERS_ON_ENGINE: Final = 50_000
_PATHS_A_FENCE: Final = 1_000
"""Number of files to delete between two checks of the lease."""

T = TypeVar("T")


def list_folders(
    table: FileStoreTable, folders: Sequence[str], context: RunContext
) -> Iterator[FileStats]:
    """The content of the folders, some of them at a time: `FileStats.folders` are the next ones.

    Sizes and times are unknown where they take a call for each file (`FileIO.list_names`).  Raises
    the first failure: OSError, or the engine's error for a lost worker.
    """
    if len(folders) < FROM_FOLDERS or not context.engine.is_parallel:
        for start in range(0, len(folders), _FOLDERS_HERE):
            yield from _list_here(table, folders[start : start + _FOLDERS_HERE])
        return
    for start in range(0, len(folders), _FOLDERS_ON_ENGINE):
        part = folders[start : start + _FOLDERS_ON_ENGINE]
        found: list[FileStats] = []
        _on_engine(table, part, _list_here, "list folders", context, found)
        yield from found


def read_states(
    table: FileStoreTable, files: FileStats, context: RunContext
) -> tuple[Column, Column]:
    """The sizes and times of the files; `NO_SIZE` for what is no file, or no longer.

    Raises as above.
    """
    states: list[Column] = [np.zeros((0, 2), np.int64)]
    for start in range(0, len(files), FROM_FILES):
        paths = [f.path for f in files[start : start + FROM_FILES]]
        if len(files) < FROM_FILES or not context.engine.is_parallel:
            found = _states_here(table, paths)
        else:
            found = []
            _on_engine(table, paths, _states_here, "read states", context, found)
        states.append(np.array(found, np.int64).reshape(-1, 2))
    sizes, times = np.concatenate(states).T
    return sizes, times


def delete_paths(table: FileStoreTable, paths: Sequence[str], context: RunContext) -> list[bool]:
    """Delete the files; for each, whether it existed (see `FileIO.delete`).  Raises as above."""
    if len(paths) < FROM_FILES or not context.engine.is_parallel:
        deleted: list[bool] = []
        for start in range(0, len(paths), _PATHS_A_FENCE):
            context.fence()
            deleted += _delete_here(table, paths[start : start + _PATHS_A_FENCE])
        return deleted
    context.fence()
    found: list[bool] = []
    try:
        # Executors have no ledger, so their deletions are recorded here.
        direct = replace(table, io=without_ledger(table.io))
        _on_engine(direct, paths, _delete_here, "delete files", context, found)
    finally:
        if context.ledger is not None:
            context.ledger.deleted_elsewhere(sum(found), unsure=len(found) < len(paths))
    return found


def deleting_in(context: RunContext) -> Deleting:
    """The services of a run for what `paimon_core.retention` removes."""
    delete = partial(delete_paths, context=context)
    return Deleting(context.env, context.fence, delete, leased=True)


def _list_here(table: FileStoreTable, folders: Sequence[str]) -> list[FileStats]:
    builder = FileStatsBuilder()
    contents = read_parallel(table.io, partial(_content, table.io), folders)
    for folder, content in zip(folders, contents, strict=True):
        builder.add_folder(folder, content)
    return [builder.finish()]


def _content(io: FileIO, folder: str) -> FolderNames | list[FileStat]:
    names = io.list_names(folder)
    return io.list_dir(folder) if names is None else names


def _states_here(table: FileStoreTable, paths: Sequence[str]) -> list[tuple[int, int]]:
    return read_parallel(table.io, partial(_state, table.io), paths)


def _state(io: FileIO, path: str) -> tuple[int, int]:
    try:
        found = io.stat(path)
    except FileNotFoundError:
        return NO_SIZE, 0
    return (NO_SIZE, 0) if found.is_dir or found.is_link else (found.size, found.modified_millis)


def _delete_here(table: FileStoreTable, paths: Sequence[str]) -> list[bool]:
    return delete_files(table.io, paths)


def _on_engine(
    table: FileStoreTable,
    paths: Sequence[str],
    work: Callable[[FileStoreTable, Sequence[str]], list[T]],
    what: str,
    context: RunContext,
    found: list[T],
) -> None:
    """Add the results of all successful units to `found`, then raise the first failure."""
    pieces = [paths[i : i + _PATHS_A_UNIT] for i in range(0, len(paths), _PATHS_A_UNIT)]
    units = [
        WorkUnit(
            payload=pickle.dumps(piece),
            # Requests, not bytes, take the time: each unit gets its own task.
            expected_bytes=SMALLEST_TASK_BYTES,
            label=f"{table.name}: {what}, part {i + 1} of {len(pieces)}",
        )
        for i, piece in enumerate(pieces)
    ]
    failure: Exception | None = None
    for result in context.engine.run_units(units, partial(_run, table, work)):
        if result.error is None:
            found += pickle.loads(cast("bytes", result.payload))  # noqa: S301 - our own
        failure = failure or result.error
    if failure is not None:
        raise failure


def _run(
    table: FileStoreTable,
    work: Callable[[FileStoreTable, Sequence[str]], list[T]],
    payload: bytes,
) -> bytes:
    return pickle.dumps(work(table, pickle.loads(payload)))  # noqa: S301 - our own
