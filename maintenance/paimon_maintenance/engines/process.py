"""Settings of a process: its native libraries, and how often Python looks for garbage."""

from __future__ import annotations

import gc
import os
from typing import Final

SETTINGS: Final = {
    # Arrow's allocator gives memory back to the system after a second.  This merge or the next one
    # needs it again soon, and on a virtual machine new pages cost up to a tenth of the time of a
    # large merge, and half of that of a small one.  Milliseconds.
    "MIMALLOC_PURGE_DELAY": "60000",
    # numpy would start a thread for each core at its import; nothing here does linear algebra.
    "OPENBLAS_NUM_THREADS": "1",
}
"""What native libraries read from the environment when they are loaded."""


def prepare_process() -> None:
    """Prepare a process that works for Caretaker alone; best before it loads native libraries."""
    prepare_libraries()
    # Imports, plans and merges make many objects that stay, and few cycles.  With Python's
    # threshold of 700 new objects, looking for garbage takes a tenth of the start and a sixth of
    # some merges.
    gc.set_threshold(150_000, 20, 50)


def prepare_libraries() -> None:
    """Set what the environment of this process does not; for libraries that are not loaded yet."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def executor_settings() -> dict[str, str]:
    """Return Spark's configuration for the processes of executors."""
    return {f"spark.executorEnv.{name}": os.environ.get(name, v) for name, v in SETTINGS.items()}
