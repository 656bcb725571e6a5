"""A person approves a plan before its job runs, by Airflow's approval operator.

The policy says which runs wait (`approval: [rescale, rollback, force]`); a rescale that the
scheduler proposes always waits.  Plans are made again after the approval, because the table changes
in the meantime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

APPROVALS: Final = "approvals"
"""The XCom key of the plans that wait: the lines of each by table."""
PROPOSED: Final = "proposed__"
"""The prefix of the ids of runs that the scheduler proposes."""
_MOST_SHOWN: Final = 20


class ApprovePlans(ApprovalOperator):
    """Waits until a person approves the plans; ends at once if no plan needs it.

    After a rejection the working tasks are skipped, and so is the report.
    """

    ui_color = "#fff3cd"

    def __init__(self, *, job: str, planned_by: str, **kwargs: Any) -> None:
        super().__init__(subject=f"{job.replace('_', ' ')}: approve the plan?", body="", **kwargs)
        self.job = job
        self.planned_by = planned_by

    def execute(self, context: Context) -> Any:
        """Ask for an approval of the plans that wait for one."""
        plans = context["ti"].xcom_pull(task_ids=self.planned_by, key=APPROVALS)
        if not plans:
            self.log.info("no plan waits for an approval")
            return None
        self.subject = f"{self.job.replace('_', ' ')} of {', '.join(list(plans)[:3])}: approve?"
        self.body = body_of(plans)
        return super().execute(context)


def body_of(plans: Mapping[str, Sequence[str]]) -> str:
    """The plans as Markdown; texts of tables are shown as they are."""
    parts = []
    for table, lines in list(plans.items())[:_MOST_SHOWN]:
        shown = "\n".join(line.replace("```", "'''") for line in lines)
        parts.append(f"**`{table.replace('`', '')}`**\n\n```\n{shown}\n```")
    if len(plans) > _MOST_SHOWN:
        parts.append(f"and {len(plans) - _MOST_SHOWN} more tables: see the log of the task `plan`")
    return "\n\n".join(parts)


def is_rejected(answer: object) -> str | None:
    """The user who rejected the plans; None without a rejection."""
    if not isinstance(answer, Mapping) or answer.get("chosen_options") != [ApprovalOperator.REJECT]:
        return None
    user = answer.get("responded_by_user")
    return str(user.get("name") if isinstance(user, Mapping) else user or "a user")
