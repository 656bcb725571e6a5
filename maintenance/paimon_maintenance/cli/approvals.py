"""`caretaker approvals`: runs that wait for a person, and the answers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import warehouse_of
from paimon_maintenance.job.approval import ApprovalNeeded
from paimon_maintenance.job.exit_codes import ExitCode

if TYPE_CHECKING:
    from paimon_maintenance.history.approval_store import Approval, ApprovalStore
    from paimon_maintenance.history.store import SqlHistory
    from paimon_maintenance.run.request import RunRequest
    from paimon_maintenance.run.runner import RunServices

_SHOWN_LINES: Final = 12


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """List the requests, or answer one of them."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.approval_store import ApprovalState  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.entry import Actor  # noqa: PLC0415 - as above
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - as above

    store = _store(needed_history("caretaker approvals"), warehouse_of(args), args.branch)
    if args.approvals_command == "list":
        found = store.all(only_waiting=not args.all)
        output.result({"approvals": [asdict(a) for a in found]}, _lines(found))
        return ExitCode.SUCCESS if found else ExitCode.NOTHING_TO_DO
    is_approved = args.approvals_command == "approve"
    answered = store.answer(
        args.number,
        ApprovalState.APPROVED if is_approved else ApprovalState.REJECTED,
        Actor.here().name,
        system_environment().now_millis(),
    )
    then = "run the same command again within a day" if is_approved else "nothing runs"
    shown = f"{answered.state}: {answered.job} of {answered.table}, asked by {answered.asked_by}; {then}"
    output.result({"approval": asdict(answered)}, [shown])
    return ExitCode.SUCCESS


def approved(request: RunRequest, services: RunServices) -> RunRequest:
    """The request, if it needs no approval or has one; an approved request gets a run id.

    Otherwise stores the request with its plan, and raises ApprovalNeeded.  A run with nothing to do
    needs no approval.
    """
    from paimon_maintenance.history.approval_store import Asked  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.history.entry import CLI, Actor  # noqa: PLC0415 - as above
    from paimon_maintenance.history.store import SqlHistory  # noqa: PLC0415 - as above
    from paimon_maintenance.job.arguments import shown_arguments  # noqa: PLC0415 - fast start
    from paimon_maintenance.policy.needs import Approval  # noqa: PLC0415 - as above
    from paimon_maintenance.run.runner import plan_table  # noqa: PLC0415 - fast start

    if request.approval is None or request.dry_run:
        return request
    what = f"the policy requires an approval of {request.job.name} (approval: {request.approval})"
    if not isinstance(services.history, SqlHistory):
        raise ApprovalNeeded(
            f"{what}, and the history that holds approvals is disabled",
            table=request.table,
            next_step="set CARETAKER_HISTORY_URL, or remove `approval` from the policy",
        )
    plan = plan_table(request, replace(services, history=None))
    if plan.is_empty:
        return request
    asked = Asked(
        table=request.table,
        job=request.job.name,
        arguments=shown_arguments(request.arguments),
        force=request.force or request.approval == Approval.FORCE,
        reason=request.approval,
        plan=tuple(plan.lines()),
    )
    store = _store(services.history, request.warehouse, request.branch)
    run_id, now = services.env.new_uuid(), services.env.now_millis()
    if store.use(asked, run_id, now):
        return replace(request, run_id=run_id)
    # A command in a task of Airflow is answered here as well: no task waits for it there.
    number = store.ask(asked, Actor(origin=CLI, name=Actor.here().name), now)
    raise ApprovalNeeded(
        f"{what}; request {number} waits for it",
        table=request.table,
        next_step=f"an authorized person runs `caretaker approvals approve {number} "
        f"-w {request.warehouse}`; then run the same command again",
    )


def _store(history: SqlHistory, warehouse: str, branch: str | None) -> ApprovalStore:
    from paimon_maintenance.history.approval_store import ApprovalStore  # noqa: PLC0415 - SQLAlchemy

    return ApprovalStore(history, warehouse, branch or "main")


def _lines(found: Sequence[Approval]) -> Iterator[str]:
    if not found:
        yield "nothing waits for an approval"
    for one in found:
        at = datetime.fromtimestamp(one.asked_millis / 1000, UTC).astimezone()
        force = " --force" if one.request.get("force") else ""
        yield (
            f"{one.id}  {one.state}  {one.job}{force} of {one.table}, asked {at:%Y-%m-%d %H:%M} by "
            f"{one.origin} {one.asked_by}"
        )
        if one.answered_by is not None and one.answered_millis is not None:
            answered = datetime.fromtimestamp(one.answered_millis / 1000, UTC).astimezone()
            yield f"    answered {answered:%Y-%m-%d %H:%M} by {one.answered_by}"
        yield from (f"    {line}" for line in one.plan[:_SHOWN_LINES])
        if len(one.plan) > _SHOWN_LINES:
            yield f"    ... and {len(one.plan) - _SHOWN_LINES} more lines (--json shows all)"
