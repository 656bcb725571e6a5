"""Stores which runs wait for a person, and the answers, for the command line and for Airflow.

An approval belongs to one request: job, table, arguments, and whether it overrides guards.  It
holds for one run within a day; the run makes its own plan, and its guards apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_maintenance.history.entry import AIRFLOW, Actor
from paimon_maintenance.history.scoped_store import ScopedStore, columns_of
from paimon_maintenance.history.store import SqlHistory

VALID_MILLIS: Final = 24 * 3600 * 1000
"""How long an approval holds after it was given."""
_APPROVALS: Final = columns_of(
    "caretaker_approvals",
    "id warehouse table_name branch job request plan reason origin asked_by asked_millis state "
    "answered_by answered_millis run_id",
)
_LONGEST_RUN: Final = 64
_MOST_SHOWN: Final = 100


class ApprovalState(StrEnum):
    """How far a request for an approval is."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    USED = "used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A request for an approval, and its answer.

    `reason` is what the policy calls it: rescale, rollback or force.  `asked_by` is a user, or the
    DAG and its run; `run_id` is the run that used it.
    """

    id: int
    warehouse: str
    table: str
    branch: str
    job: str
    request: Mapping[str, object]
    plan: tuple[str, ...]
    reason: str
    origin: str
    asked_by: str
    asked_millis: int
    state: ApprovalState
    answered_by: str | None
    answered_millis: int | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run that needs an approval: `arguments` as the history shows them, its plan as lines."""

    table: str
    job: str
    arguments: Mapping[str, object]
    force: bool
    reason: str
    plan: Sequence[str] = ()

    def request(self) -> str:
        """The request as the store compares it."""
        parts = {"arguments": dict(self.arguments), "force": self.force}
        return json.dumps(parts, sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class ApprovalStore(ScopedStore):
    """The approvals of one warehouse and branch.

    MaintenanceError if the database does not answer.
    """

    def use(self, asked: Asked, run_id: str, now: int) -> bool:
        """Use up an approval for this run, and return whether there was one."""
        c = _APPROVALS.c
        fresh = sa.and_(c.state == ApprovalState.APPROVED, c.answered_millis >= now - VALID_MILLIS)
        own = sa.and_(c.state == ApprovalState.USED, c.run_id == run_id[:_LONGEST_RUN])
        query = sa.select(c.id).where(*self._same(asked), sa.or_(fresh, own)).order_by(c.id)
        with self.transaction() as connection:
            for number in connection.execute(query).scalars().all():
                done = connection.execute(
                    sa.update(_APPROVALS)
                    .where(c.id == number, sa.or_(fresh, own))
                    .values(state=str(ApprovalState.USED), run_id=run_id[:_LONGEST_RUN])
                )
                if done.rowcount:
                    return True
        return False

    def ask(self, asked: Asked, actor: Actor, now: int) -> int:
        """The number of the request; one that already waits gets the newer plan."""
        c = _APPROVALS.c
        plan = json.dumps(list(asked.plan), ensure_ascii=False)
        waiting = sa.select(c.id).where(
            *self._same(asked), c.state == ApprovalState.WAITING, c.origin == actor.origin
        )
        if actor.origin == AIRFLOW:
            waiting = waiting.where(c.asked_by == actor.name)
        with self.transaction() as connection:
            known = connection.execute(waiting.order_by(c.id)).scalars().first()
            if known is not None:
                connection.execute(
                    sa.update(_APPROVALS).where(c.id == known).values(plan=plan, asked_millis=now)
                )
                return int(known)
            added = connection.execute(
                sa.insert(_APPROVALS)
                .values(
                    **self.place(asked.table),
                    job=asked.job,
                    request=asked.request(),
                    plan=plan,
                    reason=asked.reason,
                    origin=actor.origin,
                    asked_by=actor.name,
                    asked_millis=now,
                    state=str(ApprovalState.WAITING),
                )
                .returning(c.id)
            )
            return int(added.scalar_one())

    def all(self, *, only_waiting: bool = True) -> list[Approval]:
        """The newest 100 requests, newest first."""
        query = sa.select(_APPROVALS).where(*self.is_here(_APPROVALS))
        if only_waiting:
            query = query.where(_APPROVALS.c.state == ApprovalState.WAITING)
        query = query.order_by(_APPROVALS.c.id.desc()).limit(_MOST_SHOWN)
        with self.transaction() as connection:
            return [_approval(row) for row in connection.execute(query).mappings()]

    def answer(self, number: int, state: ApprovalState, by: str, now: int) -> Approval:
        """Approve or reject a waiting request of the command line.

        NotFound for an unknown number, InvalidArgument for a request that does not wait any more or
        that a DAG made: its task waits for an answer in Airflow.
        """
        c = _APPROVALS.c
        found = sa.select(_APPROVALS).where(*self.is_here(_APPROVALS), c.id == number)
        # Two people may answer at once: the condition is part of the update,
        # and the first one wins.
        waiting = sa.and_(
            *self.is_here(_APPROVALS),
            c.id == number,
            c.state == ApprovalState.WAITING,
            c.origin != AIRFLOW,
        )
        with self.transaction() as connection:
            answered = connection.execute(_answered(waiting, state, by, now)).rowcount
            row = connection.execute(found).mappings().one_or_none()
        if row is None:
            raise NotFound(
                f"there is no request {number} in {self.warehouse}",
                next_step="see `caretaker approvals list`",
            )
        approval = _approval(row)
        if answered:
            return approval
        if approval.state is not ApprovalState.WAITING:
            who = f" by {approval.answered_by}" if approval.answered_by else ""
            raise InvalidArgument(
                f"request {number} does not wait: it is {approval.state}{who}",
                next_step="see `caretaker approvals list --all`",
            )
        raise InvalidArgument(
            f"request {number} belongs to the DAG run {approval.asked_by}",
            next_step="answer it in Airflow, under Required Actions of that run",
        )

    def _same(self, asked: Asked) -> list[sa.ColumnElement[bool]]:
        c = _APPROVALS.c
        here = self.is_of(_APPROVALS, asked.table)
        return [*here, c.job == asked.job, c.request == asked.request()]


def record_answer(
    history: SqlHistory, actor: Actor, tables: Iterable[str], by: str, now: int, *, approved: bool
) -> None:
    """Record the answer that a DAG run got in Airflow; an approval holds for this run only."""
    c = _APPROVALS.c
    which = sa.and_(
        c.table_name.in_(list(tables)),
        c.origin == actor.origin,
        c.asked_by == actor.name,
        c.state == ApprovalState.WAITING,
    )
    state = ApprovalState.USED if approved else ApprovalState.REJECTED
    # The warehouse is not part of the answer; the DAG run is.
    with ApprovalStore(history, "").transaction() as connection:
        connection.execute(_answered(which, state, by, now))


def _answered(which: sa.ColumnElement[bool], state: ApprovalState, by: str, now: int) -> sa.Update:
    values = {"state": str(state), "answered_by": by, "answered_millis": now}
    return sa.update(_APPROVALS).where(which).values(**values)


def _approval(row: Mapping[Any, Any]) -> Approval:
    names = [n for n in Approval.__slots__ if n not in ("table", "request", "plan", "state")]
    return Approval(
        **{name: row[name] for name in names},
        table=row["table_name"],
        request=json.loads(row["request"]),
        plan=tuple(json.loads(row["plan"])),
        state=ApprovalState(row["state"]),
    )
