"""The DAG that runs rounds of the scheduler.

It exists only with `[scheduler]` in `caretaker.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from airflow.sdk import DAG

from paimon_dags.form import task_options
from paimon_dags.settings import Settings

_START = datetime(2024, 1, 1, tzinfo=UTC)
_DOCS = """\
Runs one round of the scheduler: measures the tables that changed, and runs the jobs that are worth
their cost, within the budget of the policy. `caretaker policy explain DB.TABLE` says why a job ran
or did not run.

A rescale that the round proposes becomes a run of `caretaker_rescale`, which waits for an approval. A table
and a number of buckets are proposed once; who rejected them is not asked again.

**If it fails**, the log names the table and the reason. The scheduler tries again, later each time.
"""


def scheduler_dags(settings: Settings) -> Iterator[DAG]:
    """The DAG of the scheduler; an empty list without `[scheduler]`."""
    own = settings.scheduler
    if own is None:
        return
    from airflow.providers.standard.operators.trigger_dagrun import (  # noqa: PLC0415 - slow
        TriggerDagRunOperator,
    )

    from paimon_airflow.runs.scheduler_operator import RESCALE_DAG, RunScheduler  # noqa: PLC0415

    with DAG(
        dag_id="caretaker_schedule",
        dag_display_name="Caretaker: scheduler",
        description="run the jobs that are worth their cost now",
        doc_md=_DOCS,
        schedule=own.schedule or None,
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        tags=["caretaker", "scheduler"],
    ) as dag:
        found = RunScheduler(
            task_id="round",
            task_display_name="One round",
            params_of_job={"tables": list(own.tables), "warehouse": settings.warehouse},
            **task_options(settings),
            spark_connection=settings.spark_connection,
            spark_conf=settings.spark_conf,
            retries=0,
            **({"pool": settings.pool} if settings.pool else {}),
        )
        TriggerDagRunOperator.partial(
            task_id="propose",
            task_display_name="Propose",
            trigger_dag_id=RESCALE_DAG,
            skip_when_already_exists=True,
            map_index_template="{{ task.trigger_run_id }}",
        ).expand_kwargs(found.output)
    yield dag
