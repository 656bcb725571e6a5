"""A rescale that the scheduler proposes in Airflow, and the person who approves it.

The DAG of the scheduler makes a run of `caretaker_rescale`, which waits under *Required Actions*.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from paimon_maintenance.demo.airflow import (
    AirflowFailed,
    AirflowHome,
    Client,
    trigger,
    wait_for_run,
)
from paimon_maintenance.demo.child_process import ChildProcess

SCHEDULER_DAG: Final = "caretaker_schedule"
RESCALE_DAG: Final = "caretaker_rescale"
_PREFIX: Final = "proposed__"
_ASKING: Final = "awaiting_input"
_ENDED: Final = frozenset({"success", "failed"})


@dataclass(frozen=True, slots=True)
class Proposal:
    """The run that waits for an answer."""

    run_id: str

    @property
    def path(self) -> str:
        """The run in the API."""
        return f"/dags/{RESCALE_DAG}/dagRuns/{urllib.parse.quote(self.run_id, safe='')}"

    def page(self, place: AirflowHome) -> str:
        """Where a person answers."""
        return (
            f"{place.url}{self.path.replace('/dagRuns/', '/runs/')}/tasks/approve/required_actions"
        )


def propose(
    airflow: ChildProcess, client: Client, table: str, tell: Callable[[str], None]
) -> tuple[str, Proposal | None]:
    """Run one round of the scheduler in Airflow: its state, and what it proposes for the table."""
    # A run of a paused DAG would not even ask.
    client.patch(f"/dags/{RESCALE_DAG}", {"is_paused": False})
    run_id = trigger(client, SCHEDULER_DAG, {})
    state = wait_for_run(airflow, client, SCHEDULER_DAG, run_id, tell)
    runs = client.get(f"/dags/{RESCALE_DAG}/dagRuns?order_by=-run_after")["dag_runs"]
    names = [str(run["dag_run_id"]) for run in runs]
    own = (name for name in names if name.startswith(f"{_PREFIX}{table}__"))
    return state, next((Proposal(name) for name in own), None)


def approve(
    airflow: ChildProcess, client: Client, proposal: Proposal, tell: Callable[[str], None]
) -> str:
    """Answer as a person does, as soon as the run asks; the final state of the run."""
    task = f"{proposal.path}/taskInstances/approve"
    while client.get(task)["state"] != _ASKING:
        if airflow.exit_code is not None or has_ended(client, proposal):
            raise AirflowFailed(f"{RESCALE_DAG} did not ask for an approval:\n{airflow.tail()}")
        tell("waiting for the question")
        time.sleep(1.0)
    client.patch(f"{task}/-1/hitlDetails", {"chosen_options": ["Approve"]})
    return wait_for_run(airflow, client, RESCALE_DAG, proposal.run_id, tell)


def has_ended(client: Client, proposal: Proposal) -> bool:
    """Whether the run has ended, after whatever answer; no if Airflow does not say."""
    try:
        return client.get(proposal.path)["state"] in _ENDED
    except AirflowFailed:
        return False
