"""Runs a command, and ends all of its descendants on request or when the owner ends.

    python supervisor.py COMMAND ...

When standard input closes, for any reason (including SIGKILL of the owner), the supervisor ends all
descendants: with SIGTERM first, then with SIGKILL after a timeout.  On Linux the supervisor adopts
orphaned descendants, so that none survives by outliving its parent or leaving the process group.
It uses only the standard library, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_SECONDS = 5.0
_GIVE_UP_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.5


def main(command: list[str]) -> int:
    """The exit code of the command; 128 + SIGTERM if standard input closed first."""
    for caught in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(caught, signal.SIG_IGN)
    _adopt_orphans()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # The command starts with default signal handling.
        preexec_fn=_ordinary_signals,  # noqa: PLW1509 - no threads here
    )
    code = 128 + signal.SIGTERM
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_SECONDS)
        if readable and not os.read(0, 1):
            break
        ended = child.poll()
        if ended is not None:
            code = ended
            break
        _reap(child.pid)
    end_descendants()
    return code


def _ordinary_signals() -> None:
    for caught in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(caught, signal.SIG_DFL)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(but: int | None = None) -> None:
    """Reap adopted processes that have ended; Popen reaps the direct child."""
    for pid in _children(os.getpid()):
        if pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_descendants() -> None:
    """End all descendants of this process, and wait until they have ended."""
    started = time.monotonic()
    asked: set[int] = set()
    while True:
        _reap()
        left = descendants(os.getpid())
        if not left:
            _reap()
            return
        waited = time.monotonic() - started
        if waited > _GIVE_UP_SECONDS:
            return
        for pid in left:
            if waited > GRACE_SECONDS:
                _signal(pid, signal.SIGKILL)
            elif pid not in asked:
                asked.add(pid)
                _signal(pid, signal.SIGTERM)
        time.sleep(0.1)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def descendants(of: int) -> list[int]:
    """The descendants of a process, parents before children, without zombies."""
    parents = _parents()
    found = [of]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _children(of: int) -> list[int]:
    return [child for child, parent in _parents(zombies=True).items() if parent == of]


def _parents(*, zombies: bool = False) -> dict[int, int]:
    """The parent of every process."""
    if not Path("/proc/self/stat").exists():
        return _parents_by_ps(zombies=zombies)
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may contain anything, so parse what
            # follows the last parenthesis.
            stat = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
            state, parent, threads = stat[0], int(stat[1]), int(stat[17])
        except (OSError, ValueError, IndexError):
            continue
        # The first thread of an ending process may end before the others, which keep its children.
        if zombies or state != "Z" or threads > 1:
            found[int(entry.name)] = parent
    return found


def _parents_by_ps(*, zombies: bool) -> dict[int, int]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
    )
    rows = (line.split(None, 2) for line in listing.stdout.splitlines())
    return {
        int(pid): int(parent) for pid, parent, state in rows if zombies or not state.startswith("Z")
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
