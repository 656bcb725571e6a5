"""The DAG that sends alerts; it exists only with `[alerts]` in `caretaker.toml`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from paimon_dags.settings import Settings

_START = datetime(2024, 1, 1, tzinfo=UTC)
_DOCS = """\
Evaluates the alerts of the lake from Caretaker's history, and notifies the targets that the policy
names: when a condition begins, once a day while it lasts, and when it is over. `docs/runbooks/alerts.md`
says what to do about each of them.

**If it fails**, a target could not be reached; the log names it. The message is sent by the next run.
"""


def alert_dags(settings: Settings) -> Iterator[DAG]:
    """The DAG of the alerts; an empty list without `[alerts]`."""
    if settings.alerts is None:
        return
    from paimon_airflow.alerts.operator import SendAlerts  # noqa: PLC0415 - only where it is used

    with DAG(
        dag_id="caretaker_alerts",
        dag_display_name="Caretaker: alerts",
        description="notify the targets of open alerts",
        doc_md=_DOCS,
        schedule=settings.alerts.schedule or None,
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        tags=["caretaker", "alerts"],
    ) as dag:
        SendAlerts(
            task_id="alerts",
            task_display_name="Send alerts",
            warehouse=settings.warehouse,
            policy=settings.policy,
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
    yield dag
