"""What the tasks of a job share: their request, and the results of their tables across retries."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from paimon_airflow.tasks.credentials import storage_of_connection
from paimon_airflow.tasks.job_request import JobRequest, request_from
from paimon_airflow.tasks.lineage import WithLineage, changed_tables
from paimon_airflow.tasks.links import CaretakerLink, page_of
from paimon_airflow.tasks.report_text import failure_text, refusal_text
from paimon_airflow.tasks.results import TableResult, retry_helps
from paimon_maintenance.storage.variables import POLICY_VARIABLE

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULTS: Final = "results"
"""The XCom key of a task's results, one per table."""
_SCHEDULED: Final = "scheduled"
"""The type of a run that the schedule makes; a person or a program makes all others."""


class JobTask(BaseOperator):
    """The base class of the tasks of one job.

    - `job`: the name of the job, as in `caretaker run JOB`.
    - `params_of_job`: tables, arguments and limits, under the names of the job's form; None: the
      params of the DAG run, whose DAG shows this form.
    - `scheduled`: params that a scheduled run uses instead of the initial values of the form.
    - `storage`: options of the store, without secrets, because they are stored with the DAG.
    - `storage_connection`: the Airflow connection with the credentials of the store.
    - `timezone`: the time zone of the tables' writers; None: that of the worker.
    - `policy`: a policy file; "": no policy; None: CARETAKER_POLICY of the worker.
    - `schedule`: work only on tables that have this schedule in the policy.
    - `defaults`: job arguments that apply where neither the run nor the policy gives one.
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
        """The request of this run.

        AirflowFailException, which is not retried, for an invalid one.
        """
        with without_retry():
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
                by_schedule=self.params_of_job is None and _is_scheduled(context),
            )

    def _params(self, context: Context) -> Mapping[str, object]:
        if self.params_of_job is not None:
            return self.params_of_job
        if self.scheduled and _is_scheduled(context):
            return {**context["params"], **self.scheduled}
        return context["params"]


def _is_scheduled(context: Context) -> bool:
    return bool(context["dag_run"].run_type == _SCHEDULED)


class TableWork(WithLineage, JobTask):
    """Runs the job on some tables; a retry only takes the tables that an earlier try left open."""

    operator_extra_links: Collection[BaseOperatorLink] = (CaretakerLink(),)
    page = ""

    @abstractmethod
    def work(
        self, request: JobRequest, tables: Sequence[str], context: Context
    ) -> Iterator[TableResult]:
        """A result for each table; only errors that concern no single table are raised."""

    def ended(self, results: Sequence[TableResult]) -> None:
        """Called when every table has its result, also if the task then fails."""

    def results_of(self, tables: Sequence[str], context: Context) -> list[TableResult]:
        """Every table's result, which is pushed to XCom too; raises if a table failed."""
        request = self.request(context)
        self.page = page_of(request.warehouse, request.branch, tables)
        done = _kept(context)
        todo = [table for table in tables if table not in done]
        if done:
            self.log.info("done by an earlier try: %s", ", ".join(sorted(done)))
        for result in self.work(request, todo, context):
            self.log.info("%s", result.line())
            done[result.table] = result
        results = [done[table] for table in tables]
        self.changed = changed_tables(results, job=self.job, warehouse=request.warehouse)
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


@contextmanager
def without_retry() -> Iterator[None]:
    """Errors that a retry cannot cure fail the task without one."""
    try:
        yield
    except Exception as e:
        if retry_helps(type(e).__name__, str(e)):
            raise
        raise AirflowFailException(str(e)) from e


def _keep(context: Context, written: list[dict[str, object]]) -> None:
    """Store results for the next try (Airflow clears XCom before it)."""
    store = context.get("task_state_store")
    if store is not None:
        store.set(RESULTS, json.dumps({"cycle": context["ti"].max_tries, RESULTS: written}))


def _kept(context: Context) -> dict[str, TableResult]:
    """The results of earlier tries that remain valid.

    A retry repeats failures that may pass.  A person who clears the task wants all failures
    repeated; then Airflow allows more tries than before.
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
