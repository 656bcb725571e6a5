"""When automatic tags are due (Java: `tag/TagAutoCreation`).

All times are milliseconds of a wall clock.  `paimon_core.refs.tag_period` defines periods and the
names of their tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paimon_core.refs.tag_period import TagPeriod as TagPeriod  # noqa: PLC0414 - its users' noun


class TaggedSnapshot(NamedTuple):
    """An automatic tag and the id of its snapshot."""

    name: str
    snapshot_id: int


class Moment(NamedTuple):
    """A snapshot id and its time (process time or watermark); None without a watermark."""

    snapshot_id: int
    time: int | None


@dataclass(frozen=True, slots=True)
class TagSchedule:
    """The result of automatic creation: tags to create and delete, and the next period."""

    create: tuple[TaggedSnapshot, ...]
    delete: tuple[str, ...]
    next_period: int | None


def automatic_tags(tags: Iterable[tuple[str, int]], period: TagPeriod) -> list[TaggedSnapshot]:
    """The automatic tags among these (name, snapshot id), by snapshot and time."""
    found = [TaggedSnapshot(n, i) for n, i in tags if period.time_of(n) is not None]
    return sorted(found, key=lambda t: (t.snapshot_id, period.time_of(t.name)))


def schedule_tags(
    existing: Sequence[TaggedSnapshot],
    moments: Iterable[Moment],
    period: TagPeriod,
    *,
    retained_max: int | None = None,
    completion: bool = False,
) -> TagSchedule:
    """The tags that are due (Java: `TagAutoCreation`).

    `existing` are the automatic tags from `automatic_tags`.  `moments` are the snapshots after the
    last of them, oldest first.  The first tag of a table names the period before that of its
    snapshot; later tags wait for the next period and the delay.  A snapshot gets one tag; with
    `completion`, later snapshots fill missed periods one by one.  Tags beyond `retained_max` are
    deleted even if no tag is due, because an interrupted run may have left them (Java waits for the
    next tag).
    """
    tags = list(existing)
    created: list[TaggedSnapshot] = []
    deleted: list[str] = []
    while retained_max is not None and len(tags) > retained_max:
        deleted.append(tags.pop(0).name)
    upcoming: int | None = None
    if tags:
        last = period.time_of(tags[-1].name)
        upcoming = None if last is None else last + period.millis
    for snapshot_id, time in moments:
        if time is None or (upcoming is not None and not period.is_due(upcoming, time)):
            continue
        this = upcoming if completion and upcoming is not None else period.last_complete(time)
        tag = TaggedSnapshot(period.name_of(this), snapshot_id)
        upcoming = this + period.millis
        if all(t.name != tag.name for t in tags):
            tags.append(tag)
            created.append(tag)
        while retained_max is not None and len(tags) > retained_max:
            oldest = tags.pop(0)
            if oldest in created:
                created.remove(oldest)
            else:
                deleted.append(oldest.name)
    return TagSchedule(tuple(created), tuple(deleted), upcoming)
