"""Consumers: the progress of named readers (Java: `consumer/ConsumerManager`).

A consumer keeps all snapshots from its next one on.  It expires by the last write time of its file,
which the reader rewrites as it proceeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_core.errors import SEE_INSPECT, CorruptTable, InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO, FileStat
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.named_files import check_is_file, files_named, read_listed
from paimon_core.io.read_retry import read_whole, read_with_retries
from paimon_core.names import checked_long
from paimon_core.paths import CONSUMER_PREFIX, TablePaths

_NEXT: Final = "nextSnapshot"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader's progress: its next snapshot, and the time of the last update (epoch millis)."""

    id: str
    next_snapshot: int
    modified_millis: int


@dataclass(frozen=True, slots=True)
class UnreadableConsumer:
    """A consumer whose file cannot be read: the snapshots that it needs are unknown."""

    id: str
    modified_millis: int
    error: CorruptTable = field(compare=False)


@dataclass(frozen=True, slots=True)
class ConsumerStore:
    """Reads and writes `consumer/consumer-ID` of one branch; `table` is the name for messages."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> ConsumerStore:
        """Return the consumers of another branch."""
        return ConsumerStore(self.io, self.paths.of_branch(branch), self.table)

    def ids(self) -> list[str]:
        """Return the ids of all consumers, sorted, including those with unreadable files."""
        return [f.name.removeprefix(CONSUMER_PREFIX) for f in self._files()]

    def all(self) -> list[Consumer]:
        """Return all consumers by id; one deleted during the call is left out.

        Raises CorruptTable if one cannot be read: the snapshots that it needs are unknown.
        """
        found = read_listed(self.io, self.table, self._files_by_name, self._read)
        return sorted(found, key=lambda c: c.id)

    def each(self) -> list[Consumer | UnreadableConsumer]:
        """Return all consumers as `all`, those that cannot be read too."""
        found: list[Consumer | UnreadableConsumer] = read_listed(
            self.io, self.table, self._files_by_name, self._read_if_possible
        )
        return sorted(found, key=lambda c: c.id)

    def _files_by_name(self) -> dict[str, FileStat]:
        return {file.name: file for file in self._files()}

    def _read_if_possible(self, file: FileStat) -> Consumer | UnreadableConsumer | None:
        try:
            return self._read(file)
        except CorruptTable as e:
            name = file.name.removeprefix(CONSUMER_PREFIX)
            return UnreadableConsumer(name, file.modified_millis, e)

    def _files(self) -> list[FileStat]:
        found = files_named(self.io, self.paths.consumer_dir, CONSUMER_PREFIX)
        return sorted(found, key=lambda f: f.name)

    def get(self, consumer_id: str) -> Consumer:
        """Return the consumer; NotFound if it does not exist, CorruptTable if it is unreadable."""
        path = self.paths.consumer(_checked(consumer_id))
        try:
            found = self._read(self.io.stat(path))
        except FileNotFoundError:
            found = None
        if found is None:
            raise NotFound(
                f"consumer {consumer_id!r} of table {self.table} does not exist",
                table=self.table,
                next_step=SEE_INSPECT,
            )
        return found

    def furthest_behind(self) -> Consumer | None:
        """Return the consumer with the smallest next snapshot; None if there are no consumers."""
        return min(self.all(), key=lambda c: (c.next_snapshot, c.id), default=None)

    def min_next_snapshot(self) -> int | None:
        """Return the smallest snapshot that a consumer still needs; None without consumers."""
        return min((c.next_snapshot for c in self.all()), default=None)

    def set(self, consumer_id: str, next_snapshot: int) -> None:
        """Create or update the consumer; its time becomes now, and unknown fields stay."""
        path = self.paths.consumer(_checked(consumer_id))
        content = to_pretty_json({**self._fields(path), _NEXT: next_snapshot}).encode()
        self.io.overwrite(path, content)

    def delete(self, consumer_id: str) -> bool:
        """Delete the consumer; return False if it was missing (object stores cannot tell)."""
        return self.io.delete(self.paths.consumer(_checked(consumer_id)))

    def _fields(self, path: str) -> Mapping[str, object]:
        """Return what the consumer's file holds; nothing if it is missing or damaged.

        CorruptTable if there is a folder in its place.
        """
        try:
            return parse_json_object(read_whole(self.io, path, table=self.table))
        except (FileNotFoundError, ValueError):
            return {}

    def _read(self, file: FileStat) -> Consumer | None:
        check_is_file(file, self.table)
        try:
            next_snapshot = read_with_retries(self.io, file.path, _next_snapshot, table=self.table)
        except FileNotFoundError:
            return None
        return Consumer(
            file.name.removeprefix(CONSUMER_PREFIX), next_snapshot, file.modified_millis
        )


def _next_snapshot(text: bytes) -> int:
    return checked_long(parse_json_object(text)[_NEXT], _NEXT)


def _checked(consumer_id: str) -> str:
    if not consumer_id.strip() or "/" in consumer_id or "\0" in consumer_id:
        raise InvalidArgument(f"not a consumer id: {consumer_id!r}")
    return consumer_id
