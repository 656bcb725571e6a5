"""When automatic tags are due (Java: `tag/TagAutoCreation`).

All times are milliseconds of a wall clock; `paimon_core.refs.tag_period` says what periods are and
how their tags are called.
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
    """A snapshot by id, and its time (process time or watermark); None: it has no watermark."""

    snapshot_id: int
    time: int | None


@dataclass(frozen=True, slots=True)
class TagSchedule:
    """What automatic creation does: tags to create and delete, and which period is next."""

    create: tuple[TaggedSnapshot, ...]
    delete: tuple[str, ...]
    next_period: int | None


def automatic_tags(tags: Iterable[tuple[str, int]], period: TagPeriod) -> list[TaggedSnapshot]:
    """Those of the tags (name, snapshot id) that automatic creation made, by snapshot and time."""
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
    """What is due (Java: `TagAutoCreation`).

    `existing` are the automatic tags as `automatic_tags` gives them, `moments` the snapshots after
    the last of them, oldest first.  The first tag of a table names the period before its
    snapshot's; later ones wait for the next period and the delay.  One tag a snapshot: with
    `completion`, missed periods are made up for one by one.  Tags beyond `retained_max` go also
    when none is made (Java waits for the next one): a run that was interrupted left them.
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
