"""Which process wrote an entry, and whether it still runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path


def this_process() -> dict[str, object]:
    """What identifies this process for good: machine, container, process id, and when it began."""
    return {
        "host": socket.gethostname(),
        "space": _space(),
        "pid": os.getpid(),
        "began": _began(os.getpid()),
    }


def is_gone(process: Mapping[str, object]) -> bool | None:
    """Whether the process has ended; None if that cannot be seen from here (another machine)."""
    if process.get("host") != socket.gethostname() or process.get("space") != _space():
        return None
    pid = process.get("pid")
    if not isinstance(pid, int):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is another user's, and it is there
    began = process.get("began")
    return began is not None and began != _began(pid)


def _space() -> str | None:
    """The boot and the process namespace that process ids of here belong to; None off Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _began(pid: int) -> int | None:
    """When the process began, in ticks since the boot; None off Linux, or if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Field 22; the second is the command in parentheses, which may hold anything.
    fields = text.rpartition(")")[2].split()
    # A process that nobody waited for yet has ended all the same.
    return None if fields[0] == "Z" else int(fields[19])
