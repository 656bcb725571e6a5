"""The snapshots of a table over time, with what refers to them, and what holds expiry back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_core.environment import Environment, ahead_of_utc
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.paths import MAIN_BRANCH
from paimon_core.reachability.references import on_branch
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.health.held import retention_of

MOST_SNAPSHOTS: Final = 300
"""The number of newest snapshots to read; of the older ones only their number is known."""
MOST_MARKS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDot:
    """One snapshot; `beyond`: it exceeds the retention of the table."""

    id: int
    at_millis: int
    kind: str
    user: str
    schema_id: int
    delta_rows: int | None
    total_rows: int | None
    watermark: int | None
    beyond: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A tag, the newest snapshot of a branch, or the next snapshot that a consumer reads.

    `at_millis` is the time of the snapshot, None if it is unknown; `until_millis` when
    it expires, None for never.
    """

    kind: str
    name: str
    snapshot: int
    at_millis: int | None
    until_millis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The newest snapshots, oldest first, and the marks.

    `blocked_by`: the consumer that keeps snapshots beyond the retention, None without one.
    """

    count: int
    earliest: int | None
    latest: int | None
    left_out: int
    beyond: int
    blocked_by: str | None
    blocked: int
    num_retained_min: int
    num_retained_max: int | None
    time_retained_millis: int
    snapshots: tuple[SnapshotDot, ...]
    marks: tuple[Mark, ...]
    more_marks: int


def timeline_of(table: FileStoreTable, env: Environment) -> Timeline:
    """The time line of the table; reads snapshots, tags, branches and consumers, no manifests."""
    now = env.now_millis()
    ids = sorted(table.snapshots.ids())
    rule = retention_of(table, ids, now)
    number = rule["unexpired"]
    assert isinstance(number, int)
    beyond = set(ids[:number])
    read = ids[-MOST_SNAPSHOTS:]
    known = {s.id: s for s in table.snapshots.get_many(read)}
    holder, blocked = _blocking_consumer(table, ids[:number])
    marks = list(_marks(table, known, env))
    shown = sorted(marks, key=lambda m: (-m.snapshot, m.kind, m.name))[:MOST_MARKS]
    least, most, age = (
        rule[k] for k in ("num_retained_min", "num_retained_max", "time_retained_millis")
    )
    assert isinstance(least, int)
    assert isinstance(age, int)
    assert most is None or isinstance(most, int)
    return Timeline(
        count=len(ids),
        earliest=ids[0] if ids else None,
        latest=ids[-1] if ids else None,
        left_out=len(ids) - len(read),
        beyond=number,
        blocked_by=holder,
        blocked=blocked,
        num_retained_min=least,
        num_retained_max=most,
        time_retained_millis=age,
        snapshots=tuple(_dot(known[i], beyond=i in beyond) for i in read if i in known),
        marks=tuple(shown),
        more_marks=len(marks) - len(shown),
    )


def _dot(snapshot: Snapshot, *, beyond: bool) -> SnapshotDot:
    return SnapshotDot(
        id=snapshot.id,
        at_millis=snapshot.time_millis,
        kind=str(snapshot.commit_kind),
        user=snapshot.commit_user,
        schema_id=snapshot.schema_id,
        delta_rows=snapshot.delta_record_count,
        total_rows=snapshot.total_record_count,
        watermark=snapshot.watermark,
        beyond=beyond,
    )


def _blocking_consumer(table: FileStoreTable, beyond: Sequence[int]) -> tuple[str | None, int]:
    """The consumer that keeps the most snapshots beyond the retention, and how many."""
    worst: tuple[str | None, int] = (None, 0)
    for consumer in table.consumers.all():
        kept = sum(1 for i in beyond if i >= consumer.next_snapshot)
        if kept > worst[1]:
            worst = (consumer.id, kept)
    return worst


def _marks(table: FileStoreTable, known: dict[int, Snapshot], env: Environment) -> Iterator[Mark]:
    offset = ahead_of_utc(env)
    for tag in table.tags.all():
        end = tag.expires_at_millis
        yield Mark(
            kind="tag",
            name=tag.name,
            snapshot=tag.snapshot.id,
            at_millis=tag.snapshot.time_millis,
            until_millis=None if end is None else end - offset,
        )
    for consumer in table.consumers.all():
        at = known.get(consumer.next_snapshot)
        yield Mark(
            kind="consumer",
            name=consumer.id,
            snapshot=consumer.next_snapshot,
            at_millis=None if at is None else at.time_millis,
        )
    for name in table.branches.names() if table.branch == MAIN_BRANCH else ():
        try:
            newest = on_branch(table, name).snapshots.latest()
        except PaimonError:
            continue  # `verify` reports it
        if newest is not None:
            yield Mark(kind="branch", name=name, snapshot=newest.id, at_millis=newest.time_millis)
