"""The task that evaluates the alerts of a lake and notifies their targets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from paimon_airflow.alerts.notifiers import problem_text, send_alerts
from paimon_airflow.tasks.job_task import without_retry
from paimon_maintenance.storage.variables import POLICY_VARIABLE, WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from airflow.sdk import Context


class SendAlerts(BaseOperator):
    """Opens, updates and closes the alerts of a lake, and sends the messages that are due.

    - `warehouse`: a path, a URL or `catalog:NAME`; None: CARETAKER_WAREHOUSE of the worker.
    - `policy`: the policy file with the alert targets; None: CARETAKER_POLICY of the worker.
    - `branch`: the branch of the tables; None: main.

    Reads only the history, not the tables.  If a target cannot be reached, the task fails, and the
    next run sends the message again.
    """

    template_fields: Sequence[str] = ("warehouse", "policy")
    ui_color = "#fbe9e7"

    def __init__(
        self,
        *,
        warehouse: str | None = None,
        policy: str | None = None,
        branch: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.warehouse = warehouse
        self.policy = policy
        self.branch = branch

    def execute(self, context: Context) -> dict[str, object]:
        """Return the subjects of the open alerts, and the number of messages sent.

        Raises AirflowFailException without a warehouse or a history, and AirflowException if a
        message could not be sent.
        """
        from paimon_core.environment import system_environment
        from paimon_maintenance.history.alert_store import AlertStore  # noqa: PLC0415 - when a task runs
        from paimon_maintenance.history.store import open_history  # noqa: PLC0415
        from paimon_maintenance.policy.load import load_policy  # noqa: PLC0415
        from paimon_maintenance.schedule.alert_check import check_alerts  # noqa: PLC0415

        warehouse = self.warehouse or os.environ.get(WAREHOUSE_VARIABLE)
        history = open_history()
        if not warehouse or history is None:
            message = (
                f"alerts need a warehouse and a history: set {WAREHOUSE_VARIABLE} and "
                "CARETAKER_HISTORY_URL"
            )
            raise AirflowFailException(message)
        warehouse = canonical_warehouse(warehouse)
        file = self.policy or os.environ.get(POLICY_VARIABLE)
        with without_retry():
            policy = load_policy(file) if file else None
        now = system_environment().now_millis()
        found = check_alerts(history, warehouse, self.branch, policy, now)
        for alert in found:
            self.log.warning("%s: %s -> %s", alert.subject, alert.text, alert.next_step)
        targets = {} if policy is None else policy.alert_targets
        store = AlertStore(history, warehouse, self.branch or "main")
        sent, problems = send_alerts(store, targets, context, now)
        self.log.info("%d open alerts, %d messages sent", len(found), sent)
        if problems:
            raise AirflowException(problem_text(problems))
        return {"open": [a.subject for a in found], "sent": sent}
