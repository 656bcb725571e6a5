"""Caretaker for Airflow: task groups over `maintenance` for any DAG.

::

    task_groups   maintain_tables, caretaker_job: plan -> in process | on Spark -> report
       |-- spark     the task on Spark: submit one application per batch of tables
       `-- runs      the tasks plan, approve, in process and report; a round of the scheduler
    commits       the watcher of new commits, and the task that maintains them
    sensors       wait for a table: healthy, watermark, tag, consumer
    alerts        evaluate alerts and send them through Airflow's notifiers
    plugin        what Airflow loads: the page in its navigation, and its API
       `-- page      the page and its API; only the API server imports it
    provider      what Airflow lists: operators, sensors, triggers, links, notifiers
    tasks         what all tasks share: request, credentials, results, assets, links

Airflow imports this package whenever it parses DAGs.  So no module imports pyspark, pyarrow,
paimon_core or a provider at its top, and of `maintenance` only the definitions of the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_airflow.task_groups import caretaker_job, maintain_tables
    from paimon_airflow.tasks.assets import table_asset

__all__ = ["caretaker_job", "maintain_tables", "table_asset"]


def __getattr__(name: str) -> Any:
    """The functions for DAG authors, imported when a DAG file asks for them."""
    if name == "table_asset":
        from paimon_airflow.tasks.assets import table_asset  # noqa: PLC0415 - Airflow

        return table_asset
    if name in __all__:
        from paimon_airflow import task_groups  # noqa: PLC0415 - the jobs' definitions, Airflow

        return getattr(task_groups, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
