"""The steps of every DAG.  A step fails for a table's sake only after its other tables are done.

What flows between them is small: `plan` returns batches of table names, the working steps leave a
result a table under the XCom key `results`, `report` reads them all.  Arguments are not passed on:
each task takes them from the run's params.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import ERROR, INFO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from paimon_airflow import jobs, spark
from paimon_airflow.batches import Expected, names, pack
from paimon_airflow.credentials import storage_of_connection
from paimon_airflow.results import (
    TableResult,
    change_text,
    count,
    count_text,
    detail_lines,
    failure_text,
    lost,
    ordered,
    refusal_text,
    report_text,
    retry_helps,
    summary_of_changes,
    table_lines,
    totals,
)
from paimon_maintenance.engines.lifeline import driver_has_ended, held_lifeline
from paimon_maintenance.engines.shipping import write_packages

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

RESULTS = "results"
IN_PROCESS = "in_process"
_MOST_REPORTED = 500
"""Tables that the report's XCom lists; all of them are in its log."""


class _JobStep(BaseOperator):
    """A step of one job.  `storage` configures the store, `timezone` is the tables' own.

    `storage` is stored with the DAG and holds no secrets; those are in `storage_connection`.
    `policy` is a file; with `schedule` the step is about tables that have this schedule in it.
    `defaults` are the DAG's own arguments of the job, for what neither form nor policy says.
    """

    def __init__(
        self,
        *,
        job: str,
        storage: Mapping[str, str] | None = None,
        storage_connection: str | None = None,
        timezone: str | None = None,
        policy: str | None = None,
        schedule: str | None = None,
        defaults: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.defaults = dict(defaults or {})
        self.policy = policy
        self.schedule = schedule
        self.storage = dict(storage or {})
        self.storage_connection = storage_connection
        self.timezone = timezone

    def request(self, context: Context) -> jobs.Request:
        """The request of this run; a wrong one fails the task for good."""
        with _for_good():
            credentials = storage_of_connection(self.storage_connection)
            return jobs.request_from(
                self.job,
                context["params"],
                storage={**self.storage, **credentials},
                timezone=self.timezone,
                policy=self.policy,
                schedule=self.schedule,
                defaults=self.defaults,
            )


class PlanTables(_JobStep):
    """Plans the job on every table; returns the batches for Spark.

    Tables that are settled by that (nothing to do, dry run, failed) are under the key `results`,
    those that need no Spark under `in_process`; without `batch_tables`, there is no Spark.
    """

    ui_color = "#e8f4fb"

    def __init__(self, *, batch_tables: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_tables = batch_tables

    def execute(self, context: Context) -> list[dict[str, object]]:
        """The batches, one mapped task each."""
        request = self.request(context)
        with _for_good():
            tables = jobs.list_tables(request)
        self.log.info("%s: planning %d tables of %s", self.job, len(tables), request.warehouse)
        plans = []
        for plan in jobs.plan_tables(request, tables):
            self._tell(plan)
            plans.append(plan)
        settled = [plan.result for plan in plans if plan.result is not None]
        self._refuse_if_all_failed(settled, len(plans))
        on_spark = {p.table: p.bytes for p in plans if p.where == "spark" and self.batch_tables}
        batches = pack(
            (Expected(table, size) for table, size in on_spark.items()),
            batch_bytes=request.batch_bytes,
            batch_tables=self.batch_tables or 1,
        )
        in_process = [p.table for p in plans if p.where != "nowhere" and p.table not in on_spark]
        self.log.info(
            "%s; %d tables in process, %d batches on Spark",
            count_text(settled) or "all planned",
            len(in_process),
            len(batches),
        )
        ti = context["ti"]
        ti.xcom_push(key=RESULTS, value=[result.to_json() for result in settled])
        ti.xcom_push(key=IN_PROCESS, value=in_process)
        return [batch.to_json() for batch in batches]

    def _tell(self, plan: jobs.Planned) -> None:
        if plan.result is not None and not plan.lines:
            self.log.info("%s", plan.result.line())
        for line in plan.lines:
            self.log.info("%s", line)

    def _refuse_if_all_failed(self, settled: Sequence[TableResult], planned: int) -> None:
        """When every table failed for a passing reason, the store is down: try all again later."""
        if len(settled) == planned and settled and all(r.wants_retry for r in settled):
            raise AirflowException(failure_text(settled))


class _TableWork(_JobStep):
    """Runs the job on some tables, and only on those again that a first try left undone."""

    def work(
        self, request: jobs.Request, tables: Sequence[str], context: Context
    ) -> Iterator[TableResult]:
        """A result for each table; what is raised is no single table's failure."""
        raise NotImplementedError  # here or on Spark: the operators say

    def ended(self, results: Sequence[TableResult]) -> None:
        """Every table has its result, also where the task is about to fail."""

    def settle(self, tables: Sequence[str], context: Context) -> list[TableResult]:
        """Every table's result, in XCom as well; raises if one failed."""
        request = self.request(context)
        settled = _kept(context)
        todo = [table for table in tables if table not in settled]
        if settled:
            self.log.info("done by an earlier try: %s", ", ".join(sorted(settled)))
        for result in self.work(request, todo, context):
            self.log.info("%s", result.line())
            settled[result.table] = result
        results = [settled[table] for table in tables]
        self.ended(results)
        written = [result.to_json() for result in results]
        context["ti"].xcom_push(key=RESULTS, value=written)
        failures = [result for result in results if result.is_red]
        if failures:
            _keep(context, written)
            if any(result.wants_retry for result in failures):
                raise AirflowException(failure_text(failures))
            raise AirflowFailException(failure_text(failures))
        if all(result.outcome == "refused" for result in results):
            raise AirflowSkipException(refusal_text(results))
        return results


class RunInProcess(_TableWork):
    """Runs the job on the tables whose plan needs no Spark; skipped if there are none."""

    ui_color = "#eef7e4"

    def execute(self, context: Context) -> str:
        """How many tables ended how."""
        tables = context["ti"].xcom_pull(task_ids=list(self.upstream_task_ids), key=IN_PROCESS)
        todo = [table for found in tables for table in found or ()]
        if not todo:
            raise AirflowSkipException("no table's plan is metadata only")
        return count_text(self.settle(todo, context))

    def work(
        self,
        request: jobs.Request,
        tables: Sequence[str],
        context: Context,  # noqa: ARG002 - the same for all work
    ) -> Iterator[TableResult]:
        """A result for each table."""
        return jobs.run_in_process(request, tables)


class RunOnSpark(_TableWork):
    """Runs the job on one batch of tables in one Spark application.

    It is submitted by the Spark provider's SparkSubmitOperator, which lives inside this task: the
    connection decides where it runs, and drivers on a cluster are found again after a crash of the
    worker.  (A subclass would import the provider whenever the DAG is parsed.)  `submit` holds more
    arguments of that operator.
    """

    template_fields: Sequence[str] = ("batch",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"batch": "json"}
    ui_color = "#fdefe0"

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
        """What the UI calls this task: the batch's tables, and in the end what became of them."""
        if not self.outcome:
            return str(self.batch["label"])
        return f"{names(self.batch['tables'])}: {self.outcome}"

    def execute(self, context: Context) -> str:
        """What changed, summed over the batch's tables."""
        results = self.settle(self.batch["tables"], context)
        return change_text(totals(results)) or count_text(results)

    def ended(self, results: Sequence[TableResult]) -> None:
        """Set the end of the label: files before and after, or how many tables failed."""
        self.outcome = count_text(results)
        if not any(result.outcome in ("failed", "refused") for result in results):
            files = {k: v for k, v in totals(results).items() if k == "files"}
            self.outcome = change_text(files) or self.outcome

    def work(
        self, request: jobs.Request, tables: Sequence[str], context: Context
    ) -> Iterator[TableResult]:
        """A result for each table: its own, or that the application was lost before it."""
        target = self._target()
        ti = context["ti"]
        # The same for every try: a later one may find the application of an earlier one running.
        # Another one once a person cleared the task: what the old reports tell is not of this run.
        name = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}-{max(ti.map_index or 0, 0)}-{ti.max_tries}"
        cluster_name = None if target.driver_is_here else name
        with tempfile.TemporaryDirectory(prefix="caretaker-") as folder:
            scratch = Path(folder)
            results = self._results_folder(target, scratch, name)
            runs = jobs.start_runs(request, tables, cluster_name=cluster_name)
            batch = spark.write_private(
                scratch / f"caretaker-batch-{uuid.uuid4()}.json", jobs.batch_json(request, runs)
            )
            failure, ended = self._run_application(target, batch, results, tables, context)
            reports = jobs.read_reports(request, results, tables)
        for run in runs:
            report = reports.get(run.table)
            if report is None:
                reason = failure or "the Spark application left no result for it"
                yield jobs.lost_run(request, run, reason, ended=ended)
            else:
                yield jobs.result_of(request, report)

    def _results_folder(self, target: spark.Target, scratch: Path, name: str) -> str:
        try:
            return spark.results_folder(target, self.results, scratch, name)
        except spark.SubmitError as e:
            raise AirflowFailException(str(e)) from e

    def _run_application(
        self,
        target: spark.Target,
        batch: Path,
        results: str,
        tables: Sequence[str],
        context: Context,
    ) -> tuple[str | None, bool]:
        """Why the application failed, if it did, and whether its driver is known to have ended.

        A driver in this worker ends with this task.  One on the cluster goes on, so that another
        try can find it again; the table tells what it committed.
        """
        if not target.driver_is_here:
            return self._submit_application(target, batch, results, None, tables, context), False
        with held_lifeline(batch.parent) as lifeline:
            failure = self._submit_application(target, batch, results, lifeline, tables, context)
        return failure, driver_has_ended(lifeline)

    def _submit_application(
        self,
        target: spark.Target,
        batch: Path,
        results: str,
        lifeline: Path | None,
        tables: Sequence[str],
        context: Context,
    ) -> str | None:
        """Why the application failed, None if it did not."""
        from airflow.providers.apache.spark.operators.spark_submit import (  # noqa: PLC0415 - slow
            SparkSubmitOperator,
        )

        submit = {k: v for k, v in self.submit.items() if k != "files"}
        try:
            self._submit = SparkSubmitOperator(
                task_id=self.task_id,
                conn_id=self.spark_connection,
                application=self.application or spark.application(),
                application_args=spark.application_args(target, batch, results, lifeline),
                files=spark.shipped_files(target, batch, self.submit.get("files")),
                name=f"{self.job} {names(tables)}",
                conf=spark.spark_conf(target, self.spark_conf),
                env_vars=spark.environment(target),
                py_files=self._py_files(target, batch.parent),
                spark_binary=spark.spark_submit() if target.driver_is_here else None,
                **{**spark.tracking(target, self.submit), **submit},
            )
        except (spark.SubmitError, TypeError) as e:
            raise AirflowFailException(str(e)) from e
        try:
            # Not `execute` itself, which warns when it is called from another operator's.
            SparkSubmitOperator.execute.__wrapped__(self._submit, context)  # type: ignore[attr-defined]
        except AirflowException as e:
            # A table that failed makes the application fail as well; its report says why.
            self.log.info("the Spark application ended with an error")
            return spark.failure_reason(str(e))
        return None

    def _target(self) -> spark.Target:
        """Where the connection leads; fails the task for good when there is no such connection."""
        from airflow.sdk import BaseHook  # noqa: PLC0415 - only when a task runs

        try:
            connection = BaseHook.get_connection(self.spark_connection)
        except AirflowNotFoundException as e:
            message = (
                f"there is no connection {self.spark_connection!r}: create it under Admin > "
                "Connections with type Spark and the master as host, for instance local[2]"
            )
            raise AirflowFailException(message) from e
        master = connection.host or "local[*]"
        if "://" not in master and connection.conn_type != "spark":
            master = f"{connection.conn_type}://{master}"
        return spark.Target(master, str(connection.extra_dejson.get("deploy-mode") or "client"))

    def _py_files(self, target: spark.Target, scratch: Path) -> str | None:
        if target.is_local:
            return None
        return self.packages or str(write_packages(scratch / "caretaker.zip"))

    def on_kill(self) -> None:
        """Stop the application."""
        if self._submit is not None:
            self._submit.on_kill()


class ReportRun(BaseOperator):
    """Says what happened to every table, and fails the run if a table failed.

    Where nothing failed but tables were refused, which the history knows or the policy skips, the
    task ends as skipped: neither green nor red, and its log names them.

    The report is in the log, as `return_value` in XCom, and, for people, on the task's page under
    *Rendered Templates*: `report` is no template, but what is shown there is taken once more after
    the task ran.
    """

    template_fields: Sequence[str] = ("report",)
    overwrite_rtif_after_execution = True
    ui_color = "#f4f0fa"

    def __init__(self, *, planned_by: str, run_by: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned_by = planned_by
        self.run_by = list(run_by)
        self.report = ""

    def execute(self, context: Context) -> None:
        """Log the report, keep it as return value, then fail if it must."""
        ti = context["ti"]
        if ti.xcom_pull(task_ids=self.planned_by, key=IN_PROCESS) is None:
            raise AirflowFailException(f"planning failed: see the log of task {self.planned_by}")
        results = ordered(self._results(context))
        heading, *lines = table_lines(results)
        self.log.info("%s", heading)
        for result, line in zip(results, lines, strict=True):
            self.log.log(ERROR if result.is_red else INFO, "%s", line)
            for detail in detail_lines(result):
                self.log.info("    %s", detail)
        summary = _summary(results)
        self.report = report_text(results)
        self.log.info("%s. %s", summary["outcome"], summary["change"])
        ti.xcom_push(key="return_value", value=summary)
        failures = [result for result in results if result.is_red]
        if failures:
            raise AirflowFailException(failure_text(failures))
        refused = [result for result in results if result.outcome == "refused"]
        if refused:
            raise AirflowSkipException(refusal_text(refused))

    def _results(self, context: Context) -> list[TableResult]:
        """One result a table; tables that a task was to do and left no result for are lost."""
        ti = context["ti"]
        found = {}
        for task in [self.planned_by, *self.run_by]:
            for part in ti.xcom_pull(task_ids=[task], key=RESULTS):
                for written in part or ():
                    result = TableResult.from_json(written)
                    found[result.table] = result
        wanted = list(ti.xcom_pull(task_ids=self.planned_by, key=IN_PROCESS) or ())
        for batch in ti.xcom_pull(task_ids=self.planned_by) or ():
            wanted += batch["tables"]
        for table in wanted:
            found.setdefault(
                table, lost(table, "its task ended without a result: see that task's log")
            )
        return list(found.values())


def _summary(results: Sequence[TableResult]) -> dict[str, object]:
    """The report as XCom keeps it."""
    return {
        "outcome": count_text(results),
        "change": summary_of_changes(results),
        "counts": dict(count(results)),
        "totals": totals(results),
        "failed": {r.table: f"{r.error}: {r.summary}" for r in results if r.outcome == "failed"},
        "refused": {r.table: f"{r.error}: {r.summary}" for r in results if r.outcome == "refused"},
        "tables": [r.to_json() for r in results if r.outcome != "nothing"][:_MOST_REPORTED],
    }


@contextmanager
def _for_good() -> Iterator[None]:
    """Errors that another try cannot cure fail the task without one."""
    try:
        yield
    except Exception as e:
        if retry_helps(type(e).__name__, str(e)):
            raise
        raise AirflowFailException(str(e)) from e


def _keep(context: Context, written: list[dict[str, object]]) -> None:
    """Remember results for the next try (XCom is cleared before it)."""
    store = context.get("task_state_store")
    if store is not None:
        store.set(RESULTS, json.dumps({"cycle": context["ti"].max_tries, RESULTS: written}))


def _kept(context: Context) -> dict[str, TableResult]:
    """The results of earlier tries that stand.

    A retry repeats what may end differently.  A person who clears the task wants all failures
    tried again; that is when Airflow grants more tries than there were.
    """
    store = context.get("task_state_store")
    text = store.get(RESULTS) if store is not None else None
    if not text:
        return {}
    kept = json.loads(cast("str", text))
    results = [TableResult.from_json(written) for written in kept[RESULTS]]
    cleared = kept["cycle"] != context["ti"].max_tries
    return {
        result.table: result
        for result in results
        if result.outcome != "failed" or not (cleared or result.wants_retry)
    }
