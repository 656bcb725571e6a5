"""`caretaker alerts`: evaluates the alerts of a lake from the history, and prints the open ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.policy import policy_of
from paimon_maintenance.cli.run import write_metrics
from paimon_maintenance.cli.target import warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode

if TYPE_CHECKING:
    from paimon_maintenance.history.alert_store import StoredAlert


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the open alerts without notifying a target; NOTHING_TO_DO if there are none."""
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start
    from paimon_maintenance.history.store import needed_history  # noqa: PLC0415 - SQLAlchemy
    from paimon_maintenance.run.metrics import Metrics  # noqa: PLC0415 - fast start
    from paimon_maintenance.schedule.alert_check import check_alerts  # noqa: PLC0415 - SQLAlchemy

    history = needed_history("caretaker alerts")
    now = system_environment().now_millis()
    warehouse = warehouse_of(args)
    found = check_alerts(history, warehouse, args.branch, policy_of(args), now)
    if args.metrics_file:
        write_metrics(Metrics(), args.metrics_file, output, warehouse)
    output.result({"alerts": [asdict(a) for a in found]}, _lines(found))
    return ExitCode.SUCCESS if found else ExitCode.NOTHING_TO_DO


def _lines(found: list[StoredAlert]) -> Iterator[str]:
    if not found:
        yield "no open alerts"
    for alert in found:
        since = datetime.fromtimestamp(alert.opened_millis / 1000, UTC).astimezone()
        whose = f" (owner {alert.owner})" if alert.owner else ""
        yield f"{since:%Y-%m-%d %H:%M}  {alert.kind}  {alert.subject}{whose}"
        yield f"    {alert.text}"
        if alert.next_step:
            yield f"    -> {alert.next_step}"
