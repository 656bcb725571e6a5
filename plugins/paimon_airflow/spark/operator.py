"""The task that runs a job on one batch of tables in one Spark application."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
)

from paimon_airflow.runs import jobs
from paimon_airflow.spark import application_runs, submission
from paimon_airflow.tasks.batches import names
from paimon_airflow.tasks.from_reports import spark_ui_of
from paimon_airflow.tasks.job_request import JobRequest
from paimon_airflow.tasks.job_task import JobTask, TableWork
from paimon_airflow.tasks.links import CaretakerLink, SparkUiLink
from paimon_airflow.tasks.report_text import change_text, count_text, totals
from paimon_airflow.tasks.results import TableResult
from paimon_maintenance.engines.lifeline import driver_has_ended, held_lifeline
from paimon_maintenance.engines.shipping import write_packages

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context


class RunOnSpark(TableWork):
    """Runs the job on one batch of tables in one Spark application.

    - `batch`: a batch of `PlanTables`.
    - `spark_connection`: the Spark connection; it decides where the application runs.
    - `spark_conf`: the configuration of the application.
    - `results`: a folder or URL that driver and worker can both reach; needed if the driver runs on
      the cluster.
    - `packages`: a zip file with `paimon_core` and `paimon_maintenance` for the executors; None:
      made when the task needs it.
    - `submit`: more arguments of SparkSubmitOperator.
    - `application`: the path of the application to submit; None: Caretaker's own.

    The task creates a SparkSubmitOperator of the Spark provider and executes it: so it finds a
    driver on a cluster again after the worker crashed.  It is no subclass of that operator, because
    every parse of the DAG would then import the provider.
    """

    template_fields: Sequence[str] = (
        *JobTask.template_fields,
        "batch",
        "spark_connection",
        "spark_conf",
        "results",
        "packages",
        "submit",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **JobTask.template_fields_renderers,
        "batch": "json",
        "spark_conf": "json",
        "submit": "json",
    }
    ui_color = "#fdefe0"
    operator_extra_links = (SparkUiLink(), CaretakerLink())
    spark_ui = ""

    def __init__(
        self,
        *,
        batch: Mapping[str, Any],
        spark_connection: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        results: str | None = None,
        packages: str | None = None,
        submit: Mapping[str, Any] | None = None,
        application: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.batch = batch
        self.spark_connection = spark_connection
        self.spark_conf = dict(spark_conf or {})
        self.results = results
        self.packages = packages
        self.submit = dict(submit or {})
        self.application = application
        self.outcome = ""
        self._submit: SparkSubmitOperator | None = None

    @property
    def label(self) -> str:
        """The task in the UI: the tables of the batch, why they are on Spark, and their outcome."""
        if not self.outcome:
            return str(self.batch["label"])
        return f"{names(self.batch['tables'])}: {self.outcome} ({self.batch['why']})"

    def execute(self, context: Context) -> str:
        """Return the changes as text, summed over the tables of the batch."""
        results = self.results_of(self.batch["tables"], context)
        return change_text(totals(results)) or count_text(results)

    def ended(self, results: Sequence[TableResult]) -> None:
        """Show the outcome in the label: files before and after, or the number of failed tables."""
        self.spark_ui = spark_ui_of(results)
        self.outcome = count_text(results)
        if not any(result.outcome in ("failed", "refused") for result in results):
            files = {k: v for k, v in totals(results).items() if k == "files"}
            self.outcome = change_text(files) or self.outcome

    def work(
        self, request: JobRequest, tables: Sequence[str], context: Context
    ) -> Iterator[TableResult]:
        """Yield a result for each table: that of its report, or that the application was lost."""
        target = self._target()
        ti = context["ti"]
        # All tries have the same name, because the application of an earlier try may still run.
        # Clearing the task raises `max_tries`, and so makes a new name: old reports must not count.
        name = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}-{max(ti.map_index or 0, 0)}-{ti.max_tries}"
        cluster_name = None if target.driver_is_here else name
        with tempfile.TemporaryDirectory(prefix="caretaker-") as folder:
            scratch = Path(folder)
            results = self._results_folder(target, scratch, name)
            runs = application_runs.start_runs(request, tables, cluster_name=cluster_name)
            batch = submission.write_private(
                scratch / f"caretaker-batch-{uuid.uuid4()}.json",
                application_runs.batch_json(request, runs),
            )
            failure, ended = self._run_application(target, batch, results, tables, context)
            reports = application_runs.read_reports(request, results, tables, failure)
        for run in runs:
            report = reports.get(run.table)
            if report is None:
                reason = failure or "the Spark application left no result for it"
                yield application_runs.lost_run(request, run, reason, ended=ended)
            else:
                yield jobs.result_of(request, report)

    def _results_folder(self, target: submission.Target, scratch: Path, name: str) -> str:
        try:
            return submission.results_folder(target, self.results, scratch, name)
        except submission.SubmitError as e:
            raise AirflowFailException(str(e)) from e

    def _run_application(
        self,
        target: submission.Target,
        batch: Path,
        results: str,
        tables: Sequence[str],
        context: Context,
    ) -> tuple[str | None, bool]:
        """Return why the application failed (or None), and whether its driver surely ended.

        A driver in this worker ends with this task.  A driver on the cluster continues, so that
        another try can find it again; its snapshots show what it committed.
        """
        if not target.driver_is_here:
            return self._submit_application(target, batch, results, None, tables, context), False
        with held_lifeline(batch.parent) as lifeline:
            failure = self._submit_application(target, batch, results, lifeline, tables, context)
        return failure, driver_has_ended(lifeline)

    def _submit_application(
        self,
        target: submission.Target,
        batch: Path,
        results: str,
        lifeline: Path | None,
        tables: Sequence[str],
        context: Context,
    ) -> str | None:
        """Return why the application failed; None if it did not."""
        from airflow.providers.apache.spark.operators.spark_submit import (  # noqa: PLC0415 - slow
            SparkSubmitOperator,
        )

        submit = {k: v for k, v in self.submit.items() if k != "files"}
        try:
            self._submit = SparkSubmitOperator(
                task_id=self.task_id,
                conn_id=self.spark_connection,
                application=self.application or submission.application(),
                application_args=submission.application_args(
                    target, batch, results, lifeline, self.timezone
                ),
                files=submission.shipped_files(target, batch, self.submit.get("files")),
                name=f"{self.job} {names(tables)}",
                conf=submission.spark_conf(target, self.spark_conf),
                env_vars=submission.environment(target),
                py_files=self._py_files(target, batch.parent),
                spark_binary=submission.spark_submit() if target.driver_is_here else None,
                **{**submission.tracking(target, self.submit), **submit},
            )
        except (submission.SubmitError, TypeError) as e:
            raise AirflowFailException(str(e)) from e
        try:
            # `execute` itself warns when another operator calls it, so call the wrapped function.
            SparkSubmitOperator.execute.__wrapped__(self._submit, context)  # type: ignore[attr-defined]
        except AirflowException as e:
            # One failed table makes the application fail; the report of the table has the reason.
            self.log.info("the Spark application ended with an error")
            return submission.failure_reason(str(e))
        return None

    def _target(self) -> submission.Target:
        """The target of the connection; AirflowFailException if the connection does not exist."""
        from airflow.sdk import BaseHook  # noqa: PLC0415 - only when a task runs

        try:
            connection = BaseHook.get_connection(self.spark_connection)
        except AirflowNotFoundException as e:
            message = (
                f"there is no connection {self.spark_connection!r}: create it under Admin > "
                "Connections, with type Spark and the master as host, for instance local[2]"
            )
            raise AirflowFailException(message) from e
        master = connection.host or "local[*]"
        if "://" not in master and connection.conn_type != "spark":
            master = f"{connection.conn_type}://{master}"
        return submission.Target(
            master, str(connection.extra_dejson.get("deploy-mode") or "client")
        )

    def _py_files(self, target: submission.Target, scratch: Path) -> str | None:
        if target.is_local:
            return None
        return self.packages or str(write_packages(scratch / "caretaker.zip"))

    def on_kill(self) -> None:
        """Stop the application."""
        if self._submit is not None:
            self._submit.on_kill()
