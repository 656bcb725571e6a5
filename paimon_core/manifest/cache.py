"""Decoded manifests, kept so that one job reads each manifest once.

Manifests never change once written, so what was decoded stays true for as long as the file's name
means the same file (names hold a UUID).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from paimon_core.manifest.data_file import ManifestEntry

DEFAULT_CAPACITY = 400_000
"""Entries kept at most; an entry takes about one KiB."""


class ManifestCache:
    """The entries of recently read manifests by file name, least recently used out first."""

    __slots__ = ("_capacity", "_entries", "_held", "_lock")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[str, tuple[ManifestEntry, ...]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, name: str, load: Callable[[], list[ManifestEntry]]) -> tuple[ManifestEntry, ...]:
        """The entries of manifest `name`, from `load` if they are not held."""
        with self._lock:
            held = self._entries.get(name)
            if held is not None:
                self._entries.move_to_end(name)
                return held
        loaded = tuple(load())
        with self._lock:
            if name not in self._entries and len(loaded) <= self._capacity:
                self._entries[name] = loaded
                self._held += len(loaded)
                while self._held > self._capacity:
                    _, dropped = self._entries.popitem(last=False)
                    self._held -= len(dropped)
        return loaded

    def __reduce__(self) -> tuple[type[ManifestCache], tuple[int]]:
        # A handle that travels to an executor leaves the cache behind.
        return (ManifestCache, (self._capacity,))
