"""A driver that ends when its supervisor ends, for whatever reason.

The supervisor (the task that calls spark-submit) holds the write end of a named pipe and never
writes.  The driver holds the read end.  When the supervisor ends, the system closes the write end,
and the driver reads end-of-file.  This does not depend on process ids, which can be reused, and it
also works if the supervisor is killed before the driver starts.  The driver locks the pipe, so that
the supervisor can see when the driver has ended.

The driver also ends when its parent, the JVM, ends: a driver with a killed JVM is reported as lost,
so it must not commit.  The JVM ends when its Python process ends (Spark's PythonRunner waits for
it), so the whole application ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

logger = logging.getLogger(__name__)

ENDED_WITH_SUPERVISOR: Final = 75
"""Exit code of a driver that ends because its supervisor ended (EX_TEMPFAIL of sysexits.h)."""
_PARENT_SECONDS: Final = 0.5
_DRIVER_SECONDS: Final = 30.0
_DRIVER_STEP_SECONDS: Final = 0.05
_NAME: Final = "lifeline"


@contextmanager
def held_lifeline(folder: Path) -> Iterator[Path]:
    """A lifeline in this folder, held while the block runs and this process and its parent live.

    The parent counts because Airflow gives up a task runner whose supervisor was killed, and may
    already run its task on another worker.
    """
    path = folder / _NAME
    os.mkfifo(path, 0o600)
    # A pipe opens for writing without blocking only while a reader has it open.
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        holding = _Holding(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    finally:
        os.close(reading)
    parent = os.getppid()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_PARENT_SECONDS):
            if os.getppid() != parent:
                holding.let_go()
                return

    watcher = threading.Thread(target=watch, name="lifeline", daemon=True)
    watcher.start()
    try:
        yield path
    finally:
        over.set()
        watcher.join()
        holding.let_go()


def driver_has_ended(path: Path) -> bool:
    """Whether all drivers of this lifeline have ended; waits for a while.

    Call it after releasing the lifeline.  A driver that starts later ends immediately.
    """
    deadline = time.monotonic() + _DRIVER_SECONDS
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(_DRIVER_STEP_SECONDS)
            else:
                return True
    finally:
        os.close(descriptor)


class _Holding:
    """The write end; the first thread closes it, once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()

    def let_go(self) -> None:
        """Close the pipe unless it is already closed."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


class Supervised:
    """The read end of a lifeline, for the driver.  The supervisor may already be gone."""

    def __init__(self, path: str | Path) -> None:
        self._check_parent = ends_with_parent()
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):
            _end(f"the lifeline {path} is no longer held")

    def watch(self) -> None:
        """Start a thread that ends this process when the supervisor or the parent process ends."""
        self.check()
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def check(self) -> None:
        """End this process if the supervisor or the parent process has ended.

        Call it before every visible change, because the watching thread may be late.
        """
        self._check_parent()
        try:
            os.read(self._descriptor, 1)
        except BlockingIOError:
            return  # a process still holds the other end
        _end("its supervisor has ended")

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while True:
            poll.poll(_PARENT_SECONDS * 1000)
            self.check()


def ends_with_parent() -> Callable[[], None]:
    """A check that ends this process if its current parent has ended.

    For work inside a task runner: without its supervisor, its task may run on another worker.
    """
    parent = os.getppid()

    def check() -> None:
        if os.getppid() != parent:
            _end("the process that started it has ended")

    return check


def _end(why: str) -> NoReturn:
    # No clean-up on purpose: it takes time, and a crash at any point is harmless.
    logger.error("this process ends without further commits: %s", why)
    os._exit(ENDED_WITH_SUPERVISOR)
