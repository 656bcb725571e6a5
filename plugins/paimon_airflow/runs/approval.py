"""A person approves a plan before its job runs, by Airflow's approval operator.

The policy says which runs wait (`approval: [rescale, rollback, force]`); a rescale that the
scheduler proposes always waits.  Plans are made again after the approval, because the table changes
in the meantime.  The history has every request and its answer; one that was approved on the command
line does not wait again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from airflow.providers.standard.operators.hitl import ApprovalOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from paimon_airflow.tasks.job_request import JobRequest

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

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record the answer in the history."""
        plans = context["ti"].xcom_pull(task_ids=self.planned_by, key=APPROVALS)
        # Before the rest: skipping the tasks after a rejection ends this call with an exception.
        _record_answer(event, list(plans or ()))
        return super().execute_complete(context=context, event=event)


def ask_history(request: JobRequest, table: str, reason: str, plan: Sequence[str]) -> bool:
    """Whether this run was approved on the command line; otherwise the history has its request.

    Without a history, Airflow alone has the request.
    """
    from paimon_core.environment import system_environment
    from paimon_maintenance.history.approval_store import ApprovalStore, Asked  # noqa: PLC0415
    from paimon_maintenance.history.entry import Actor  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415
    from paimon_maintenance.job.arguments import shown_arguments  # noqa: PLC0415
    from paimon_maintenance.policy.needs import Approval as WantedApproval  # noqa: PLC0415

    history = open_history()
    if history is None:
        return False
    asked = Asked(
        table=table,
        job=request.job,
        arguments=shown_arguments(request.for_table(table).arguments),
        force=request.force or reason == WantedApproval.FORCE,
        reason=str(reason),
        plan=plan,
    )
    store = ApprovalStore(history, request.warehouse, request.branch or "main")
    actor, now = Actor.here(), system_environment().now_millis()
    # The run's own name: a retry of the planning task finds what it used before.
    if store.use(asked, f"{crc32(actor.name.encode()):08x} {actor.name}", now):
        return True
    store.ask(asked, actor, now)
    return False


def _record_answer(answer: Mapping[str, Any], tables: Sequence[str]) -> None:
    from paimon_core.environment import system_environment
    from paimon_maintenance.history.approval_store import record_answer  # noqa: PLC0415
    from paimon_maintenance.history.entry import Actor  # noqa: PLC0415 - when a task runs
    from paimon_maintenance.history.store import open_history  # noqa: PLC0415

    history = open_history()
    chosen = answer.get("chosen_options")
    if history is None or not chosen:
        return  # timed out without an answer
    record_answer(
        history,
        Actor.here(),
        tables,
        _user_of(answer),
        system_environment().now_millis(),
        approved=chosen == [ApprovalOperator.APPROVE],
    )


def _user_of(answer: Mapping[str, Any]) -> str:
    user = answer.get("responded_by_user")
    return str(user.get("name") if isinstance(user, Mapping) else user or "a user")


def body_of(plans: Mapping[str, Sequence[str]]) -> str:
    """The plans as Markdown; texts of tables are shown as they are.

    A line is an item of a list, because Airflow joins the lines of a block of code.
    """
    parts = []
    for table, lines in list(plans.items())[:_MOST_SHOWN]:
        shown = "\n".join(f"- `{_code(line)}`" for line in lines)
        parts.append(f"**`{_code(table)}`**\n\n{shown}")
    if len(plans) > _MOST_SHOWN:
        parts.append(f"and {len(plans) - _MOST_SHOWN} more tables: see the log of the task `plan`")
    return "\n\n".join(parts)


def _code(line: str) -> str:
    """The text of one line of code: nothing ends it early, and it is not empty."""
    return " ".join(line.split()).replace("`", "'") or " "


def is_rejected(answer: object) -> str | None:
    """The user who rejected the plans; None without a rejection."""
    if not isinstance(answer, Mapping) or answer.get("chosen_options") != [ApprovalOperator.REJECT]:
        return None
    return _user_of(answer)
