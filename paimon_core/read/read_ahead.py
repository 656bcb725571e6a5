"""Reads small files ahead, so that the latencies of a remote store overlap.

This happens only if the store benefits from concurrent requests (`FileIO.parallelism`), and up to
the byte limits below: large files are streamed when their turn comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import pyarrow as pa

from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.io.store_retries import ContextPool
from paimon_core.types.buffers import RecordBatches

SMALL_BYTES: Final = 8 * 1024**2
"""Files (or runs) up to this size are read as a whole."""
AHEAD_BYTES: Final = 64 * 1024**2
"""The limit in file bytes for files that are decoded ahead."""


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """Something to read: its size on disk, and a function that starts reading."""

    size: int
    read: Callable[[], Iterator[Item]]

    def whole(self) -> list[Item]:
        return list(self.read())


def one_after_the_other(io: FileIO, sources: Sequence[Source[Item]]) -> Iterator[Item]:
    """Yield the items of all sources in order."""
    if io.parallelism <= 1 or len(sources) == 1:
        for source in sources:
            yield from source.read()
        return
    waiting: deque[tuple[Source[Item], Future[list[Item]] | None]] = deque()
    left = deque(sources)
    ahead = 0
    with ContextPool(io.parallelism, thread_name_prefix="read-ahead") as pool:
        try:
            while waiting or left:
                while left and (not waiting or ahead + left[0].size <= AHEAD_BYTES):
                    source = left.popleft()
                    small = source.size <= SMALL_BYTES
                    ahead += source.size if small else 0
                    waiting.append((source, pool.submit(source.whole) if small else None))
                source, future = waiting.popleft()
                if future is None:
                    yield from source.read()
                else:
                    yield from future.result()
                    ahead -= source.size
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def side_by_side(io: FileIO, sources: Sequence[Source[pa.RecordBatch]]) -> list[RecordBatches]:
    """Return the batches of each source; small sources are read at once if their total is small."""
    small = [s for s in sources if s.size <= SMALL_BYTES]
    if io.parallelism <= 1 or len(small) < 2 or sum(s.size for s in small) > AHEAD_BYTES:
        return [s.read() for s in sources]
    loaded = dict(zip(map(id, small), map_parallel(io, Source.whole, small), strict=True))
    return [iter(loaded[id(s)]) if id(s) in loaded else s.read() for s in sources]


def in_background(batches: RecordBatches, pool: Executor) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches; while one is used, the pool decodes the next one.

    Callers close it before they close what the batches come from.
    """
    following = pool.submit(next, batches, None)
    try:
        while (batch := following.result()) is not None:
            following = pool.submit(next, batches, None)
            yield batch
    finally:
        wait([following])  # a generator that runs cannot be closed
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def source_of(size: int, read: Callable[..., Iterator[Item]], *arguments: object) -> Source[Item]:
    """Return a source that starts with this call."""
    return Source(size, partial(read, *arguments))
