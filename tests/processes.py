"""Processes that tests start in a session of their own, with all that they start in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 90.0


def in_session(session: int) -> dict[int, str]:
    """The processes that a process and its children started, and their commands; no zombies."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == session and state != "Z":
            found[int(folder.name)] = command
    return found


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a session that a test started, and wait for its leader."""
    for pid in in_session(leader.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    leader.wait()


def wait_until(ready: Callable[[], bool], why_not: Callable[[], str]) -> None:
    """Wait until it is ready; fails with what `why_not` says after a while."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline, why_not()
        time.sleep(0.02)


@contextmanager
def watched_arguments() -> Iterator[list[str]]:
    """The commands of all processes that run in the meantime."""
    seen: dict[str, None] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen[file.read_bytes().replace(b"\0", b" ").decode(errors="replace")] = None
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    commands: list[str] = []
    try:
        yield commands
    finally:
        over.set()
        watcher.join()
        commands += seen
