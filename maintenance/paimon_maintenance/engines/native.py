"""Settings of native libraries, which read them from the environment when they are loaded."""

from __future__ import annotations

import os
from typing import Final

SETTINGS: Final = {
    # Arrow's allocator gives memory back to the system after a second.  A merge needs it again soon,
    # and on a virtual machine new pages cost up to a tenth of its time.  Milliseconds.
    "MIMALLOC_PURGE_DELAY": "10000",
    # numpy would start a thread for each core at its import; nothing here does linear algebra.
    "OPENBLAS_NUM_THREADS": "1",
}


def prepare_process() -> None:
    """Set what the environment of this process does not; for libraries that are not loaded yet."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def executor_settings() -> dict[str, str]:
    """Return Spark's configuration for the processes of executors."""
    return {f"spark.executorEnv.{name}": os.environ.get(name, v) for name, v in SETTINGS.items()}
