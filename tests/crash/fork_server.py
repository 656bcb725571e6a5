"""Functions in processes of their own, which may die by SIGKILL.

A server of one thread, everything imported, forks for each call: a child starts in a few
milliseconds, and no lock of another thread is copied while it is held (pyarrow's threads start in
the child).  Each child has a time limit that holds whatever it hangs in, for it is a signal's
default action.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from paimon_maintenance.registry import JOBS

LIMIT_SECONDS = 60
WARM = ("harness", "streams")
"""Modules of this folder whose functions are called."""
CARES = "jemalloc_bg_thd"
"""The one other thread, of pyarrow's allocator, which takes care of forks itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: by a signal, or with a value."""

    signal: int | None
    value: Any = None


class ForkServer:
    """The test's end: starts the server at the first call, which ends with its input."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.communicate()

    def call(self, module: str, function: str, *arguments: object) -> Ended:
        """How `module.function(*arguments)` ended in a new process; what it raises is raised."""
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )
        requests, replies = self._server.stdin, self._server.stdout
        assert requests is not None
        assert replies is not None
        pickle.dump((module, function, arguments), requests)
        requests.flush()
        code, reply = pickle.load(replies)
        if code == signal.SIGALRM:
            raise TimeoutError(f"{function}{arguments} took more than {LIMIT_SECONDS} s")
        if code:
            return Ended(code)
        raised, value = pickle.loads(reply)
        assert not raised, value
        return Ended(None, value)


def serve() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what children print is none of the replies
    for name in WARM:
        importlib.import_module(name)
    for job in JOBS.values():
        job.load()
    pa.array([1])  # imports pandas
    others = [t for t in Path("/proc/self/task").iterdir() if t.name != str(os.getpid())]
    assert [(t / "comm").read_text().strip() for t in others] in ([], [CARES])
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_forked(*request), replies)
        replies.flush()


def _forked(module: str, function: str, arguments: tuple[object, ...]) -> tuple[int, bytes]:
    """(the signal that ended the child or 0, what it sent)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_SECONDS)
        try:
            value = getattr(importlib.import_module(module), function)(*arguments)
            reply = pickle.dumps((False, value))
        except BaseException:  # noqa: BLE001 - told to the test
            reply = pickle.dumps((True, traceback.format_exc()))
        with os.fdopen(writing, "wb") as out:
            out.write(reply)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as sent:
        reply = sent.read()
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, reply


if __name__ == "__main__":
    serve()
