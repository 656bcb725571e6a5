"""The answers of the API.  Times are milliseconds since the epoch, sizes bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from paimon_maintenance.history.lake_view import LakeRow, Place, Totals
from paimon_maintenance.history.table_view import DecisionLine, RunLine, ScorePoint
from paimon_maintenance.history.work_view import Day, Failure, Prediction, Work

Sort = Literal[
    "table",
    "score",
    "bytes",
    "files",
    "runs",
    "amplification",
    "held_bytes",
    "last",
    "next",
    "owner",
    "measured",
]
Color = Literal["", "green", "yellow", "red", "unknown"]


class JobAccess(BaseModel):
    """A job, its DAG, and whether the user may trigger it."""

    job: str
    dag_id: str
    summary: str
    may_trigger: bool


class SessionAnswer(BaseModel):
    """Who is logged in, and what they may do."""

    user: str
    jobs: list[JobAccess]


class LakeAnswer(BaseModel):
    """A part of the list of tables; `places` are all warehouses and branches with measured tables.

    `totals` cover all tables of the warehouse, `matches` counts those that the filters let through.
    """

    now: int
    places: list[Place]
    warehouse: str | None
    branch: str
    tables: list[LakeRow]
    matches: int
    totals: Totals | None
    owners: dict[str, int]
    criteria: dict[str, int]


class TotalsAnswer(BaseModel):
    """The totals of past rounds, oldest first."""

    since: int
    points: list[Totals]


class ReasonAnswer(BaseModel):
    """Why a score is below 100: the points that this alone costs, and the job that helps."""

    criterion: str
    points: float
    severity: float
    value: float
    text: str
    job: str | None = None


class PartitionAnswer(BaseModel):
    """The score of an unhealthy partition."""

    name: str
    score: int
    color: str
    reasons: list[ReasonAnswer]


class HolderAnswer(BaseModel):
    """A consumer, tag or branch that holds back files."""

    kind: str
    name: str
    bytes: int
    snapshots: int


class ConsumerAnswer(BaseModel):
    """How far a consumer is behind; `bytes` is an estimate, `since` None if it is up to date."""

    id: str
    snapshots: int
    since: int | None
    bytes: int


class TableAnswer(BaseModel):
    """What the history knows of a table; lists are newest first."""

    now: int
    row: LakeRow
    reasons: list[ReasonAnswer]
    partitions: list[PartitionAnswer]
    unhealthy_partitions: int
    holders: list[HolderAnswer]
    consumers: list[ConsumerAnswer]
    beyond_snapshots: int
    beyond_bytes: int
    blocked_bytes: int
    scores: list[ScorePoint]
    decisions: list[DecisionLine]
    runs: list[RunLine]


class PlanAnswer(BaseModel):
    """The plan of a job, as `caretaker plan` prints it; nothing was changed."""

    job: str
    empty: bool
    lines: list[str]
    left_out: int
    effect: dict[str, Any]


class WorkAnswer(BaseModel):
    """What maintenance did in the period, and what it predicted."""

    now: int
    since: int
    warehouse: str | None
    places: list[Place]
    total: Work
    by_job: list[Work]
    by_table: list[Work]
    tables_changed: int
    by_day: list[Day]
    failures: list[Failure]
    predictions: list[Prediction]
    median_error: float | None
    p90_error: float | None


class ErrorAnswer(BaseModel):
    """What went wrong, and the next step."""

    detail: str
    type: Annotated[str, Field(description="the name of the error")]
    next_step: str | None = None
