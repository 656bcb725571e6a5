"""Caretaker for Airflow: task groups over `maintenance` for any DAG.

::

    task_groups                 maintain_tables, caretaker_job: plan -> in process | on Spark -> report
       |
    operators, spark_operator   these four tasks
       |
       |-- job_task      what they share: the request, results across retries
       |-- job_request   what a run is asked to do: one job on many tables
       |-- jobs          list tables, plan them, run them in the worker's process
       |-- spark_runs    the runs of a Spark application: start, batch, reports
       |-- spark         spark-submit: the binary, Python, the packages that executors need
       |-- batches       which tables share a Spark application
       `-- results       what happened to each table, and whether a retry helps

    plugin    what Airflow loads: the page in its navigation
       |
    page      the page and its API; only the API server imports it

Airflow imports this package whenever it parses DAGs.  So no module imports pyspark, pyarrow,
paimon_core or a provider at its top, and of `maintenance` only the definitions of the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_airflow.task_groups import caretaker_job, maintain_tables

__all__ = ["caretaker_job", "maintain_tables"]


def __getattr__(name: str) -> Any:
    """The task groups, imported when a DAG file asks for them."""
    if name in __all__:
        from paimon_airflow import task_groups  # noqa: PLC0415 - the jobs' definitions, Airflow

        return getattr(task_groups, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
