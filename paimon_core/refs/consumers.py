"""Consumers: how far streaming readers have come (Java: `consumer/ConsumerManager`).

`consumer/consumer-ID` holds `{"nextSnapshot" : 5}`: everything before that snapshot was read.
Expiry keeps the snapshot and all after it.  A consumer that stops updating its file holds
snapshots back until the file is older than `consumer.expiration-time`.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.settled import read_settled
from paimon_core.paths import CONSUMER_PREFIX, TablePaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A reader's position; `modified_millis` is when its file last changed (since the epoch)."""

    id: str
    next_snapshot: int
    modified_millis: int


@dataclass(frozen=True, slots=True)
class ConsumerStore:
    """Reads and writes `consumer/consumer-ID`."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> ConsumerStore:
        """The consumers of another branch."""
        return ConsumerStore(self.io, self.paths.of_branch(branch), self.table)

    def list(self) -> list[Consumer]:
        """All consumers, sorted by id.  CorruptTable if one cannot be read."""
        found: list[Consumer] = []
        for f in self.io.list_dir(self.paths.consumer_dir):
            if f.is_dir or not f.name.startswith(CONSUMER_PREFIX):
                continue
            try:
                position = self._position(f.name[len(CONSUMER_PREFIX) :])
            except FileNotFoundError:
                continue  # deleted since it was listed
            found.append(
                Consumer(
                    id=f.name[len(CONSUMER_PREFIX) :],
                    next_snapshot=position,
                    modified_millis=f.modified_millis,
                )
            )
        return sorted(found, key=lambda c: c.id)

    def get(self, consumer_id: str) -> Consumer:
        """The consumer; NotFound if there is none."""
        path = self.paths.consumer(consumer_id)
        try:
            stat = self.io.stat(path)
            position = self._position(consumer_id)
        except FileNotFoundError as e:
            raise NotFound(
                f"table {self.table} has no consumer {consumer_id}", table=self.table, file=path
            ) from e
        return Consumer(
            id=consumer_id, next_snapshot=position, modified_millis=stat.modified_millis
        )

    def set(self, consumer_id: str, next_snapshot: int) -> None:
        """Put the consumer at a snapshot, making it if need be."""
        if not consumer_id.strip() or "/" in consumer_id:
            raise InvalidArgument(f"not a consumer id: {consumer_id!r}")
        text = to_pretty_json({"nextSnapshot": next_snapshot})
        self.io.overwrite(self.paths.consumer(consumer_id), text.encode())

    def delete(self, consumer_id: str) -> bool:
        """Delete the consumer; whether it was there."""
        return self.io.delete(self.paths.consumer(consumer_id))

    def _position(self, consumer_id: str) -> int:
        return read_settled(
            self.io, self.paths.consumer(consumer_id), _next_snapshot, table=self.table
        )


def _next_snapshot(data: bytes) -> int:
    value = parse_json_object(data).get("nextSnapshot")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("nextSnapshot is missing or no number")  # noqa: TRY004 - all unreadable text is a ValueError
    return value
