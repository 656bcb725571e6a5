"""The tasks of a job.  If one table fails, its task fails only after all other tables are done.

The XComs between them are small: `plan` returns batches of table names, the working tasks push one
result per table under the key `results`, and `report` reads all of these.  Arguments are not passed
on: each task takes them from its parameters, or from the params of the DAG run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from logging import ERROR, INFO
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from paimon_airflow.runs import jobs
from paimon_airflow.tasks.assets import MAINTAINED, emit
from paimon_airflow.tasks.batches import Expected, pack
from paimon_airflow.tasks.job_request import JobRequest
from paimon_airflow.tasks.job_task import RESULTS, JobTask, TableWork, without_retry
from paimon_airflow.tasks.report_text import (
    count,
    count_text,
    detail_lines,
    engine_text,
    failure_text,
    ordered,
    refusal_text,
    report_text,
    summary_of_changes,
    table_lines,
    totals,
)
from paimon_airflow.tasks.results import TableResult, lost
from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from airflow.sdk import Context

IN_PROCESS: Final = "in_process"
"""The XCom key of the tables that run in the worker."""
_MOST_REPORTED: Final = 500
"""The maximum number of tables in the XCom of the report; its log has all of them."""


class PlanTables(JobTask):
    """Plans the job for every table, and returns the batches for Spark.

    - `batch_tables`: the maximum number of tables in a batch; None: no table goes to Spark.
    - `approval`: also push the plans that a person has to approve.

    Pushes the results of tables that need no run (nothing to do, dry run, failed) under the XCom
    key `results`, and the names of tables that run in the worker under `in_process`.
    """

    ui_color = "#e8f4fb"

    def __init__(self, *, batch_tables: int | None, approval: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_tables = batch_tables
        self.approval = approval

    def execute(self, context: Context) -> list[dict[str, object]]:
        """Return the batches as JSON; each becomes one mapped task.

        Raises AirflowException, so that Airflow retries, if planning failed for every table and a
        retry may help.
        """
        request = self.request(context)
        with without_retry():
            tables = jobs.list_tables(request)
        self.log.info("%s: planning %d tables of %s", self.job, len(tables), request.warehouse)
        plans = []
        for plan in jobs.plan_tables(request, tables):
            self._log(plan)
            plans.append(plan)
        request.keep_retention()
        results = [plan.result for plan in plans if plan.result is not None]
        self._refuse_if_all_failed(results, len(plans))
        on_spark = {p.table: p for p in plans if p.where == "spark" and self.batch_tables}
        batches = pack(
            (Expected(p.table, p.bytes, p.rule) for p in on_spark.values()),
            batch_bytes=request.batch_bytes,
            batch_tables=self.batch_tables or 1,
        )
        in_process = [p.table for p in plans if p.where != "nowhere" and p.table not in on_spark]
        self.log.info(
            "%s; %d tables in process, %d batches on Spark",
            count_text(results) or "all planned",
            len(in_process),
            len(batches),
        )
        ti = context["ti"]
        ti.xcom_push(key=RESULTS, value=[result.to_json() for result in results])
        ti.xcom_push(key=IN_PROCESS, value=in_process)
        if self.approval:
            self._push_approvals(request, [p for p in plans if p.where != "nowhere"], context)
        return [batch.to_json() for batch in batches]

    def _push_approvals(
        self, request: JobRequest, plans: Sequence[jobs.Planned], context: Context
    ) -> None:
        from paimon_airflow.runs.approval import (  # noqa: PLC0415 - the provider
            APPROVALS,
            PROPOSED,
            ask_history,
        )

        proposed = str(context["dag_run"].run_id).startswith(PROPOSED)
        waiting = {}
        for plan in plans:
            reason = request.approval_wanted(plan.table, proposed=proposed)
            if reason is None:
                continue
            if ask_history(request, plan.table, reason, plan.lines):
                self.log.info("%s: approved on the command line", plan.table)
            else:
                waiting[plan.table] = list(plan.lines)
        context["ti"].xcom_push(key=APPROVALS, value=waiting)

    def _log(self, plan: jobs.Planned) -> None:
        if plan.result is not None and not plan.lines:
            self.log.info("%s", plan.result.line())
        for line in plan.lines:
            self.log.info("%s", line)
        if plan.engine:
            self.log.info("%s runs on %s", plan.table, plan.engine)

    def _refuse_if_all_failed(self, results: Sequence[TableResult], planned: int) -> None:
        """Fail the task if every table failed and may succeed later: the store is probably down."""
        if len(results) == planned and results and all(r.wants_retry for r in results):
            raise AirflowException(failure_text(results))


class RunInProcess(TableWork):
    """Runs the job in the worker on the tables whose plan needs no Spark.

    Skipped if there are none.  `planned_by` is the id of the task that planned them.  After the
    run, `engine` on the page of the task, under *Rendered Templates*, explains why the tables ran
    here (see `ReportRun`).
    """

    template_fields: Sequence[str] = (*JobTask.template_fields, "engine")
    overwrite_rtif_after_execution = True
    ui_color = "#eef7e4"

    def __init__(self, *, planned_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned_by = planned_by
        self.engine = ""

    def ended(self, results: Sequence[TableResult]) -> None:
        """Set the text on where the tables ran."""
        self.engine = engine_text(results)

    def execute(self, context: Context) -> str:
        """How many tables ended with which outcome."""
        todo = context["ti"].xcom_pull(task_ids=self.planned_by, key=IN_PROCESS)
        if not todo:
            raise AirflowSkipException("no table has a plan that runs in the worker")
        return count_text(self.results_of(todo, context))

    def work(
        self,
        request: JobRequest,
        tables: Sequence[str],
        context: Context,  # noqa: ARG002 - the same for all work
    ) -> Iterator[TableResult]:
        """A result for each table."""
        return jobs.run_in_process(request, tables)


class ReportRun(BaseOperator):
    """Reports the result of every table, and fails the run if a table failed.

    - `planned_by`: the id of the task that planned the tables.
    - `run_by`: the ids of the tasks that ran the job.
    - `approved_by`: the id of the task that waits for an approval; None without one.
    - `skip_if_refused`: end as skipped, neither green nor red, if tables
      were refused but none failed.

    Refused tables that the history knows, or that the policy skips, do not fail the run; the log
    names them.  If no table failed, the task adds an asset event for each table with a new snapshot
    to the alias `caretaker` (`paimon_airflow.tasks.assets`).

    The report is in the log, in XCom as `return_value`, and on the page of the task under *Rendered
    Templates*: `report` is not a template, but Airflow stores these fields again after the task.
    """

    template_fields: Sequence[str] = ("report", "warehouse")
    overwrite_rtif_after_execution = True
    ui_color = "#f4f0fa"

    def __init__(
        self,
        *,
        job: str,
        planned_by: str,
        run_by: Sequence[str],
        warehouse: str | None = None,
        skip_if_refused: bool = True,
        approved_by: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(outlets=[MAINTAINED], **kwargs)
        self.job = job
        self.warehouse = warehouse
        self.planned_by = planned_by
        self.run_by = list(run_by)
        self.skip_if_refused = skip_if_refused
        self.approved_by = approved_by
        self.report = ""

    def execute(self, context: Context) -> None:
        """Log the report, push it as return value, then fail if a table failed."""
        ti = context["ti"]
        if ti.xcom_pull(task_ids=self.planned_by, key=IN_PROCESS) is None:
            self._end_without_plan(context)
        if self.approved_by is not None:
            self._end_if_rejected(context)
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
        warehouse = self.warehouse or context["params"].get("warehouse")
        emit(
            context,
            results,
            job=self.job,
            warehouse=canonical_warehouse(str(warehouse or os.environ.get(WAREHOUSE_VARIABLE, ""))),
        )
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

    def _end_if_rejected(self, context: Context) -> None:
        """Skip the report if a person rejected the plans: nothing was done."""
        from paimon_airflow.runs.approval import is_rejected  # noqa: PLC0415 - the provider

        who = is_rejected(context["ti"].xcom_pull(task_ids=self.approved_by))
        if who is not None:
            self.report = f"{who} rejected the plans; nothing was changed"
            raise AirflowSkipException(self.report)

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
    """The report as XCom stores it."""
    return {
        "outcome": count_text(results),
        "change": summary_of_changes(results),
        "counts": dict(count(results)),
        "totals": totals(results),
        "failed": {r.table: f"{r.error}: {r.summary}" for r in results if r.outcome == "failed"},
        "refused": {r.table: f"{r.error}: {r.summary}" for r in results if r.outcome == "refused"},
        "skipped": {r.table: r.summary for r in results if r.outcome == "skipped"},
        "tables": [r.to_json() for r in results if r.outcome != "nothing"][:_MOST_REPORTED],
    }
