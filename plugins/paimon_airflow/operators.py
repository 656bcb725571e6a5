"""The tasks of a job.  A task fails because of one table only after its other tables are done.

What flows between them is small: `plan` returns batches of table names, the working tasks push one
result per table under the XCom key `results`, `report` reads them all.  Arguments are not passed on:
each task takes them from its parameters, or from the params of the DAG run.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import ERROR, INFO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from maintenance.lifeline import driver_has_ended, held_lifeline
from paimon_airflow import jobs, spark, spark_runs
from paimon_airflow.batches import Expected, names, pack
from paimon_airflow.credentials import storage_of_connection
from paimon_airflow.job_request import JobRequest, request_from
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

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

RESULTS = "results"
IN_PROCESS = "in_process"
POLICY_VARIABLE = "CARETAKER_POLICY"
_SCHEDULED = "scheduled"
"""The type of a run that the schedule makes; all others are somebody's."""
_MOST_REPORTED = 500
"""Tables that the report's XCom lists; all of them are in its log."""


class _JobTask(BaseOperator):
    """A task of one job.

    `params_of_job` are the tables, arguments and limits, under the names of the job's form; None:
    those of the DAG run, which shows that form.  A run by the schedule takes `scheduled` instead of
    the values with which the form opens.

    `storage` configures the store, `timezone` is the one of the tables' writers.  `storage` is stored
    with the DAG and holds no secrets; those are in `storage_connection`.  `policy` is a file; "": no
    policy; None: the one of CARETAKER_POLICY on the worker.  With `schedule`, the task works on the
    tables that have this schedule in the policy.  `defaults` are the DAG's own arguments of the job,
    which apply where neither the run nor the policy gives one.
    """

    template_fields: Sequence[str] = ("params_of_job", "storage_connection", "policy", "timezone")
    template_fields_renderers: ClassVar[dict[str, str]] = {"params_of_job": "json"}

    def __init__(
        self,
        *,
        job: str,
        params_of_job: Mapping[str, Any] | None = None,
        scheduled: Mapping[str, object] | None = None,
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
        self.params_of_job = params_of_job
        self.scheduled = dict(scheduled or {})
        self.defaults = dict(defaults or {})
        self.policy = policy
        self.schedule = schedule
        self.storage = dict(storage or {})
        self.storage_connection = storage_connection
        self.timezone = timezone

    def request(self, context: Context) -> JobRequest:
        """The request of this run; a wrong one fails the task without a retry."""
        with _without_retry():
            credentials = storage_of_connection(self.storage_connection)
            policy = os.environ.get(POLICY_VARIABLE) if self.policy is None else self.policy
            return request_from(
                self.job,
                self._params(context),
                storage={**self.storage, **credentials},
                timezone=self.timezone,
                policy=policy or None,
                schedule=self.schedule,
                defaults=self.defaults,
            )

    def _params(self, context: Context) -> Mapping[str, object]:
        if self.params_of_job is not None:
            return self.params_of_job
        if self.scheduled and context["dag_run"].run_type == _SCHEDULED:
            return {**context["params"], **self.scheduled}
        return context["params"]


class PlanTables(_JobTask):
    """Plans the job on every table; returns the batches for Spark.

    It pushes the results of tables that need no run (nothing to do, dry run, failed) under the key
    `results`, and the tables that need no Spark under `in_process`.  Without `batch_tables`, no table
    goes to Spark.
    """

    ui_color = "#e8f4fb"

    def __init__(self, *, batch_tables: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_tables = batch_tables

    def execute(self, context: Context) -> list[dict[str, object]]:
        """The batches, one mapped task each."""
        request = self.request(context)
        with _without_retry():
            tables = jobs.list_tables(request)
        self.log.info("%s: planning %d tables of %s", self.job, len(tables), request.warehouse)
        plans = []
        for plan in jobs.plan_tables(request, tables):
            self._log(plan)
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

    def _log(self, plan: jobs.Planned) -> None:
        if plan.result is not None and not plan.lines:
            self.log.info("%s", plan.result.line())
        for line in plan.lines:
            self.log.info("%s", line)

    def _refuse_if_all_failed(self, settled: Sequence[TableResult], planned: int) -> None:
        """When every table failed for a passing reason, the store is down: try all again later."""
        if len(settled) == planned and settled and all(r.wants_retry for r in settled):
            raise AirflowException(failure_text(settled))


class _TableWork(_JobTask):
    """Runs the job on some tables, and only on those again that a first try left undone."""

    def work(
        self, request: JobRequest, tables: Sequence[str], context: Context
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
    """Runs the job on the tables whose plan needs no Spark; skipped if there are none.

    `planned_by` is the id of the task that planned them.
    """

    ui_color = "#eef7e4"

    def __init__(self, *, planned_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned_by = planned_by

    def execute(self, context: Context) -> str:
        """How many tables ended with which outcome."""
        todo = context["ti"].xcom_pull(task_ids=self.planned_by, key=IN_PROCESS)
        if not todo:
            raise AirflowSkipException("no table has a plan that only changes metadata")
        return count_text(self.settle(todo, context))

    def work(
        self,
        request: JobRequest,
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

    template_fields: Sequence[str] = (
        *_JobTask.template_fields,
        "batch",
        "spark_connection",
        "spark_conf",
        "results",
        "packages",
        "submit",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **_JobTask.template_fields_renderers,
        "batch": "json",
        "spark_conf": "json",
        "submit": "json",
    }
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
        self, request: JobRequest, tables: Sequence[str], context: Context
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
            runs = spark_runs.start_runs(request, tables, cluster_name=cluster_name)
            batch = spark.write_private(
                scratch / f"caretaker-batch-{uuid.uuid4()}.json",
                spark_runs.batch_json(request, runs),
            )
            failure, ended = self._run_application(target, batch, results, tables, context)
            reports = spark_runs.read_reports(request, results, tables)
        for run in runs:
            report = reports.get(run.table)
            if report is None:
                reason = failure or "the Spark application left no result for it"
                yield spark_runs.lost_run(request, run, reason, ended=ended)
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
                application_args=spark.application_args(
                    target, batch, results, lifeline, self.timezone
                ),
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
        return self.packages or str(spark.write_packages(scratch / "caretaker.zip"))

    def on_kill(self) -> None:
        """Stop the application."""
        if self._submit is not None:
            self._submit.on_kill()


class ReportRun(BaseOperator):
    """Reports what happened to every table, and fails the run if a table failed.

    Refused tables that the history knows, or that the policy skips, fail nothing; the log names
    them.  With `skip_if_refused` the task then ends as skipped, neither green nor red.

    The report is in the log, as `return_value` in XCom, and, for people, on the task's page under
    *Rendered Templates*: `report` is not a template, but Airflow stores these fields again after the
    task ran.
    """

    template_fields: Sequence[str] = ("report",)
    overwrite_rtif_after_execution = True
    ui_color = "#f4f0fa"

    def __init__(
        self,
        *,
        planned_by: str,
        run_by: Sequence[str],
        skip_if_refused: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.planned_by = planned_by
        self.run_by = list(run_by)
        self.skip_if_refused = skip_if_refused
        self.report = ""

    def execute(self, context: Context) -> None:
        """Log the report, keep it as return value, then fail if it must."""
        ti = context["ti"]
        if ti.xcom_pull(task_ids=self.planned_by, key=IN_PROCESS) is None:
            self._end_without_plan(context)
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
        if refused and self.skip_if_refused:
            raise AirflowSkipException(refusal_text(refused))
        if refused:
            self.log.warning("%s", refusal_text(refused))

    def _end_without_plan(self, context: Context) -> NoReturn:
        """Skip the report if planning was skipped, as by a branch before the task group."""
        ti = context["ti"]
        states = ti.get_task_states(
            dag_id=ti.dag_id, task_ids=[self.planned_by], run_ids=[ti.run_id]
        )
        if states.get(ti.run_id, {}).get(self.planned_by) == "skipped":
            raise AirflowSkipException(f"task {self.planned_by} was skipped")
        raise AirflowFailException(f"planning failed: see the log of task {self.planned_by}")

    def _results(self, context: Context) -> list[TableResult]:
        """One result per table; a table that was planned and has no result counts as lost."""
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
                table, lost(table, "its task ended without a result: see the log of that task")
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
def _without_retry() -> Iterator[None]:
    """Errors that a retry cannot cure fail the task without one."""
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
