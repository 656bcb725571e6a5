"""What the scheduler measured, decided and claimed, in the database of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.score import Health
from paimon_maintenance.history.scoped_store import ScopedStore, columns_of, replace_rows

_NEWEST_SAMPLES: Final = 2000
_JSON: Final = ("work", "predicted", "result")


_MEASUREMENTS: Final = columns_of(
    "caretaker_measurements", "warehouse table_name branch at_millis measurement state"
)
_SCORES: Final = columns_of(
    "caretaker_scores",
    "id at_millis warehouse table_name branch score amplification files bytes held_bytes reason",
)
_DECISIONS: Final = columns_of(
    "caretaker_decisions",
    "id at_millis round_id warehouse table_name branch job action reason rank_value benefit "
    "predicted_seconds work predicted past_runs run_id engine status seconds result",
)
_ROUNDS: Final = columns_of(
    "caretaker_rounds",
    "round_id at_millis warehouse branch budget_seconds seconds overspent price",
)
_ENTRIES: Final = columns_of("caretaker_history", "at_millis event status warehouse table_name")
_CLAIMS: Final = columns_of("caretaker_claims", "warehouse table_name branch holder until_millis")
_LONGEST_CLAIM_MILLIS: Final = 600_000
"""A claim that ends later than this was made by a clock that was wrong, and holds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """The newest measurement and the state of a table, both as JSON objects."""

    at_millis: int
    measurement: Mapping[str, Any]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScore:
    """A score at one time."""

    at_millis: int
    score: int
    amplification: float
    files: int
    bytes: int
    held_bytes: int
    reason: str | None

    @classmethod
    def of(cls, found: Measurement, health: Health) -> StoredScore:
        """The score of a measured table."""
        return cls(
            at_millis=found.at_millis,
            score=health.score,
            amplification=found.amplification,
            files=found.files,
            bytes=found.bytes,
            held_bytes=found.beyond_bytes,
            reason=health.reasons[0].text if health.reasons else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """One decision and its result: `status`, `seconds` and `result` are None before a run ends.

    `work` and `predicted` are JSON objects of the scheduler.  `past_runs` is how many runs of the
    job the prediction rests on; None if that was not recorded.
    """

    at_millis: int
    round_id: str
    table: str
    job: str | None
    action: str
    reason: str
    rank: float = 0.0
    benefit: float = 0.0
    predicted_seconds: float = 0.0
    work: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Any] = field(default_factory=dict)
    past_runs: int | None = None
    run_id: str | None = None
    engine: str | None = None
    status: str | None = None
    seconds: float | None = None
    result: Mapping[str, Any] | None = None

    @property
    def is_estimated(self) -> bool:
        """Whether no past run of the job told the scheduler how long this one takes."""
        return self.past_runs == 0


@dataclass(frozen=True, slots=True)
class NeedStore(ScopedStore):
    """Reads and writes the scheduler's tables for one warehouse and branch."""

    def tables(self) -> dict[str, StoredTable]:
        """The newest measurement of every table."""
        c = _MEASUREMENTS.c
        query = sa.select(_MEASUREMENTS).where(
            c.warehouse == self.warehouse, c.branch == self.branch
        )
        with self.transaction() as connection:
            return {
                row["table_name"]: StoredTable(
                    at_millis=row["at_millis"],
                    measurement=json.loads(row["measurement"]),
                    state=json.loads(row["state"]),
                )
                for row in connection.execute(query).mappings()
            }

    def put(self, tables: Mapping[str, StoredTable], scores: Mapping[str, StoredScore]) -> None:
        """Replace the measurements of these tables, and add their scores."""
        with self.transaction() as connection:
            replace_rows(
                connection,
                _MEASUREMENTS,
                [
                    {
                        **self.place(name),
                        "at_millis": stored.at_millis,
                        "measurement": _text(stored.measurement),
                        "state": _text(stored.state),
                    }
                    for name, stored in tables.items()
                ],
            )
            if scores:
                connection.execute(
                    sa.insert(_SCORES),
                    [
                        {
                            **self.place(name),
                            **{f: getattr(score, f) for f in StoredScore.__slots__},
                        }
                        for name, score in scores.items()
                    ],
                )

    def worked_on(self, since: int) -> dict[str, int]:
        """The end of the last successful run of each table since then, of any user and branch.

        Times are milliseconds since the epoch.
        """
        c = _ENTRIES.c
        query = (
            sa.select(c.table_name, sa.func.max(c.at_millis))
            # The index by time has all of these columns.
            .where(c.event == "run", c.at_millis >= since, c.status == "success")
            .where(c.warehouse == self.warehouse)
            .group_by(c.table_name)
        )
        with self.transaction() as connection:
            return {str(name): int(at) for name, at in connection.execute(query)}

    def scores(self, table: str, limit: int = 100) -> list[StoredScore]:
        """The newest scores of a table, newest first."""
        query = sa.select(_SCORES).where(*self.is_of(_SCORES, table))
        query = query.order_by(_SCORES.c.id.desc()).limit(limit)
        with self.transaction() as connection:
            return [
                StoredScore(**{f: row[f] for f in StoredScore.__slots__})
                for row in connection.execute(query).mappings()
            ]

    def scores_since(self, millis: int) -> dict[str, list[StoredScore]]:
        """The scores of every table since then, newest first."""
        query = (
            sa.select(_SCORES)
            .where(*self.is_here(_SCORES), _SCORES.c.at_millis >= millis)
            .order_by(_SCORES.c.id.desc())
        )
        found: dict[str, list[StoredScore]] = {}
        with self.transaction() as connection:
            for row in connection.execute(query).mappings():
                score = StoredScore(**{f: row[f] for f in StoredScore.__slots__})
                found.setdefault(row["table_name"], []).append(score)
        return found

    def add(self, decisions: Sequence[StoredDecision]) -> None:
        """Record the decisions of a round."""
        if not decisions:
            return
        rows = [
            {
                **self.place(one.table),
                **{
                    f: getattr(one, f)
                    for f in StoredDecision.__slots__
                    if f not in ("table", "rank", *_JSON)
                },
                "rank_value": one.rank,
                "work": _text(one.work),
                "predicted": _text(one.predicted),
                "result": None if one.result is None else _text(one.result),
            }
            for one in decisions
        ]
        with self.transaction() as connection:
            connection.execute(sa.insert(_DECISIONS), rows)

    def finish(
        self,
        *,
        round_id: str,
        table: str,
        job: str,
        status: str,
        seconds: float,
        engine: str | None,
        result: Mapping[str, Any],
    ) -> None:
        """Record the result of a decision to run."""
        c = _DECISIONS.c
        with self.transaction() as connection:
            connection.execute(
                sa.update(_DECISIONS)
                .where(*self.is_of(_DECISIONS, table))
                .where(c.round_id == round_id, c.job == job, c.action == "run")
                .values(status=status, seconds=seconds, engine=engine, result=_text(result))
            )

    def decisions(self, table: str, limit: int = 10) -> list[StoredDecision]:
        """The newest decisions about a table, newest first."""
        query = sa.select(_DECISIONS).where(*self.is_of(_DECISIONS, table))
        return self._decisions(query.order_by(_DECISIONS.c.id.desc()).limit(limit))

    def decisions_since(self, millis: int) -> list[StoredDecision]:
        """All decisions since then, newest first."""
        c = _DECISIONS.c
        query = sa.select(_DECISIONS).where(*self.is_here(_DECISIONS), c.at_millis >= millis)
        return self._decisions(query.order_by(c.id.desc()))

    def finished(self) -> list[StoredDecision]:
        """The newest decisions with a result that took time, oldest first."""
        c = _DECISIONS.c
        query = (
            sa.select(_DECISIONS)
            .where(c.warehouse == self.warehouse, c.branch == self.branch)
            .where(c.status == "success", c.seconds.is_not(None))
            .order_by(c.id.desc())
            .limit(_NEWEST_SAMPLES)
        )
        return self._decisions(query)[::-1]

    def add_round(
        self,
        round_id: str,
        *,
        at_millis: int,
        budget_seconds: float | None,
        seconds: float,
        overspent: float,
        price: float | None,
    ) -> None:
        """Record what a round spent, what it borrowed from the next ones, and the new price."""
        with self.transaction() as connection:
            connection.execute(
                sa.insert(_ROUNDS).values(
                    round_id=round_id,
                    at_millis=at_millis,
                    warehouse=self.warehouse,
                    branch=self.branch,
                    budget_seconds=budget_seconds,
                    seconds=seconds,
                    overspent=overspent,
                    price=price,
                )
            )

    def last_round(self) -> tuple[float, float | None]:
        """The seconds that rounds borrowed so far, and the price.

        0 and None before the first round.
        """
        c = _ROUNDS.c
        query = (
            sa.select(c.overspent, c.price)
            .where(c.warehouse == self.warehouse, c.branch == self.branch)
            .order_by(c.at_millis.desc())
            .limit(1)
        )
        with self.transaction() as connection:
            row = connection.execute(query).one_or_none()
        return (0.0, None) if row is None else (float(row.overspent), row.price)

    def claim(
        self, table: str, holder: str, *, now: int, until: int, since: int | None = None
    ) -> bool:
        """Claim the table for this holder; False if another one has it and it has not run out.

        With `since`, also False if another holder worked on the table after that time: what was
        measured by then is no longer true.
        """
        c = _CLAIMS.c
        free = c.until_millis < now if since is None else c.until_millis <= min(since, now - 1)
        free = sa.or_(free, c.until_millis > now + _LONGEST_CLAIM_MILLIS)
        with self.transaction() as connection:
            connection.execute(
                sa.delete(_CLAIMS)
                .where(*self.is_of(_CLAIMS, table))
                .where(sa.or_(free, c.holder == holder))
            )
            try:
                with connection.begin_nested():
                    connection.execute(
                        sa.insert(_CLAIMS).values(
                            **self.place(table), holder=holder, until_millis=until
                        )
                    )
            except sa.exc.IntegrityError:
                return False
        return True

    def renew(self, table: str, holder: str, *, until: int) -> bool:
        """Extend the claim; False if it is no longer this holder's."""
        with self.transaction() as connection:
            found = connection.execute(
                sa.update(_CLAIMS)
                .where(*self.is_of(_CLAIMS, table))
                .where(_CLAIMS.c.holder == holder)
                .values(until_millis=until)
            )
            return bool(found.rowcount)

    def release(self, table: str, holder: str, *, now: int) -> None:
        """Give the claim back at `now`; does nothing if another holder has it.

        The row stays, so that others see when the last work on the table ended.
        """
        self.renew(table, holder, until=now - 1)

    def claimed(self, now: int) -> frozenset[str]:
        """The tables that are claimed."""
        c = _CLAIMS.c
        query = sa.select(c.table_name).where(
            c.warehouse == self.warehouse,
            c.branch == self.branch,
            c.until_millis.between(now, now + _LONGEST_CLAIM_MILLIS),
        )
        with self.transaction() as connection:
            return frozenset(connection.execute(query).scalars())

    def _decisions(self, query: sa.Select[Any]) -> list[StoredDecision]:
        found = []
        with self.transaction() as connection:
            for row in connection.execute(query).mappings():
                values = {
                    f: row[f]
                    for f in StoredDecision.__slots__
                    if f not in ("table", "rank", *_JSON)
                }
                result = row["result"]
                found.append(
                    StoredDecision(
                        **values,
                        table=row["table_name"],
                        rank=row["rank_value"],
                        work=json.loads(row["work"]),
                        predicted=json.loads(row["predicted"]),
                        result=None if result is None else json.loads(result),
                    )
                )
        return found


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
