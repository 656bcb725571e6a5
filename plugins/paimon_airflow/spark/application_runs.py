"""The runs of a Spark application: their start, their batch, their reports, and lost runs.

`maintenance` and `paimon_core` are imported by the functions, so that parsing a DAG costs nothing.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_airflow.runs.jobs import PLANNING_THREADS
from paimon_airflow.tasks.job_request import JobRequest
from paimon_airflow.tasks.results import TableResult, lost

if TYPE_CHECKING:
    from paimon_maintenance.history.store import SqlHistory

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that an application has to make; `snapshot_before` is the newest snapshot before it."""

    table: str
    run_id: str
    snapshot_before: int | None


def start_runs(
    request: JobRequest, tables: Sequence[str], *, cluster_name: str | None
) -> list[StartedRun]:
    """The runs of the next application, each with its start in this worker's history.

    Earlier tries whose driver was lost are closed there first.  `cluster_name`: given where the
    driver runs on the cluster and may outlive this task; it is the same for each try, which may
    find the application of an earlier one, and so are the runs' ids.
    """
    with ThreadPoolExecutor(PLANNING_THREADS, thread_name_prefix="start") as pool:
        return list(pool.map(lambda table: _start(request, table, cluster_name), tables))


def _start(request: JobRequest, table: str, cluster_name: str | None) -> StartedRun:
    from paimon_maintenance.history.entry import Actor, entry_of_start  # noqa: PLC0415
    from paimon_maintenance.history.lost_runs import close_lost_runs  # noqa: PLC0415
    from paimon_maintenance.job.arguments import shown_arguments  # noqa: PLC0415 - when a task runs

    services = request.services()
    history, env, actor = services.history, services.env, Actor.here()
    run_id = (
        env.new_uuid()
        if cluster_name is None
        else str(uuid.uuid5(uuid.NAMESPACE_URL, f"{cluster_name}/{table}"))
    )
    asked = request.for_table(table, run_id=run_id)
    before = None
    try:
        opened = asked.open()
        before = opened.snapshots.latest_id()
        if history is not None:
            close_lost_runs(
                history,
                opened,
                warehouse=request.warehouse,
                branch=request.branch,
                at_millis=env.now_millis(),
                actor=actor,
            )
    except Exception as e:  # noqa: BLE001 - the run reports what is wrong with the table
        logger.debug("table=%s cannot be opened before its run: %s", table, e)
    if history is not None:
        entry = entry_of_start(
            job=request.job,
            table=table,
            warehouse=request.warehouse,
            branch=request.branch,
            arguments=shown_arguments(asked.arguments),
            run_id=run_id,
            snapshot_before=before,
            at_millis=env.now_millis(),
            actor=actor,
            on_cluster=cluster_name is not None,
        )
        history.record([entry])
    return StartedRun(table=table, run_id=run_id, snapshot_before=before)


def batch_json(request: JobRequest, runs: Sequence[StartedRun]) -> str:
    """The batch for the Spark application that makes these runs.  It may hold secrets."""
    return json.dumps([request.for_table(run.table, run_id=run.run_id).to_json() for run in runs])


def lost_run(request: JobRequest, run: StartedRun, reason: str, *, ended: bool) -> TableResult:
    """The result of a run without a report, derived from the table; it is recorded in the history.

    `ended`: whether its driver is known to have ended, so that it can commit nothing more.
    """
    from paimon_maintenance.history.lost_runs import (  # noqa: PLC0415 - only when a driver was lost
        LostOutcome,
        LostRun,
        entry_of_lost_run,
        find_lost_run,
    )

    why, _, todo = reason.partition(" -> ")
    try:
        opened = request.for_table(run.table).open()
        before = run.snapshot_before
        found = find_lost_run(opened, run.run_id, snapshot_before=before, ended=ended)
    except Exception as e:  # noqa: BLE001 - the outcome stays unknown
        found = LostRun(outcome=LostOutcome.UNKNOWN, why=str(e))
    services = request.services()
    if services.history is not None:
        starts = services.history.open_runs(table=run.table, warehouse=request.warehouse)
        now = services.env.now_millis()
        ends = [
            entry_of_lost_run(start, found, at_millis=now, why=why)
            for start in starts
            if start.run_id == run.run_id
        ]
        services.history.record(ends[:1])
    return lost(
        run.table,
        f"{why}; {found.line()} -> {todo or found.next_step}",
        snapshot=found.snapshots[-1] if found.snapshots else None,
    )


def read_reports(
    request: JobRequest, folder: str, tables: Sequence[str], failure: str | None
) -> dict[str, Mapping[str, object]]:
    """The reports that the Spark application left in this folder, by table; for the history too.

    `failure`: why the application failed, if it did.
    """
    from paimon_core.io.open import open_file_io

    io, root = open_file_io(folder, request.storage or None)
    reports = {}
    for table in tables:
        file = f"{root}/{table}.json"
        if io.exists(file):
            reports[table] = _with_reason(json.loads(io.read_bytes(file)), failure)
    return _remembered(reports)


def _with_reason(report: Mapping[str, object], failure: str | None) -> Mapping[str, object]:
    """The report; if Spark was lost, with the reason that spark-submit gives.

    The driver's Python process often outlives its JVM for long enough to report the lost
    connection, but only spark-submit's exit code shows how the JVM ended.
    """
    error = report.get("error")
    if failure is None or not isinstance(error, Mapping) or error.get("type") != "SparkLost":
        return report
    why = failure.partition(" -> ")[0]
    return {**report, "error": {**error, "message": f"{why}; {error['message']}"}}


def _remembered(
    reports: dict[str, Mapping[str, object]],
) -> dict[str, Mapping[str, object]]:
    """Put the reports of an application into this worker's history: a cluster has none.

    What comes back says of refusals whether the history knew them.
    """
    from paimon_core.environment import system_environment
    from paimon_maintenance.history.entry import Actor, entries_of_report  # noqa: PLC0415
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415

    history = open_history()
    if history is None:
        return reports
    now, actor = system_environment().now_millis(), Actor.here()
    looked_up = {table: _looked_up(history, report) for table, report in reports.items()}
    for report in looked_up.values():
        history.record(entries_of_report(report, at_millis=now, actor=actor))
    return looked_up


def _looked_up(history: SqlHistory, report: Mapping[str, object]) -> Mapping[str, object]:
    from paimon_core.errors import UnsupportedFeature
    from paimon_maintenance.history.entry import Actor  # noqa: PLC0415 - when a task runs

    error = report.get("error")
    if report.get("status") != "refused" or not isinstance(error, Mapping):
        return report
    known = history.knows_refusal(
        UnsupportedFeature(str(error.get("feature")), str(error.get("message"))),
        table=str(report["table"]),
        warehouse=str(report["warehouse"]),
        actor=Actor.here(),
    )
    return {**report, "error": {**error, "known": known}}
