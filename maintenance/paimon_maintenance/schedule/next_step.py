"""What the scheduler does with a table next, for people.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from paimon_maintenance.history.status import NextStep
from paimon_maintenance.schedule.decide import Action, Decision
from paimon_maintenance.schedule.state import LONGEST_MEASUREMENT, TableState

_ORDER: Final = (Action.RUN, Action.LATER, Action.PROPOSE)


def decisions_by_table(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    """The decisions of a round for each table, best first."""
    found: dict[str, list[Decision]] = {}
    for one in decisions:
        found.setdefault(one.table, []).append(one)
    return found


def next_step(
    decisions: Iterable[Decision],
    state: TableState,
    *,
    measured_at: int,
    now: int,
    done: Iterable[str] = (),
) -> NextStep:
    """The best job that is not `done`; without one, when the scheduler looks at the table again."""
    by_action: Mapping[Action, list[Decision]] = {action: [] for action in Action}
    ran = set(done)
    for one in decisions:
        if one.job is None or one.job not in ran:
            by_action[one.action].append(one)
    for action in _ORDER:
        for one in by_action[action]:
            retry = None if one.job is None else state.retry_at(one.job)
            at = retry if retry is not None and retry > now else None
            return NextStep(job=one.job, action=str(action), reason=one.reason, at_millis=at)
    reason = next((one.reason for one in by_action[Action.NO]), None)
    look = min(max(state.look_at(), now), measured_at + LONGEST_MEASUREMENT)
    return NextStep(action="look", reason=reason, at_millis=look)
