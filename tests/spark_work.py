"""What units do in tests of the Spark engine."""

from __future__ import annotations

import gc
import os

from paimon_core.errors import UnsupportedFeature


class Odd(Exception):
    """An error that does not survive pickling."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__(f"no way to pickle {one}")
        self.two = two


def work(payload: bytes) -> bytes:
    """Shouts, says which task it is in, fails, or dies."""
    match payload:
        case b"refused":
            raise UnsupportedFeature("bitmaps", table="db.t")
        case b"odd":
            raise Odd("this", lambda: None)
        case b"die":
            os._exit(9)
        case b"task":
            from pyspark import TaskContext

            context = TaskContext.get()
            return str(context.partitionId() if context else -1).encode()
        case b"allocator":
            return os.environ.get("MIMALLOC_PURGE_DELAY", "default").encode()
        case b"garbage":
            return str(gc.get_threshold()[0]).encode()
        case _:
            return payload.upper()


def slow(payload: bytes) -> bytes:
    """Takes a while."""
    import time

    time.sleep(2)
    return payload
