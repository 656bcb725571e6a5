"""The standard error of Spark's JVM, hidden while the session starts."""

from __future__ import annotations

import os
import threading
from typing import Final

_STDERR: Final = 2
_CHUNK: Final = 65536
_DRAIN_SECONDS: Final = 2.0


class StartupOutput:
    """A pipe for the standard error of a JVM.

    It holds back the output until `discard` or `release`, and forwards all later output to the
    standard error of this process.
    """

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._held = bytearray()
        self._forwards = False
        self._lock = threading.Lock()
        self._pump = threading.Thread(
            target=self._copy, args=(read_end,), name="spark-stderr", daemon=True
        )
        self._pump.start()

    def close_write_end(self) -> None:
        """Close the write end in this process, after the JVM has inherited it."""
        os.close(self.write_end)

    def discard(self) -> None:
        """Drop the output so far, because the session has started."""
        with self._lock:
            self._held.clear()
            self._forwards = True

    def release(self) -> None:
        """Print the output so far, because the session did not start."""
        # A JVM that has ended closes the pipe, so this waits for its last lines only.
        self._pump.join(_DRAIN_SECONDS)
        with self._lock:
            _write(bytes(self._held))
            self._held.clear()
            self._forwards = True

    def _copy(self, read_end: int) -> None:
        with open(read_end, "rb", buffering=0) as pipe:
            while data := pipe.read(_CHUNK):
                with self._lock:
                    if self._forwards:
                        _write(data)
                    else:
                        self._held += data


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_STDERR, data) :]
