"""Tags: named snapshots (Java: `tag/Tag`, `utils/TagManager`).

A tag file holds the JSON of its snapshot.  Only a tag with a retention time has two additional
fields, because readers before 0.8 did not know them: the creation time in local wall clock time,
and the retention time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, cast

from paimon_core.errors import SEE_INSPECT, InvalidArgument, NoSuchVersion, ReferenceExists
from paimon_core.io.file_io import FileIO
from paimon_core.io.json_text import to_pretty_json
from paimon_core.io.named_files import check_is_file, files_named, read_listed
from paimon_core.io.read_retry import read_with_retries
from paimon_core.paths import TAG_PREFIX, TablePaths
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_from_json, snapshot_to_object

_CREATE_TIME: Final = "tagCreateTime"
_TIME_RETAINED: Final = "tagTimeRetained"
_NANOS: Final = 10**9
_NANOS_OF_MILLI: Final = 10**6
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Tag:
    """A named snapshot.

    `create_time` is nanoseconds since 1970 of the *local wall clock without zone*, `time_retained`
    nanoseconds; both only on tags with a retention time.
    """

    name: str
    snapshot: Snapshot
    create_time: int | None = None
    time_retained: int | None = None

    @property
    def expires_at_millis(self) -> int | None:
        """Return the expiry time in local wall clock milliseconds.

        None if the tag never expires.
        """
        if self.create_time is None or self.time_retained is None:
            return None
        return (self.create_time + self.time_retained) // _NANOS_OF_MILLI


@dataclass(frozen=True, slots=True)
class TagStore:
    """Reads and writes `tag/tag-NAME` of one branch; `table` is the name for messages."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> TagStore:
        """Return the tags of another branch."""
        return TagStore(self.io, self.paths.of_branch(branch), self.table)

    def names(self) -> list[str]:
        """Return all names, sorted; CorruptTable if one of them is a folder."""
        names = []
        for file in files_named(self.io, self.paths.tag_dir, TAG_PREFIX):
            # The folder of the success files is there, too, and its name starts like that of a tag.
            if not (file.is_dir and self.paths.tag_success_dir.endswith(f"/{file.name}")):
                check_is_file(file, self.table)
                names.append(file.name.removeprefix(TAG_PREFIX))
        return sorted(names)

    def all(self) -> list[Tag]:
        """Return all tags by snapshot id, then name; one deleted during the call is left out."""
        found = read_listed(
            self.io, self.table, lambda: {name: name for name in self.names()}, self.get_or_none
        )
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def get(self, name: str) -> Tag:
        """Return the tag; NotFound if it does not exist, CorruptTable if it is unreadable."""
        tag = self.get_or_none(name)
        if tag is None:
            raise self._not_found(name)
        return tag

    def get_or_none(self, name: str) -> Tag | None:
        """Return the tag or None if it does not exist; CorruptTable if it is unreadable."""
        path = self.paths.tag(_checked(name))
        try:
            return read_with_retries(
                self.io, path, lambda text: tag_from_json(name, text), table=self.table
            )
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return self.io.exists(self.paths.tag(_checked(name)))

    def modified_millis(self, name: str) -> int | None:
        """Return the write time of the tag's file in epoch milliseconds; None if it is missing."""
        try:
            return self.io.stat(self.paths.tag(_checked(name))).modified_millis
        except FileNotFoundError:
            return None

    def create(self, tag: Tag) -> None:
        """Create the tag; ReferenceExists if the name is taken."""
        path = self.paths.tag(_checked(tag.name))
        if not self.io.create_if_absent(path, tag_to_json(tag).encode()):
            raise ReferenceExists(
                f"tag {tag.name!r} of table {self.table} already exists", table=self.table
            )

    def replace(self, tag: Tag) -> None:
        """Point an existing tag at another snapshot; NotFound if it does not exist."""
        path = self.paths.tag(_checked(tag.name))
        if not self.io.exists(path):
            raise self._not_found(tag.name)
        self.io.overwrite(path, tag_to_json(tag).encode())

    def rename(self, name: str, new_name: str) -> None:
        """Rename the tag; NotFound, or ReferenceExists if the new name is taken."""
        source, target = self.paths.tag(_checked(name)), self.paths.tag(_checked(new_name))
        try:
            renamed = self.io.rename(source, target)
        except FileNotFoundError as e:
            raise self._not_found(name) from e
        if not renamed:
            raise ReferenceExists(
                f"tag {new_name!r} of table {self.table} already exists", table=self.table
            )

    def delete(self, name: str) -> bool:
        """Delete only the tag's file.

        Return False if it was missing (object stores cannot tell).
        """
        return self.io.delete(self.paths.tag(_checked(name)))

    def _not_found(self, name: str) -> NoSuchVersion:
        return NoSuchVersion(
            f"tag {name!r} of table {self.table} does not exist",
            table=self.table,
            next_step=SEE_INSPECT,
        )


def tag_from_json(name: str, text: bytes | str) -> Tag:
    """Parse the text of a tag file; errors as `snapshot_from_json`."""
    snapshot = snapshot_from_json(text)
    extra = dict(snapshot.extra)
    created, retained = extra.pop(_CREATE_TIME, None), extra.pop(_TIME_RETAINED, None)
    return Tag(
        name,
        replace(snapshot, extra=extra),
        None if created is None else _nanos_of_date(created),
        None if retained is None else _nanos_of_seconds(retained),
    )


def tag_to_json(tag: Tag) -> str:
    """Return the text of a tag file as Java prints it.

    Without retention time, the snapshot's text.
    """
    obj = snapshot_to_object(tag.snapshot)
    if tag.time_retained is not None:
        if tag.create_time is not None:
            obj[_CREATE_TIME] = _date_array(tag.create_time)
        obj[_TIME_RETAINED] = Decimal(tag.time_retained).scaleb(-9)
    return to_pretty_json(obj)


def _checked(name: str) -> str:
    if not name.strip():
        raise InvalidArgument("the name of a tag must not be blank")
    if "/" in name or "\0" in name:
        raise InvalidArgument(f"the name of a tag must not hold a slash or NUL: {name!r}")
    return name


def _nanos_of_date(value: object) -> int:
    """Parse Jackson's LocalDateTime: text, or [year, month, day, hour, minute, second?, nanos?]."""
    if isinstance(value, str):
        moment, _, fraction = value.partition(".")
        date = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        return _seconds(date) * _NANOS + int(fraction.ljust(9, "0")[:9] or "0")
    parts = cast("Sequence[int]", value)
    if not isinstance(value, list) or not 5 <= len(parts) <= 7:
        raise ValueError(f"{_CREATE_TIME} is not a date: {value!r}")
    date = datetime(*parts[:6], tzinfo=UTC)  # type: ignore[misc,arg-type]  # five or six integers
    return _seconds(date) * _NANOS + (parts[6] if len(parts) == 7 else 0)


def _seconds(date: datetime) -> int:
    since = date - _EPOCH
    return since.days * 86_400 + since.seconds


def _date_array(nanos: int) -> list[int]:
    seconds, fraction = divmod(nanos, _NANOS)
    date = datetime.fromtimestamp(seconds, UTC)
    parts = [date.year, date.month, date.day, date.hour, date.minute]
    if date.second or fraction:
        parts.append(date.second)
    if fraction:
        parts.append(fraction)
    return parts


def _nanos_of_seconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError(f"{_TIME_RETAINED} is not a number of seconds: {value!r}")
    return int(Decimal(value).scaleb(9))
