"""The identity of a process, different from that of a later process with the same pid."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

_ENDED: Final = "ZX"
"""States of a process that has ended but was not reaped by its parent."""


def process_identity(pid: int) -> str:
    """Boot, PID namespace and start time of the process; "" if it has ended, or off Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        state, started = fields[0], fields[19]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
    return "" if state in _ENDED else f"{boot}:{namespace}:{started}"


def this_process() -> dict[str, object]:
    """Host, number and identity of this process, for a later `has_ended`."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "identity": process_identity(pid)}


def has_ended(*, host: str, pid: int, identity: str) -> bool | None:
    """Whether the process has ended; None if this host cannot tell.

    A pid means nothing on another machine, after a reboot or in another container.
    """
    if not identity or host != socket.gethostname():
        return None
    if identity.rpartition(":")[0] != process_identity(os.getpid()).rpartition(":")[0]:
        return None
    return process_identity(pid) != identity
