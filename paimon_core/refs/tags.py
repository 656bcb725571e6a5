"""Tags: snapshots that stay when their number expires (Java: `utils/TagManager`, `tag/Tag`).

`tag/tag-NAME` holds the snapshot's JSON as it is.  A tag with a time to live has two fields more:
`tagCreateTime`, local wall clock as `[year, month, day, hour, minute, second, nanos]` (seconds and
nanos are left out at the end when they are zero), and `tagTimeRetained`, seconds as a decimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from paimon_core.errors import AlreadyExists, InvalidArgument, NotFound
from paimon_core.io.file_io import FileIO, map_parallel
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.io.settled import read_settled
from paimon_core.paths import TAG_PREFIX, TablePaths
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_json import (
    snapshot_from_object,
    snapshot_to_json,
    snapshot_to_object,
)
from paimon_core.types.datetimes import civil_from_days, days_from_civil

_CREATE_TIME: Final = "tagCreateTime"
_TIME_RETAINED: Final = "tagTimeRetained"
_DAY_NANOS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag and the snapshot that it keeps.

    `create_time`: nanoseconds of local wall clock since 1970, `time_retained`: nanoseconds; both
    None for a tag without a time to live.
    """

    name: str
    snapshot: Snapshot
    create_time: int | None = None
    time_retained: int | None = None


@dataclass(frozen=True, slots=True)
class TagStore:
    """Reads, creates and deletes `tag/tag-NAME`; deleting here frees no files."""

    io: FileIO
    paths: TablePaths
    table: str

    def of_branch(self, branch: str) -> TagStore:
        """The tags of another branch."""
        return TagStore(self.io, self.paths.of_branch(branch), self.table)

    def names(self) -> list[str]:
        """All tag names, sorted."""
        return sorted(
            f.name[len(TAG_PREFIX) :]
            for f in self.io.list_dir(self.paths.tag_dir)
            if not f.is_dir and f.name.startswith(TAG_PREFIX)
        )

    def list(self) -> list[Tag]:
        """All tags, sorted by name.  What is deleted meanwhile is left out."""
        found = map_parallel(self.io, self._read_or_none, self.names())
        return [t for t in found if t is not None]

    def exists(self, name: str) -> bool:
        """Whether there is such a tag."""
        return self.io.exists(self.paths.tag(name))

    def get(self, name: str) -> Tag:
        """The tag; NotFound if there is none, CorruptTable if it cannot be read."""
        tag = self._read_or_none(name)
        if tag is None:
            raise NotFound(
                f"table {self.table} has no tag {name}", table=self.table, file=self.paths.tag(name)
            )
        return tag

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        create_time: int | None = None,
        time_retained: int | None = None,
    ) -> Tag:
        """The new tag; AlreadyExists if the name is taken by any other content."""
        check_tag_name(name)
        tag = Tag(
            name=name, snapshot=snapshot, create_time=create_time, time_retained=time_retained
        )
        if not self.io.create_if_absent(self.paths.tag(name), tag_to_json(tag).encode()):
            raise AlreadyExists(f"table {self.table} has a tag {name} already", table=self.table)
        return tag

    def replace(self, tag: Tag) -> None:
        """Put `tag` in place of the one of its name."""
        self.io.overwrite(self.paths.tag(tag.name), tag_to_json(tag).encode())

    def rename(self, name: str, new_name: str) -> None:
        """Give the tag another name: created first, then deleted, so that it is never missing."""
        tag = self.get(name)
        check_tag_name(new_name)
        renamed = replace(tag, name=new_name)
        if not self.io.create_if_absent(self.paths.tag(new_name), tag_to_json(renamed).encode()):
            raise AlreadyExists(
                f"table {self.table} has a tag {new_name} already", table=self.table
            )
        self.io.delete(self.paths.tag(name))

    def delete(self, name: str) -> bool:
        """Delete the tag's file; whether it was there."""
        return self.io.delete(self.paths.tag(name))

    def _read_or_none(self, name: str) -> Tag | None:
        path = self.paths.tag(name)
        try:
            return read_settled(
                self.io, path, lambda data: tag_from_json(name, data), table=self.table
            )
        except FileNotFoundError:
            return None


def check_tag_name(name: str) -> None:
    """Nothing, or InvalidArgument for a name that Java refuses or that is no file name."""
    if not name.strip():
        raise InvalidArgument("a tag needs a name that is not blank")
    if "/" in name or name in (".", ".."):
        raise InvalidArgument(f"not a tag name: {name!r}")


def tag_to_json(tag: Tag) -> str:
    """The text of the tag's file, as Java prints it."""
    if tag.create_time is None or tag.time_retained is None:
        return snapshot_to_json(tag.snapshot)
    fields = dict(snapshot_to_object(tag.snapshot))
    fields[_CREATE_TIME] = _local_date_time(tag.create_time)
    fields[_TIME_RETAINED] = Decimal(tag.time_retained).scaleb(-9).quantize(Decimal("1E-9"))
    return to_pretty_json(fields)


def tag_from_json(name: str, data: bytes | str) -> Tag:
    """The tag in the text of its file; ValueError if it cannot be decoded."""
    fields = parse_json_object(data)
    created, retained = fields.pop(_CREATE_TIME, None), fields.pop(_TIME_RETAINED, None)
    return Tag(
        name=name,
        snapshot=snapshot_from_object(fields),
        create_time=None if created is None else _nanos(created),
        time_retained=None if retained is None else int(Decimal(str(retained)) * 10**9),
    )


def _local_date_time(nanos: int) -> list[int]:
    days, of_day = divmod(nanos, _DAY_NANOS)
    seconds, fraction = divmod(of_day, 10**9)
    parts = [*civil_from_days(days), seconds // 3600, seconds // 60 % 60]
    if seconds % 60 or fraction:
        parts.append(seconds % 60)
    if fraction:
        parts.append(fraction)
    return parts


def _nanos(parts: object) -> int:
    if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) < 5:
        raise ValueError(f"{_CREATE_TIME} is not a list of date and time parts: {parts!r}")
    year, month, day, hour, minute, *rest = (int(p) for p in parts)
    second, fraction = (*rest, 0, 0)[:2]
    days = days_from_civil(year, month, day)
    return days * _DAY_NANOS + ((hour * 60 + minute) * 60 + second) * 10**9 + fraction
