"""Decodes whole data files: pages, checksums and file indexes (`verify --deep`).

Threads decode files in batches, so the number of threads limits the memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.decode_all import decode_whole
from paimon_core.index.file_index.container import decode_indexes
from paimon_core.index.file_index.writer import INDEX_SUFFIX
from paimon_core.io.file_io import FileIO
from paimon_core.io.read_retry import read_whole
from paimon_maintenance.job.job import Progress
from paimon_maintenance.verify.required_file import RequiredFile

_MOST_THREADS: Final = 16


def default_parallelism() -> int:
    """The default number of threads: one per core, because decoding is CPU-bound."""
    return min(os.cpu_count() or 1, _MOST_THREADS)


def broken_files(
    io: FileIO, needs: Sequence[RequiredFile], *, parallelism: int, progress: Progress
) -> list[tuple[RequiredFile, str]]:
    """The files that cannot be decoded, each with its problem, in order.

    Skips missing files, because their reference has expired.  Raises errors of the store.
    """
    progress.phase("decode")
    progress.expect(len(needs), sum(n.size or 0 for n in needs))

    def look(need: RequiredFile) -> str | None:
        try:
            return _problem(io, need)
        finally:
            progress.advance(1, need.size or 0)

    with ThreadPoolExecutor(parallelism, thread_name_prefix="deep") as pool:
        found = list(pool.map(look, needs))
    return [
        (need, problem) for need, problem in zip(needs, found, strict=True) if problem is not None
    ]


def _problem(io: FileIO, need: RequiredFile) -> str | None:
    try:
        if need.rows is None:
            if need.path.endswith(INDEX_SUFFIX):
                decode_indexes(read_whole(io, need.path))
            return None
        rows = decode_whole(io, need.path)
    except FileNotFoundError:
        return None
    except UnsupportedFeature:
        return None  # a newer format or index version is not a corruption
    except CorruptTable as e:
        return e.message
    if rows != need.rows:
        return f"its pages contain {rows:,} rows, but the manifest says {need.rows:,}"
    return None
