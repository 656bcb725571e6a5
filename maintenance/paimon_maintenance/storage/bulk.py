"""Listing folders and deleting files: from this process, or on the engine where there are very many.

Threads of one process do some hundred requests at a time, which is enough for nearly all tables.
Beyond the numbers below the requests go to the engine's workers, in units of paths.  A unit that is
done twice, because a worker was lost, lists again or finds files deleted.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, cast

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileStat, map_parallel
from paimon_maintenance.engines.packing import SMALLEST_TASK_BYTES
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.ledger import without_ledger

FROM_FOLDERS: Final = 5_000
FROM_FILES: Final = 50_000
_PATHS_A_UNIT: Final = 500
_PATHS_A_FENCE: Final = 1_000
"""So many files are deleted between two looks at the lease."""

T = TypeVar("T")


def list_folders(
    table: FileStoreTable, folders: Sequence[str], context: RunContext
) -> list[list[FileStat]]:
    """What each folder holds, in the order of the folders (see `FileIO.list_dir`).

    The first failure is raised: OSError, or what the engine says of a lost worker.
    """
    if len(folders) < FROM_FOLDERS or not context.engine.is_parallel:
        return _list_here(table, folders)
    found: list[list[FileStat]] = []
    _on_engine(table, folders, _list_here, "list folders", context, found)
    return found


def delete_paths(table: FileStoreTable, paths: Sequence[str], context: RunContext) -> list[bool]:
    """Whether each file was there to be deleted (see `FileIO.delete`); failures as above."""
    if len(paths) < FROM_FILES or not context.engine.is_parallel:
        deleted: list[bool] = []
        for start in range(0, len(paths), _PATHS_A_FENCE):
            context.fence()
            deleted += _delete_here(table, paths[start : start + _PATHS_A_FENCE])
        return deleted
    context.fence()
    found: list[bool] = []
    try:
        # Executors know no ledger, so it learns from here what they deleted.
        direct = replace(table, io=without_ledger(table.io))
        _on_engine(direct, paths, _delete_here, "delete files", context, found)
    finally:
        if context.ledger is not None:
            context.ledger.deleted_elsewhere(sum(found), unsure=len(found) < len(paths))
    return found


def _list_here(table: FileStoreTable, folders: Sequence[str]) -> list[list[FileStat]]:
    return map_parallel(table.io, table.io.list_dir, folders)


def _delete_here(table: FileStoreTable, paths: Sequence[str]) -> list[bool]:
    return map_parallel(table.io, table.io.delete, paths)


def _on_engine(
    table: FileStoreTable,
    paths: Sequence[str],
    work: Callable[[FileStoreTable, Sequence[str]], list[T]],
    what: str,
    context: RunContext,
    found: list[T],
) -> None:
    """Add the results of all units that went through to `found`, then raise the first failure."""
    pieces = [paths[i : i + _PATHS_A_UNIT] for i in range(0, len(paths), _PATHS_A_UNIT)]
    units = [
        WorkUnit(
            payload=pickle.dumps(piece),
            # Requests, not bytes, take the time: a unit is worth a task.
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
