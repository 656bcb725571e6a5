"""What requirements.lock asks for.

The lock is a plain requirements file, made by the command in docs/decisions/0001-lock.md: one entry
is a line ``name==version [; marker]``, with its hashes on the indented lines below it.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Entry(NamedTuple):
    """One package of the lock; `text` is its lines as they stand there."""

    name: str
    version: str
    sha256: frozenset[str]
    text: str


def entries(lock: str) -> list[Entry]:
    """Every entry of the lock in its order; a package may have several, each with its marker."""
    blocks: list[list[str]] = []
    for line in lock.splitlines(keepends=True):
        if _ENTRY.match(line):
            blocks.append([line])
        elif blocks and line[:1].isspace():
            blocks[-1].append(line)
    found = []
    for lines in blocks:
        head, text = _ENTRY.match(lines[0]), "".join(lines)
        assert head is not None
        found.append(Entry(head["name"], head["version"], frozenset(_HASH.findall(text)), text))
    return found


def only(lock: str, names: frozenset[str]) -> str:
    """The part of the lock with these packages, itself a lock.  KeyError if one is not there."""
    chosen = [entry for entry in entries(lock) if entry.name in names]
    missing = names - {entry.name for entry in chosen}
    if missing:
        message = f"requirements.lock has no {', '.join(sorted(missing))}"
        raise KeyError(message)
    return "".join(entry.text for entry in chosen)


def key(lock: str, *parts: str) -> str:
    """A short name for what the lock gives under these conditions (Python, machine, folder)."""
    digest = hashlib.sha256("\0".join((lock, *parts)).encode())
    return digest.hexdigest()[:16]
