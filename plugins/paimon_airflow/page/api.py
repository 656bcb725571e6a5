"""The routes under /caretaker/api.

All only read; the page triggers jobs through Airflow's own API.
"""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse

from paimon_airflow.page import reading
from paimon_airflow.page.models import (
    Color,
    ConsumerAnswer,
    HolderAnswer,
    JobAccess,
    LakeAnswer,
    PartitionAnswer,
    PlanAnswer,
    ReasonAnswer,
    SessionAnswer,
    Sort,
    TableAnswer,
    TotalsAnswer,
    WorkAnswer,
)
from paimon_airflow.page.security import User, dag_of, triggerable
from paimon_core.errors import InvalidArgument, MaintenanceError, NotFound
from paimon_maintenance.health.picture import FilePicture
from paimon_maintenance.health.schemas import SchemaHistory
from paimon_maintenance.health.timeline import Timeline
from paimon_maintenance.history.complete_days import KeptSums
from paimon_maintenance.history.lake_view import (
    LakeQuery,
    lake_page,
    lake_row,
    places,
    totals_since,
)
from paimon_maintenance.history.store import SqlHistory, open_history
from paimon_maintenance.history.table_view import table_view
from paimon_maintenance.history.work_view import work_view
from paimon_maintenance.registry import JOBS
from paimon_maintenance.run.lake_metrics import put_lake
from paimon_maintenance.run.metrics import Metrics

_DAY: Final = 86_400_000
_KEPT: Final = KeptSums()
_MOST_ROWS: Final = 1_000_000_000


def _no_nul(request: Request) -> None:
    """No name holds this character, and PostgreSQL refuses it."""
    if any("\0" in value for value in request.query_params.values()):
        raise InvalidArgument("a parameter holds the character NUL")


router = APIRouter(dependencies=[Depends(_no_nul)])

Warehouse = Annotated[str, Query(max_length=512, description="as the scheduler knows it")]
TableName = Annotated[str, Query(max_length=512, description="DATABASE.TABLE")]
Branch = Annotated[str, Query(max_length=512)]
Days = Annotated[int, Query(ge=1, le=366)]
PlannedJob = Literal[
    "compact",
    "maintain",
    "expire_snapshots",
    "expire_partitions",
    "expire_tags",
    "expire_consumers",
    "compact_manifest",
]
"""The jobs that the page plans: they need no argument, and read metadata only."""


@router.get("/session")
def session(user: User) -> SessionAnswer:
    """Who is logged in, and which jobs they may trigger."""
    allowed = triggerable(user, JOBS)
    return SessionAnswer(
        user=user.get_name(),
        jobs=[
            JobAccess(job=name, dag_id=dag_of(name), summary=job.summary, may_trigger=allowed[name])
            for name, job in JOBS.items()
        ],
    )


@router.get("/lake")
def lake(
    warehouse: Annotated[str | None, Query(max_length=512)] = None,
    branch: Annotated[str | None, Query(max_length=512)] = None,
    search: Annotated[str, Query(max_length=200)] = "",
    color: Color = "",
    owner: Annotated[str, Query(max_length=512)] = "",
    criterion: Annotated[str, Query(max_length=64)] = "",
    sort: Sort = "score",
    descending: bool = False,  # noqa: FBT001, FBT002 - a query parameter
    offset: Annotated[int, Query(ge=0, le=_MOST_ROWS)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> LakeAnswer:
    """The tables of a warehouse, from the history alone.

    Without `warehouse`: the one that was measured last, and without `branch` that branch of it.
    """
    history = _history()
    known = places(history)
    if warehouse is None:
        newest = next((p for p in known if branch in (None, p.branch)), None)
        if newest is not None:
            warehouse, branch = newest.warehouse, newest.branch
    branch = branch or "main"
    if warehouse is None:
        return LakeAnswer(
            now=_now(),
            places=known,
            warehouse=None,
            branch=branch,
            tables=[],
            matches=0,
            totals=None,
            owners={},
            criteria={},
        )
    page = lake_page(
        history,
        LakeQuery(
            warehouse=warehouse,
            branch=branch,
            search=search,
            color=color,
            owner=owner,
            criterion=criterion,
            sort=sort,
            descending=descending,
            offset=offset,
            limit=limit,
        ),
    )
    return LakeAnswer(
        now=_now(),
        places=known,
        warehouse=warehouse,
        branch=branch,
        tables=list(page.rows),
        matches=page.matches,
        totals=page.totals,
        owners=dict(page.owners),
        criteria=dict(page.criteria),
    )


@router.get("/totals")
def totals(warehouse: Warehouse, branch: Branch = "main", days: Days = 7) -> TotalsAnswer:
    """The totals over all tables of the warehouse, round by round."""
    since = _now() - days * _DAY
    points = totals_since(_history(), warehouse=warehouse, branch=branch, since_millis=since)
    return TotalsAnswer(since=since, points=points)


@router.get("/table")
def table(warehouse: Warehouse, table: TableName, branch: Branch = "main") -> TableAnswer:
    """What the history knows of one table: health, scores, decisions, runs."""
    found = table_view(_history(), warehouse=warehouse, table=table, branch=branch)
    if found is None:
        raise _unknown(table)
    health = found.health
    return TableAnswer(
        now=_now(),
        row=found.row,
        reasons=[ReasonAnswer(**r) for r in health.get("reasons", ())],
        partitions=[PartitionAnswer(**p) for p in health.get("partitions", ())],
        unhealthy_partitions=health.get("unhealthy_partitions", 0),
        holders=[HolderAnswer(**h) for h in health.get("holders", ())],
        consumers=[ConsumerAnswer(**c) for c in health.get("consumers", ())],
        beyond_snapshots=health.get("beyond_snapshots", 0),
        beyond_bytes=health.get("beyond_bytes", 0),
        blocked_bytes=health.get("blocked_bytes", 0),
        scores=list(found.scores),
        decisions=list(found.decisions),
        runs=list(found.runs),
    )


@router.get("/table/files")
def files(
    warehouse: Warehouse,
    table: TableName,
    branch: Branch = "main",
    partition: Annotated[str | None, Query(max_length=2000)] = None,
) -> FilePicture:
    """The live files of one partition by bucket and level, read from the lake."""
    return reading.read_files(_named(warehouse, table, branch), partition)


@router.get("/table/snapshots")
def snapshots(warehouse: Warehouse, table: TableName, branch: Branch = "main") -> Timeline:
    """The newest snapshots, with tags, branches and consumers, read from the lake."""
    return reading.read_timeline(_named(warehouse, table, branch))


@router.get("/table/schemas")
def schemas(warehouse: Warehouse, table: TableName, branch: Branch = "main") -> SchemaHistory:
    """Columns, options and the history of the schema, read from the lake."""
    return reading.read_schemas(_named(warehouse, table, branch))


@router.get("/table/plan")
def plan(
    warehouse: Warehouse,
    table: TableName,
    job: PlannedJob,
    branch: Branch = "main",
    full: bool = False,  # noqa: FBT001, FBT002 - a query parameter
) -> PlanAnswer:
    """The plan of a job, made now from the table's metadata; nothing is changed or recorded.

    `full`: plan a full compaction instead of a minor one.
    """
    arguments: dict[str, object] = {}
    if job == "compact":
        arguments["strategy"] = "full" if full else "minor"
    return reading.make_plan(_named(warehouse, table, branch), job, arguments)


@router.get("/metrics", response_class=PlainTextResponse)
def metrics() -> PlainTextResponse:
    """Open alerts, tables by color and prediction errors of all warehouses, as Prometheus text."""
    found = Metrics()
    put_lake(found, _history())
    return PlainTextResponse(found.to_text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/runs")
def runs(
    warehouse: Annotated[str | None, Query(max_length=512)] = None, days: Days = 7
) -> WorkAnswer:
    """What maintenance did in the last days, what failed, and how good the predictions were."""
    history = _history()
    now = _now()
    found = work_view(
        history,
        warehouse=warehouse,
        since_millis=now - days * _DAY,
        until_millis=now + _DAY,
        now_millis=now,
        kept=_KEPT,
    )
    return WorkAnswer(
        now=now,
        since=found.since_millis,
        warehouse=warehouse,
        places=places(history),
        total=found.total,
        by_job=list(found.by_job),
        by_table=list(found.by_table),
        tables_changed=found.tables_changed,
        by_day=list(found.by_day),
        failures=list(found.failures),
        predictions=list(found.predictions),
        median_error=found.median_error,
        p90_error=found.p90_error,
    )


def _history() -> SqlHistory:
    found = open_history()
    if found is None:
        raise MaintenanceError(
            "the history is disabled on the API server (CARETAKER_HISTORY_URL=none)",
            next_step="set CARETAKER_HISTORY_URL to the database that the workers use",
        )
    return found


def _named(warehouse: str, table: str, branch: str) -> reading.Named:
    """The table, if the history knows it: a request cannot name another path to read."""
    if lake_row(_history(), warehouse=warehouse, table=table, branch=branch) is None:
        raise _unknown(table)
    return reading.Named(warehouse=warehouse, table=table, branch=branch)


def _unknown(table: str) -> NotFound:
    return NotFound(
        f"no table {table} was measured in this warehouse and branch",
        next_step="run `caretaker schedule`, or `caretaker health --save`",
    )


def _now() -> int:
    return int(time.time() * 1000)
