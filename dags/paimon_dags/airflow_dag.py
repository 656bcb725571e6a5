"""Airflow's DAG of a shape."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param

from paimon_airflow.operators import PlanTables, ReportRun, RunInProcess, RunOnSpark
from paimon_dags.settings import Settings
from paimon_dags.shape import DagShape, Field, Kind, Step

_START = datetime(2024, 1, 1, tzinfo=UTC)


def airflow_dag(shape: DagShape, settings: Settings) -> DAG:
    """The DAG that runs this shape."""
    with DAG(
        dag_id=shape.dag_id,
        dag_display_name=shape.title,
        description=shape.summary,
        doc_md=shape.docs,
        schedule=shape.schedule,
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=shape.max_active_runs,
        tags=list(shape.tags),
    ) as dag:
        tasks: dict[str, Any] = {}
        for step in shape.steps:
            task = _task(step, shape, settings, tasks)
            for earlier in step.after:
                tasks[earlier] >> task
            tasks[step.id] = task
    # Not before the tasks, each of which would copy the whole form several times: with it, thirty
    # DAGs take three times as long to parse.  Tasks get their params from the run.
    for field in shape.fields:
        dag.params[field.name] = _param(field)
    if settings.job(shape.job).defaults:
        # Our own are tested; these come from outside.
        dag.params.validate()
    return dag


def _param(field: Field) -> Param:
    schema: dict[str, Any] = {"title": field.title, **field.schema}
    if field.section:
        schema["section"] = field.section
    return Param(field.default, description=field.help, source="dag", schema=schema)


def _task(step: Step, shape: DagShape, settings: Settings, tasks: dict[str, Any]) -> Any:
    common: dict[str, Any] = {
        "task_id": step.id,
        "task_display_name": step.title,
        "doc_md": step.doc,
        "retries": step.retries,
        "retry_delay": timedelta(minutes=step.retry_minutes),
    }
    if step.pool:
        common["pool"] = step.pool
    if step.always:
        common["trigger_rule"] = "all_done"
    if step.kind is Kind.REPORT:
        planned_by, *run_by = step.after
        return ReportRun(planned_by=planned_by, run_by=run_by, **common)
    common |= {
        "job": shape.job,
        "storage": dict(settings.storage),
        "storage_connection": settings.storage_connection,
        "policy": settings.policy,
        "schedule": shape.policy_schedule,
        "timezone": settings.timezone,
        "defaults": dict(shape.defaults),
    }
    if step.kind is Kind.PLAN:
        on_spark = any(step.kind is Kind.ON_SPARK for step in shape.steps)
        return PlanTables(batch_tables=settings.batch_tables if on_spark else None, **common)
    if step.kind is Kind.IN_PROCESS:
        return RunInProcess(**common)
    planned: BaseOperator = tasks[step.after[0]]
    return RunOnSpark.partial(
        spark_connection=settings.spark_connection,
        spark_conf=dict(settings.spark_conf),
        results=settings.results,
        packages=settings.packages,
        submit=dict(settings.submit),
        map_index_template="{{ task.label }}",
        max_active_tis_per_dagrun=shape.parallel_batches,
        **common,
    ).expand(batch=planned.output)
