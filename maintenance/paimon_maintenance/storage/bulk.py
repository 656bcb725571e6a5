"""Lists folders and deletes files, in this process or, for very many paths, on the engine.

The threads of one process send a few hundred requests at a time, or read a few local folders, which
is enough for nearly all tables.  Above the limits below, the workers of the engine send the requests,
in units of paths.  A unit may run twice if a worker is lost: it lists again, or finds files already
deleted.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, cast

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import DISK_THREADS, FileStat, delete_files, map_parallel
from paimon_core.retention.deleting import Deleting
from paimon_maintenance.engines.packing import SMALLEST_TASK_BYTES
from paimon_maintenance.job.engine import WorkUnit
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.storage.ledger import without_ledger

FROM_FOLDERS: Final = 5_000
FROM_FILES: Final = 50_000
_PATHS_A_UNIT: Final = 500
_FOLDERS_HERE: Final = 1_000
_FOLDERS_ON_ENGINE: Final = 50_000
_FOLDERS_A_THREAD: Final = 50
_THREADS_IN_MEMORY: Final = 2
"""Threads that list folders whose files the system knows.  More wait for the interpreter's lock."""
_WAITS: Final = 4.0
"""Seconds to processor seconds from which listing waits for a disk or a network."""
_PATHS_A_FENCE: Final = 1_000
"""Number of files to delete between two checks of the lease."""

T = TypeVar("T")


def list_folders(
    table: FileStoreTable, folders: Sequence[str], context: RunContext
) -> Iterator[list[FileStat]]:
    """The content of each folder, in the order of the folders (see `FileIO.list_dir`).

    A part of the folders is in memory at a time.  Raises the first failure: OSError, or the engine's
    error for a lost worker.
    """
    if len(folders) < FROM_FOLDERS or not context.engine.is_parallel:
        if table.io.parallelism <= 1 and len(folders) > _FOLDERS_A_THREAD:
            yield from _listed_ahead(table, folders)
            return
        for start in range(0, len(folders), _FOLDERS_HERE):
            yield from _list_here(table, folders[start : start + _FOLDERS_HERE])
        return
    for start in range(0, len(folders), _FOLDERS_ON_ENGINE):
        part = folders[start : start + _FOLDERS_ON_ENGINE]
        found: list[list[FileStat]] = []
        _on_engine(table, part, _list_here, "list folders", context, found)
        yield from found


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


def _list_here(table: FileStoreTable, folders: Sequence[str]) -> list[list[FileStat]]:
    return map_parallel(table.io, table.io.list_dir, folders)


def _listed_ahead(table: FileStoreTable, folders: Sequence[str]) -> Iterator[list[FileStat]]:
    """The content of local folders, listed by threads while the caller looks at the ones before."""
    parts = [folders[i : i + _FOLDERS_A_THREAD] for i in range(0, len(folders), _FOLDERS_A_THREAD)]
    started, cpu_started = time.perf_counter(), time.thread_time()
    first = _list_here(table, parts[0])
    waits = time.perf_counter() - started > _WAITS * (time.thread_time() - cpu_started)
    yield from first
    threads = DISK_THREADS if waits else _THREADS_IN_MEMORY
    with ThreadPoolExecutor(threads, thread_name_prefix="list") as pool:
        ahead: deque[Future[list[list[FileStat]]]] = deque()
        try:
            for part in parts[1:]:
                ahead.append(pool.submit(_list_here, table, part))
                if len(ahead) > 2 * DISK_THREADS:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


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
