"""Temporary files of the tests in memory: fsync, renames and deletes take most of their time on a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
BYTES = 2 * 1024**3
"""What must be free there: a run of all tests takes less than a quarter of it."""


def make() -> Path | None:
    """A folder in memory, from now on the one of all temporary files, also of child processes.

    None if `TMPDIR` names another place already, or memory has no room.
    """
    if "TMPDIR" in os.environ or not _has_room():
        return None
    folder = Path(tempfile.mkdtemp(prefix="tests-", dir=MEMORY))
    folder.chmod(0o711)  # PostgreSQL runs as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


def remove(folder: Path) -> None:
    """Give the memory back."""
    os.environ.pop("TMPDIR", None)
    tempfile.tempdir = None
    shutil.rmtree(folder, ignore_errors=True)


def _has_room() -> bool:
    if not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    # Some tests execute programs that they write, and JVMs libraries.
    return found.f_bavail * found.f_frsize >= BYTES and not found.f_flag & os.ST_NOEXEC
