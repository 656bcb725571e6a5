"""A cache of decoded manifests and manifest lists, so that a job reads each of them once.

These files never change and their names contain a UUID, so cached content stays valid.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sized
from typing import Final, Generic, TypeVar

from paimon_core.manifest.avro_codec import SeenRecords
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.manifest_file import SizedEntries
from paimon_core.manifest.manifest_list import SizedList

T = TypeVar("T", bound=Sized)
DEFAULT_CAPACITY = 400_000
"""The maximum number of cached entries; an entry takes about one KiB."""
_MOST_BYTES: Final = 16 * 1024**2
"""The maximum size of cached manifests that are not decoded."""


class _Held(Generic[T]):
    """An LRU cache of values by name; `capacity` limits the sum of their lengths."""

    __slots__ = ("_capacity", "_held", "_lock", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[str, T] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def get(self, name: str, load: Callable[[], T]) -> T:
        with self._lock:
            held = self._values.get(name)
            if held is not None:
                self._values.move_to_end(name)
                return held
        loaded = load()
        with self._lock:
            if name not in self._values and len(loaded) <= self._capacity:
                self._values[name] = loaded
                self._held += len(loaded)
                while self._held > self._capacity:
                    _, dropped = self._values.popitem(last=False)
                    self._held -= len(dropped)
        return loaded


class ManifestCache:
    """The content of recently read manifests and manifest lists.

    `seen_lists` are the records of the last lists, which the next one may begin with.
    """

    __slots__ = ("_bytes", "_capacity", "_entries", "_lists", "seen_lists")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._bytes: _Held[bytes] = _Held(_MOST_BYTES)
        self._entries: _Held[SizedEntries] = _Held(capacity)
        self._lists: _Held[SizedList] = _Held(capacity // 4)
        self.seen_lists: SeenRecords[ManifestFileMeta] = SeenRecords()

    def get(self, name: str, load: Callable[[], SizedEntries]) -> SizedEntries:
        """Return the entries of manifest `name`, from `load` if they are not cached."""
        return self._entries.get(name, load)

    def get_list(self, name: str, load: Callable[[], SizedList]) -> SizedList:
        """Return the manifests in list `name`, from `load` if they are not cached."""
        return self._lists.get(name, load)

    def get_bytes(self, name: str, load: Callable[[], bytes]) -> bytes:
        """Return manifest `name` as it is stored, from `load` if it is not cached."""
        return self._bytes.get(name, load)

    def __reduce__(self) -> tuple[type[ManifestCache], tuple[int]]:
        # A handle that is sent to an executor does not take the cache along.
        return (ManifestCache, (self._capacity,))
