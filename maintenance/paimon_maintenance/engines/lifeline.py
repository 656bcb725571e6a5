"""A driver that ends with its supervisor, however the supervisor ends.

The supervisor (the task that called spark-submit) holds the writing end of a named pipe and never
writes.  The driver holds the reading end: once the supervisor is gone, the system closes the
writing end, and a read tells end-of-file instead of "nothing yet".  No process id is looked up, so
none can be reused, and a supervisor that is killed before the driver has started is noticed too.
The driver also locks the pipe, which tells the supervisor when the driver is gone in turn.

The driver also ends with its JVM, its parent: a driver whose JVM was killed is reported as lost, so
it must not commit any more.  The JVM in turn ends with its Python (Spark's PythonRunner waits for
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
"""Exit code of a driver that ended because its supervisor did (EX_TEMPFAIL of sysexits.h)."""
_PARENT_SECONDS: Final = 0.5
_DRIVER_SECONDS: Final = 30.0
_DRIVER_STEP_SECONDS: Final = 0.05
_NAME: Final = "lifeline"


@contextmanager
def held_lifeline(folder: Path) -> Iterator[Path]:
    """A lifeline in this folder: held while the block runs, this process lives and its parent does.

    The parent counts because a task runner whose own supervisor was killed is given up: its task
    may be running somewhere else already.
    """
    path = folder / _NAME
    os.mkfifo(path, 0o600)
    # A pipe opens for writing without waiting only while somebody reads.
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
    """Whether no driver of this lifeline runs any more, after waiting for it for a while.

    To be asked when the lifeline is no longer held.  A driver that starts later ends at once.
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
    """The writing end; closed once, by whichever thread comes first."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()

    def let_go(self) -> None:
        """Close it, unless it is closed."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


class Supervised:
    """The driver's end of a lifeline.  It must be made where the supervisor may already be gone."""

    def __init__(self, path: str | Path) -> None:
        self._check_parent = ends_with_parent()
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):
            _end(f"the lifeline {path} is no longer held")

    def watch(self) -> None:
        """End this process as soon as the supervisor or the parent process is gone."""
        self.check()
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def check(self) -> None:
        """End this process if the supervisor or the parent process is gone.

        To be called before anything that others can see: the watching thread may be late.
        """
        self._check_parent()
        try:
            os.read(self._descriptor, 1)
        except BlockingIOError:
            return  # somebody still holds the other end
        _end("its supervisor is gone")

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while True:
            poll.poll(_PARENT_SECONDS * 1000)
            self.check()


def ends_with_parent() -> Callable[[], None]:
    """A check that ends this process once its present parent is gone.

    For work in a task runner itself: without its supervisor, its task may run somewhere else.
    """
    parent = os.getppid()

    def check() -> None:
        if os.getppid() != parent:
            _end("the process that started it is gone")

    return check


def _end(why: str) -> NoReturn:
    # Nothing is cleaned up on purpose: it would take time, and a crash at any point is harmless.
    logger.error("this process ends without another commit: %s", why)
    os._exit(ENDED_WITH_SUPERVISOR)
