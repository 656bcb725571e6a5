"""Reads what the history knows of one table: health, scores over time, decisions and runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from paimon_maintenance.history.lake_view import LakeRow, lake_row
from paimon_maintenance.history.status import STATUS, table_of
from paimon_maintenance.history.store import SqlHistory

_MOST_SCORES: Final = 200
_MOST_DECISIONS: Final = 12
_MOST_RUNS: Final = 30
_ENTRY_COLUMNS: Final = (
    "id at_millis event job part_of table_name warehouse branch status run_id origin actor engine "
    "snapshots attempts seconds files_before files_after bytes_before bytes_after error_type error "
    "next_step bytes_freed application_id application_url"
)
ENTRIES: Final = table_of("caretaker_history", _ENTRY_COLUMNS)
_SCORES: Final = table_of(
    "caretaker_scores",
    "id at_millis warehouse table_name branch score amplification files bytes held_bytes reason",
)
DECISIONS: Final = table_of(
    "caretaker_decisions",
    "id at_millis round_id warehouse table_name branch job action reason rank_value benefit "
    "predicted_seconds past_runs run_id engine status seconds result",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run, or one step of `maintain`, as the history has it; sizes None if unknown."""

    at_millis: int
    event: str
    job: str
    part_of: str | None
    table: str
    warehouse: str
    branch: str
    status: str
    run_id: str
    origin: str
    actor: str
    engine: str | None
    snapshots: tuple[int, ...]
    seconds: float | None
    files_before: int | None
    files_after: int | None
    bytes_before: int | None
    bytes_after: int | None
    error_type: str | None
    error: str | None
    next_step: str | None
    bytes_freed: int | None
    application_id: str | None
    application_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePoint:
    """The score of a table at one time."""

    at_millis: int
    score: int
    files: int
    bytes: int
    held_bytes: int
    amplification: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLine:
    """One decision of the scheduler; `seconds` and `score_after` are None before the run ended."""

    at_millis: int
    job: str | None
    action: str
    reason: str
    benefit: float
    predicted_seconds: float
    status: str | None
    seconds: float | None
    score_before: int | None
    score_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """All of it, newest first.  `health` is the JSON of `status_of`."""

    row: LakeRow
    health: Mapping[str, Any]
    scores: tuple[ScorePoint, ...]
    decisions: tuple[DecisionLine, ...]
    runs: tuple[RunLine, ...]


def table_view(
    history: SqlHistory,
    *,
    warehouse: str,
    table: str,
    branch: str = "main",
) -> TableView | None:
    """What the history knows of the table; None if no table of this name was measured."""
    row = lake_row(history, warehouse=warehouse, table=table, branch=branch)
    if row is None:
        return None

    def here(of: sa.Table) -> sa.ColumnElement[bool]:
        c = of.c
        return sa.and_(c.warehouse == warehouse, c.table_name == table, c.branch == branch)

    e = ENTRIES.c
    with history.reading() as connection:
        health = connection.execute(sa.select(STATUS.c.health).where(here(STATUS))).scalar_one()
        points = connection.execute(
            sa.select(*(_SCORES.c[name] for name in ScorePoint.__slots__))
            .where(here(_SCORES))
            .order_by(_SCORES.c.id.desc())
            .limit(_MOST_SCORES)
        ).mappings()
        chosen = connection.execute(
            sa.select(DECISIONS)
            .where(here(DECISIONS))
            .order_by(DECISIONS.c.id.desc())
            .limit(_MOST_DECISIONS)
        ).mappings()
        lines = connection.execute(
            sa.select(ENTRIES)
            .where(e.table_name == table, e.warehouse == warehouse, e.event == "run")
            .where(sa.func.coalesce(e.branch, "main") == branch)
            .order_by(e.id.desc())
            .limit(_MOST_RUNS)
        ).mappings()
        return TableView(
            row=row,
            health=json.loads(health),
            scores=tuple(ScorePoint(**p) for p in points),
            decisions=tuple(_decision(d) for d in chosen),
            runs=tuple(run_line(r) for r in lines),
        )


def run_line(row: Mapping[Any, Any]) -> RunLine:
    """The line of a row of ENTRIES."""
    other = ("table", "branch", "snapshots")
    values = {name: row[name] for name in RunLine.__slots__ if name not in other}
    found: Sequence[int] = json.loads(row["snapshots"] or "[]")
    return RunLine(
        **values,
        table=row["table_name"],
        branch=row["branch"] or "main",
        snapshots=tuple(found),
    )


def _decision(row: Mapping[Any, Any]) -> DecisionLine:
    result = json.loads(row["result"]) if row["result"] else {}
    values = {name: row[name] for name in DecisionLine.__slots__ if not name.startswith("score_")}
    return DecisionLine(
        **values,
        score_before=result.get("score_before"),
        score_after=result.get("score_after"),
    )
