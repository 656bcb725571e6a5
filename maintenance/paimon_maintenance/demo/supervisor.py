"""Runs a command and ends all of its descendants when told, or when whoever started it is gone.

    python supervisor.py COMMAND ...

Standard input is the leash: when it closes, for whatever reason (also when the owner was killed
with SIGKILL), everything that descends from here is ended: SIGTERM first, SIGKILL for what is left
after a while.  On Linux the supervisor adopts orphaned descendants, so that none can hide by outliving
its parent or by leaving the process group.  Standard library only: it must start at once.
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
    """The command's exit code; 128 + SIGTERM if the leash was let go first."""
    for caught in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(caught, signal.SIG_IGN)
    _adopt_orphans()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # The command's own children start with ordinary signals.
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
    """Bury adopted processes that have ended; the child of our own is its Popen's to bury."""
    for pid in _children(os.getpid()):
        if pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_descendants() -> None:
    """End everything that descends from this process; returns when nothing is left."""
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
    """The processes that descend from this one, parents before children; zombies left out."""
    parents = _parents()
    found = [of]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _children(of: int) -> list[int]:
    return [child for child, parent in _parents(zombies=True).items() if parent == of]


def _parents(*, zombies: bool = False) -> dict[int, int]:
    """Every process's parent."""
    if not Path("/proc/self/stat").exists():
        return _parents_by_ps(zombies=zombies)
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything, so what counts is behind the last one.
            stat = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
            state, parent, threads = stat[0], int(stat[1]), int(stat[17])
        except (OSError, ValueError, IndexError):
            continue
        # The first thread of a dying process may be gone before the others, who keep its children.
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
