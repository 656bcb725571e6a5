"""Consumers: how far named readers have come (Java: `consumer/ConsumerManager`).

A consumer keeps all snapshots from its next one on.  It expires by the time its file was last
written, which a reader does as it proceeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO, FileStat, map_parallel
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.read_retry import read_with_retries
from paimon_core.names import checked_long
from paimon_core.paths import CONSUMER_PREFIX, TablePaths


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader's progress: the snapshot it wants next, and when it said so (epoch millis)."""

    id: str
    next_snapshot: int
    modified_millis: int


@dataclass(frozen=True, slots=True)
class ConsumerStore:
    """Reads and changes `consumer/consumer-ID` of one branch; `table` is the name for messages."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> ConsumerStore:
        """The consumers of another branch."""
        return ConsumerStore(self.io, self.paths.of_branch(branch), self.table)

    def ids(self) -> list[str]:
        """The ids of all consumers, sorted, whether their files can be read or not."""
        return [f.name.removeprefix(CONSUMER_PREFIX) for f in self._files()]

    def all(self) -> list[Consumer]:
        """All consumers by id; one deleted while they are read is left out.

        CorruptTable if one cannot be read: no one can know which snapshots it holds back.
        """
        found = map_parallel(self.io, self._read, self._files())
        return [c for c in found if c is not None]

    def _files(self) -> list[FileStat]:
        listed = self.io.list_dir(self.paths.consumer_dir)
        mine = (f for f in listed if f.name.startswith(CONSUMER_PREFIX) and not f.is_dir)
        return sorted(mine, key=lambda f: f.name)

    def get(self, consumer_id: str) -> Consumer:
        """The consumer; NotFound if there is none, CorruptTable if it cannot be read."""
        path = self.paths.consumer(_checked(consumer_id))
        try:
            found = self._read(self.io.stat(path))
        except FileNotFoundError:
            found = None
        if found is None:
            raise NotFound(
                f"consumer {consumer_id!r} of table {self.table} does not exist", table=self.table
            )
        return found

    def furthest_behind(self) -> Consumer | None:
        """The consumer that holds the others' snapshots back; None if there are no consumers."""
        return min(self.all(), key=lambda c: (c.next_snapshot, c.id), default=None)

    def min_next_snapshot(self) -> int | None:
        """The smallest snapshot that any consumer still wants, None without consumers."""
        return min((c.next_snapshot for c in self.all()), default=None)

    def set(self, consumer_id: str, next_snapshot: int) -> None:
        """Make the consumer, or move it; its time becomes now."""
        content = to_pretty_json({"nextSnapshot": next_snapshot}).encode()
        self.io.overwrite(self.paths.consumer(_checked(consumer_id)), content)

    def delete(self, consumer_id: str) -> bool:
        """Delete the consumer; False if it is known to have been missing."""
        return self.io.delete(self.paths.consumer(_checked(consumer_id)))

    def _read(self, file: FileStat) -> Consumer | None:
        try:
            next_snapshot = read_with_retries(self.io, file.path, _next_snapshot, table=self.table)
        except FileNotFoundError:
            return None
        return Consumer(
            file.name.removeprefix(CONSUMER_PREFIX), next_snapshot, file.modified_millis
        )


def _next_snapshot(text: bytes) -> int:
    return checked_long(parse_json_object(text)["nextSnapshot"], "nextSnapshot")


def _checked(consumer_id: str) -> str:
    if not consumer_id.strip() or "/" in consumer_id or "\0" in consumer_id:
        raise InvalidArgument(f"not a consumer id: {consumer_id!r}")
    return consumer_id
