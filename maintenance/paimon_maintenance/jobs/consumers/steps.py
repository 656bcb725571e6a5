"""expire_consumers, reset_consumer and clear_consumers (Java: `consumer/ConsumerManager`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, cast

from paimon_core.errors import SEE_INSPECT, CorruptTable, InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import CONSUMER_EXPIRATION_TIME
from paimon_core.refs.consumers import Consumer, UnreadableConsumer
from paimon_core.retention.consumers import AnyConsumer, dead_consumers
from paimon_maintenance.job.job import Committed, RunContext
from paimon_maintenance.job.metadata_job import Action, MetadataPlan, latest_pin, metadata_steps
from paimon_maintenance.job.plan import Retained
from paimon_maintenance.job.text import age_text

Arguments = Mapping[str, object]
_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class ConsumerMove:
    """The new position of a consumer (None deletes it) and the consumer at the time of the plan."""

    id: str
    old: AnyConsumer | None
    next_snapshot: int | None = None


Plan = MetadataPlan[tuple[ConsumerMove, ...]]


def make_expire(table: FileStoreTable, arguments: Arguments, context: RunContext) -> Plan:
    """The consumers whose file is older than the expiration time (java-rules H6)."""
    allowed = cast("int | None", arguments.get("expiration_time"))
    if allowed is None:
        allowed = table.options.value(CONSUMER_EXPIRATION_TIME)
    consumers = table.consumers.each()
    if allowed is None:
        why = "neither consumer.expiration-time nor the argument is set"
        kept = [Retained(what="consumers", why=why, count=len(consumers))]
        return _plan("expire_consumers", table, [], kept, arguments)
    now = context.env.now_millis()
    dead = dead_consumers(consumers, expiration_millis=allowed, now_millis=now)
    kept = [
        Retained(what=f"consumer {c.id!r}", why=f"last update {_idle(now, c)} ago{_problem(c)}")
        for c in consumers
        if c not in dead
    ]
    moves = [(ConsumerMove(c.id, c), f"last update {_idle(now, c)} ago{_problem(c)}") for c in dead]
    return _plan("expire_consumers", table, moves, kept, arguments)


def _idle(now: int, consumer: AnyConsumer) -> str:
    return age_text((now - consumer.modified_millis) / _HOUR)


def _problem(consumer: AnyConsumer) -> str:
    """What is wrong with the consumer's file, which holds all snapshots."""
    return f"; {consumer.error.message}" if isinstance(consumer, UnreadableConsumer) else ""


def _position(consumer: AnyConsumer | None) -> int | None:
    return consumer.next_snapshot if isinstance(consumer, Consumer) else None


def make_reset(table: FileStoreTable, arguments: Arguments, _: RunContext) -> Plan:
    """The new position of the consumer; NotFound if it is not readable.

    Valid positions are a snapshot, a long-lived changelog, or the next future snapshot.
    """
    name = cast("str | None", arguments.get("consumer_id"))
    if not name:
        raise InvalidArgument("argument --consumer-id is required")
    old: Consumer | None = None
    with suppress(NotFound, CorruptTable):  # of one that cannot be read, the old position is lost
        old = table.consumers.get(name)
    position = cast("int | None", arguments.get("next_snapshot_id"))
    if position is None and name not in table.consumers.ids():
        raise NotFound(
            f"consumer {name!r} of table {table.name} does not exist",
            table=table.name,
            next_step=SEE_INSPECT,
        )
    if position is not None:
        _check_position(table, position)
    return _plan("reset_consumer", table, [(ConsumerMove(name, old, position), "")], [], arguments)


def _check_position(table: FileStoreTable, position: int) -> None:
    """NotFound if a reader cannot go on there."""
    next_one = (table.snapshots.latest_id() or 0) + 1
    if position != next_one and table.changelogs.get_or_none(position) is None:
        table.snapshots.get(position)


def _prove_readable(table: FileStoreTable, position: int, move: ConsumerMove) -> None:
    """NotFound if the snapshot expired before the consumer was written, which is then where it was.

    An expiry looks at the consumers before and after it removes snapshots.
    """
    try:
        _check_position(table, position)
    except NotFound as e:
        old = _position(move.old)
        if old is None:
            table.consumers.delete(move.id)
        else:
            table.consumers.set(move.id, old)
        raise NotFound(
            f"snapshot {position} of table {table.name} expired while consumer {move.id!r} was moved to it",
            table=table.name,
            snapshot=position,
            next_step="choose a newer snapshot",
        ) from e


def make_clear(table: FileStoreTable, arguments: Arguments, _: RunContext) -> Plan:
    """The consumers with matching ids."""
    including = _pattern(arguments, "including_consumers")
    excluding = _pattern(arguments, "excluding_consumers")
    moves, kept = [], []
    for consumer in table.consumers.each():
        if including is not None and not including.fullmatch(consumer.id):
            kept.append(Retained(what=f"consumer {consumer.id!r}", why="including_consumers"))
        elif excluding is not None and excluding.fullmatch(consumer.id):
            kept.append(Retained(what=f"consumer {consumer.id!r}", why="excluding_consumers"))
        else:
            moves.append((ConsumerMove(consumer.id, consumer), _problem(consumer).lstrip("; ")))
    return _plan("clear_consumers", table, moves, kept, arguments)


def _pattern(arguments: Arguments, name: str) -> re.Pattern[str] | None:
    text = cast("str | None", arguments.get(name))
    try:
        return re.compile(text) if text else None
    except re.error as e:
        raise InvalidArgument(f"{name}: invalid regular expression {text!r}: {e}") from e


def _plan(
    job: str,
    table: FileStoreTable,
    moves: Sequence[tuple[ConsumerMove, str]],
    kept: Sequence[Retained],
    arguments: Arguments,
) -> Plan:
    actions = []
    if not moves and not kept:
        kept = [Retained(what="consumers", why="the table has none", count=0)]
    for move, why in moves:
        old = _position(move.old)
        was = "" if old is None else f" (at snapshot {old})"
        what = (
            f"delete consumer {move.id!r}{was}"
            if move.next_snapshot is None
            else f"move consumer {move.id!r}{was} to snapshot {move.next_snapshot}"
        )
        details = {"consumer": move.id, "old": old, "new": move.next_snapshot}
        actions.append(Action(what, why, details))
    return MetadataPlan(
        job=job,
        table=table.name,
        pin=latest_pin(table),
        work=tuple(move for move, _ in moves),
        actions=tuple(actions),
        kept=tuple(kept),
        arguments=arguments,
    )


def recheck(table: FileStoreTable, plan: Plan) -> Plan:
    """The plan without consumers that were updated after it was made."""
    now = {c.id: c for c in table.consumers.each()}
    work = tuple(m for m in plan.work if now.get(m.id) == m.old)
    return replace(plan, work=work)


def apply(table: FileStoreTable, plan: Plan, context: RunContext) -> Committed:
    """Write or delete the consumer files."""
    before: dict[str, object] = {}
    for move in plan.work:
        context.fence()
        if move.next_snapshot is None:
            table.consumers.delete(move.id)
        else:
            table.consumers.set(move.id, move.next_snapshot)
            _prove_readable(table, move.next_snapshot, move)
        if (position := _position(move.old)) is not None:
            before[move.id] = position
    return Committed(
        details={
            "deleted_consumers": [m.id for m in plan.work if m.next_snapshot is None],
            "moved_consumers": [m.id for m in plan.work if m.next_snapshot is not None],
            "positions_before": before,
        }
    )


EXPIRE: Final = metadata_steps(make_expire, apply, recheck=recheck)
RESET: Final = metadata_steps(make_reset, apply)
CLEAR: Final = metadata_steps(make_clear, apply)
