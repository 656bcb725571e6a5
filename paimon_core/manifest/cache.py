"""Decoded manifests and manifest lists, kept so that one job reads each of them once.

Neither changes once written, so what was decoded stays true for as long as the file's name means
the same file (names hold a UUID).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from paimon_core.manifest.data_file import ManifestEntry, ManifestFileMeta

T = TypeVar("T")
DEFAULT_CAPACITY = 400_000
"""Entries kept at most; an entry takes about one KiB."""


class _Held(Generic[T]):
    """Sequences by name, least recently used out first; `capacity` counts what is in them."""

    __slots__ = ("_capacity", "_held", "_lock", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[str, tuple[T, ...]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, name: str, load: Callable[[], Sequence[T]]) -> tuple[T, ...]:
        with self._lock:
            held = self._values.get(name)
            if held is not None:
                self._values.move_to_end(name)
                return held
        loaded = tuple(load())
        with self._lock:
            if name not in self._values and len(loaded) <= self._capacity:
                self._values[name] = loaded
                self._held += len(loaded)
                while self._held > self._capacity:
                    _, dropped = self._values.popitem(last=False)
                    self._held -= len(dropped)
        return loaded


class ManifestCache:
    """The entries of recently read manifests, and what recently read lists name."""

    __slots__ = ("_capacity", "_entries", "_lists")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._entries: _Held[ManifestEntry] = _Held(capacity)
        self._lists: _Held[ManifestFileMeta] = _Held(capacity // 4)

    def get(self, name: str, load: Callable[[], list[ManifestEntry]]) -> tuple[ManifestEntry, ...]:
        """The entries of manifest `name`, from `load` if they are not held."""
        return self._entries.get(name, load)

    def get_list(
        self, name: str, load: Callable[[], list[ManifestFileMeta]]
    ) -> list[ManifestFileMeta]:
        """The manifests that list `name` names, from `load` if they are not held."""
        return list(self._lists.get(name, load))

    def __reduce__(self) -> tuple[type[ManifestCache], tuple[int]]:
        # A handle that travels to an executor leaves the cache behind.
        return (ManifestCache, (self._capacity,))
