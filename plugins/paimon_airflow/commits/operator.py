"""The task that maintains commits: compacts just the partitions that they changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from paimon_airflow.commits import on_commit
from paimon_airflow.tasks import assets
from paimon_airflow.tasks.from_reports import spark_ui_of
from paimon_airflow.tasks.job_task import JobTask, without_retry
from paimon_airflow.tasks.lineage import WithLineage, changed_tables
from paimon_airflow.tasks.links import CaretakerLink, SparkUiLink, page_of
from paimon_airflow.tasks.report_text import count_text, failure_text, ordered, report_text
from paimon_airflow.tasks.results import TableResult
from paimon_airflow.tasks.spark_engine import spark_of_connection

if TYPE_CHECKING:
    from airflow.sdk import Context

    from paimon_airflow.tasks.job_request import JobRequest
    from paimon_maintenance.schedule.on_commit import Maintained, OnCommitRun


class MaintainCommits(WithLineage, JobTask):
    """Compacts the partitions that commits changed since the last run.

    - `linger_seconds`: end when no commit arrived for this long.
    - `longest_seconds`: end after this time, even if commits still arrive.
    - `poll_seconds`: how often to look for new commits.
    - `spark_connection`: the connection whose master runs the plans for Spark, in one application
      that lasts as long as the task; None: the scheduler runs these plans later.
    - `spark_conf`: the configuration of this application.

    In a run with a partition key, the task compacts this partition of the tables whose asset events
    started the run.  Several such tasks may run at the same time: each table is claimed by one.
    """

    template_fields = (*JobTask.template_fields, "report")
    overwrite_rtif_after_execution = True
    ui_color = "#e4f7ee"
    operator_extra_links = (SparkUiLink(), CaretakerLink())
    page = ""
    spark_ui = ""

    def __init__(
        self,
        *,
        linger_seconds: float = 45.0,
        longest_seconds: float = 900.0,
        poll_seconds: float = 1.0,
        spark_connection: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(job="compact", **kwargs)
        self.spark_connection = spark_connection
        self.spark_conf = dict(spark_conf or {})
        self.linger_seconds = linger_seconds
        self.longest_seconds = longest_seconds
        self.poll_seconds = poll_seconds
        self.report = ""

    def execute(self, context: Context) -> str:
        """Return the number of tables by outcome as text.

        Raises AirflowException if a table failed, and AirflowSkipException
        if nothing was compacted.
        """
        request = self.request(context)
        ti = context["ti"]
        holder = f"{ti.dag_id} {ti.run_id} {ti.try_number} {os.getpid()}"[-64:]
        spark = None
        if self.spark_connection is not None:
            spark = spark_of_connection(self.spark_connection, self.spark_conf)
        with without_retry():
            runs = on_commit.runs_of(request, holder, spark)
        try:
            found = self._maintain(request, runs, context)
        finally:
            if spark is not None:
                spark.close()
        request.keep_retention()
        return self._end(context, found, request)

    def _maintain(
        self, request: JobRequest, runs: OnCommitRun, context: Context
    ) -> dict[str, Maintained]:
        key = context["dag_run"].partition_key
        if key:
            with without_retry():
                partition = assets.partition_of(key)
            tables = self._tables_of_events(context)
            found = {t: runs.maintain(t, partition) for t in tables}
            for one in found.values():
                self._log(one)
            return found
        return on_commit.maintain_until_quiet(
            request,
            runs,
            linger_seconds=self.linger_seconds,
            longest_seconds=self.longest_seconds,
            poll_seconds=self.poll_seconds,
            on_result=self._log,
        )

    def _tables_of_events(self, context: Context) -> list[str]:
        names = {asset.name for asset in context["triggering_asset_events"]}
        found = {assets.table_of(name) for name in names}
        return sorted(table for table in found if table is not None)

    def _log(self, one: Maintained) -> None:
        from paimon_maintenance.schedule.on_commit import lines_of  # noqa: PLC0415 - when a task runs

        for line in lines_of([one]):
            self.log.info("%s", line)

    def _end(self, context: Context, found: Mapping[str, Maintained], request: JobRequest) -> str:
        warehouse = request.warehouse
        results: list[TableResult] = ordered(on_commit.result_of(one) for one in found.values())
        self.report = report_text(results) if results else "no commit to maintain"
        assets.emit(
            context,
            results,
            job=self.job,
            warehouse=warehouse,
            partitions={t: one.partitions or () for t, one in found.items()},
        )
        self.spark_ui = spark_ui_of(results)
        self.page = page_of(warehouse, request.branch, [r.table for r in results])
        self.changed = changed_tables(results, job=self.job, warehouse=warehouse)
        failures = [r for r in results if r.outcome == "failed"]
        if failures:
            # No retry of the task: the position of the table stays, and the next run tries again.
            raise AirflowException(failure_text(failures))
        if not any(r.outcome == "done" for r in results):
            raise AirflowSkipException(self.report.splitlines()[0])
        return count_text(results)
