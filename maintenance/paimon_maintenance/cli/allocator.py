"""Settings of the C library's allocator, so that it returns the memory of freed large arrays."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_BYTES: Final = 1024**2


def return_large_blocks() -> None:
    """Make glibc take blocks of a megabyte from the system and give them back at once.

    By default it raises this limit up to 32 MB as such blocks are freed.  Metadata of a million
    files is decoded into arrays of some megabytes, which then leave holes in the heap: a sixth of
    the memory.  Does nothing with other C libraries.

    Arrow uses the same allocator from then on, if it is not imported yet: its own keeps what was
    freed, which is a third of the memory of a verification.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        mallopt(_MMAP_THRESHOLD, _BYTES)
        mallopt(_TRIM_THRESHOLD, _BYTES)
