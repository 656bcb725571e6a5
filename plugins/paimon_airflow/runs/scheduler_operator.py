"""The task that runs one round of the scheduler and returns its proposals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from paimon_airflow.runs import jobs
from paimon_airflow.tasks.assets import MAINTAINED, emit
from paimon_airflow.tasks.from_reports import from_report, spark_ui_of
from paimon_airflow.tasks.job_task import JobTask, without_retry
from paimon_airflow.tasks.lineage import WithLineage, changed_tables
from paimon_airflow.tasks.links import CaretakerLink, SparkUiLink, page_of
from paimon_airflow.tasks.report_text import failure_text
from paimon_airflow.tasks.spark_engine import spark_of_connection

if TYPE_CHECKING:
    from airflow.sdk import Context

    from paimon_airflow.tasks.job_request import JobRequest
    from paimon_maintenance.schedule.round import Round

RESCALE_DAG = "caretaker_rescale"
_NOT_IN_RUN_IDS: Final = re.compile(r"[^A-Za-z0-9_.~:+-]")
"""Characters that Airflow refuses in the id of a run (`allowed_run_id_pattern`)."""
_LONGEST_NAME: Final = 150
"""The maximum length of a table name in the id of a run, which Airflow limits to 250 characters."""
_SEPARATORS: Final = re.compile("[,;]")


class RunScheduler(WithLineage, JobTask):
    """Measures changed tables, and runs the jobs that are worth their cost (docs/scheduling.md).

    Small plans run in the worker, others on the master of `spark_connection`.  If this connection
    does not exist, all plans run in the worker.  `spark_conf` is the configuration of the
    application.
    """

    ui_color = "#e8eaf6"
    operator_extra_links = (SparkUiLink(), CaretakerLink())
    page = ""
    spark_ui = ""

    def __init__(
        self,
        *,
        spark_connection: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(job="compact", outlets=[MAINTAINED], **kwargs)
        self.spark_connection = spark_connection
        self.spark_conf = dict(spark_conf or {})

    def execute(self, context: Context) -> list[dict[str, object]]:
        """Run one round; return its proposals as arguments of a TriggerDagRunOperator each.

        Raises AirflowFailException without a history or if a job failed, and AirflowException if a
        table cannot be measured.
        """
        from paimon_maintenance.engines.gate import Gate, usable_cores  # noqa: PLC0415
        from paimon_maintenance.engines.process import prepare_process  # noqa: PLC0415

        prepare_process()  # before the next imports load Arrow
        from paimon_maintenance.engines.lifeline import ends_with_parent  # noqa: PLC0415
        from paimon_maintenance.engines.local import LocalEngine  # noqa: PLC0415

        request = self.request(context)
        with without_retry():
            tables = jobs.list_tables(request)
        spark = spark_of_connection(self.spark_connection, self.spark_conf)
        services = replace(
            request.services(),
            engine=LocalEngine(gate=Gate(usable_cores())),
            spark=spark,
            check_supervised=ends_with_parent(),
        )
        if services.history is None:
            message = (
                "the scheduler needs the history, which is disabled: set CARETAKER_HISTORY_URL to "
                "a database instead of none"
            )
            raise AirflowFailException(message)
        try:
            found = self._round(request, tables, services)
        finally:
            if spark is not None:
                spark.close()
        return self._end(context, request, found)

    def _round(self, request: JobRequest, tables: list[str], services: Any) -> Round:
        from paimon_maintenance.history.need_store import NeedStore  # noqa: PLC0415 - when a task runs
        from paimon_maintenance.policy.model import Policy  # noqa: PLC0415
        from paimon_maintenance.schedule.round import run_round  # noqa: PLC0415
        from paimon_maintenance.schedule.scope import Scope  # noqa: PLC0415

        scope = Scope(
            warehouse=request.warehouse,
            tables=tuple(tables),
            branch=request.branch,
            storage=request.storage,
            engine=request.engine,
            default_engine=request.default_engine,
        )
        store = NeedStore(services.history, request.warehouse, request.branch or "main")
        return run_round(
            scope,
            request.policy or Policy(file=""),
            services,
            store,
            on_result=lambda r: self.log.info(
                "%s %s: %s, %.1f s, predicted %.1f s",
                r.decision.table,
                r.decision.job,
                r.report.status,
                r.seconds,
                r.decision.seconds,
            ),
        )

    def _end(self, context: Context, request: JobRequest, found: Round) -> list[dict[str, object]]:
        for decision in found.decisions:
            if decision.action != "no":
                self.log.info(
                    "%s %s %s: %s", decision.action, decision.table, decision.job, decision.reason
                )
        results = [from_report(r.report.to_json()) for r in found.results]
        self.spark_ui = spark_ui_of(results)
        self.page = page_of(request.warehouse, request.branch, [r.table for r in results])
        self.changed = [
            table
            for run, result in zip(found.results, results, strict=True)
            for table in changed_tables([result], job=run.report.job, warehouse=request.warehouse)
        ]
        emit(context, results, job="schedule", warehouse=request.warehouse)
        failures = [r for r in results if r.outcome == "failed"]
        if failures:
            # No retry of the task: the next round repeats failed jobs, with an increasing delay.
            raise AirflowFailException(failure_text(failures))
        if tables_failed := {n: e for n, e in found.failed.items() if not _is_refusal(e)}:
            text = "\n".join(f"  {name}: {error}" for name, error in tables_failed.items())
            raise AirflowException(f"tables cannot be measured:\n{text}")
        return proposals_of(found, request.warehouse, request.branch)


def _is_refusal(error: Exception) -> bool:
    from paimon_maintenance.job.exit_codes import is_refusal  # noqa: PLC0415 - only when a task runs

    return is_refusal(error)


def proposals_of(
    found: Round, warehouse: str, branch: str | None = None
) -> list[dict[str, object]]:
    """The proposals of a round as runs of `caretaker_rescale`, which wait for an approval.

    The id of a run is made of warehouse, branch, table and number of buckets.  So rounds that
    repeat the proposal make no second run.  The partitions are not part of the id, because new ones
    become due every day.
    """
    from paimon_airflow.runs.approval import PROPOSED  # noqa: PLC0415 - the provider

    runs: list[dict[str, object]] = []
    place = (
        {"warehouse": warehouse} if branch is None else {"warehouse": warehouse, "branch": branch}
    )
    for decision in found.decisions:
        one = decision.candidate
        if decision.action != "propose" or one is None:
            continue
        arguments = dict(one.arguments)
        text = f"{' '.join(place.values())} {decision.table} {arguments.get('bucket_num')}"
        conf = {**place, "tables": [decision.table], **_typed(arguments)}
        shown = _NOT_IN_RUN_IDS.sub("_", decision.table)[:_LONGEST_NAME]
        run_id = f"{PROPOSED}{shown}__{crc32(text.encode()):08x}"
        runs.append({"trigger_run_id": run_id, "conf": conf, "note": decision.reason})
    return runs


def _typed(arguments: dict[str, object]) -> dict[str, object]:
    """The arguments as the form of a DAG takes them: partitions as "dt=1,hr=2", with escapes."""
    partitions = arguments.get("partitions")
    if not isinstance(partitions, list):
        return {**arguments, "dry_run": False}
    shown = [
        ",".join(_SEPARATORS.sub(r"\\\g<0>", f"{k}={v}") for k, v in p.items()) for p in partitions
    ]
    return {**arguments, "partitions": shown, "dry_run": False}
