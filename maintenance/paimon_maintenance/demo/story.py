"""The demo's own lake around the first compaction: the scheduler, people, later jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paimon_core.table.open import open_table
from paimon_maintenance.demo import life, people, proposal
from paimon_maintenance.demo.airflow import (
    AirflowHome,
    Client,
    report_of,
    trigger,
    wait_for_run,
)
from paimon_maintenance.demo.child_process import ChildProcess
from paimon_maintenance.demo.problem_table import make_problem_tables
from paimon_maintenance.demo.problems import problem_tables
from paimon_maintenance.demo.proposal import Proposal
from paimon_maintenance.demo.scheduler import Scheduler, rows_of, summary
from paimon_maintenance.demo.screen import Screen
from paimon_maintenance.health.score import Health
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.policy.load import load_policy
from paimon_maintenance.verify.check import Scope, check_table

_GREEN: Final = "green"


def make_tables(warehouse: str, screen: Screen) -> None:
    """Create the tables with problems, and show the progress."""
    tables = problem_tables()
    with screen.step("Creating more tables, most of them with one problem each") as step:
        make_problem_tables(warehouse, tables, step.update)
        step.done(f"Created {len(tables)} more tables, most of them with one problem each")


@dataclass(kw_only=True, slots=True)
class Story:
    """The lake, its Airflow, and its health when it was measured last."""

    screen: Screen
    airflow: ChildProcess
    client: Client
    place: AirflowHome
    warehouse: str
    policy: Path
    health: Mapping[str, Health] = field(default_factory=dict)
    proposal: Proposal | None = None

    @property
    def history(self) -> SqlHistory:
        """Where everything is recorded."""
        return SqlHistory(self.place.history_url)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler of the lake."""
        return Scheduler(self.warehouse, self.place.history_url, load_policy(self.policy))

    def measure(self) -> None:
        """Measure all tables for the page, before anything maintains them."""
        title = "Measuring the health of all tables (caretaker schedule --dry-run)"
        with self.screen.step(title) as step:
            people.search_for_orphans(self.warehouse, self.history)
            self.health = self.scheduler.measure()
            counts = f"{len(self.health)} tables: {summary(self.health)}"
            step.done(f"{counts}. The page: {self.place.url}/plugin/caretaker")

    def go_on(self) -> ExitCode:
        """All that follows the first compaction, except for the approval.

        FAILURE if something fails.
        """
        self._schedule()
        self._let_people_act()
        self._propose()
        return self._live_on()

    def _schedule(self) -> None:
        """Let the scheduler make the lake healthy, and show the scores before and after."""
        with self.screen.step("Running the scheduler until nothing is worth running") as step:
            after, jobs = self.scheduler.run(step.update)
            step.done(f"The scheduler ran {jobs} jobs: {summary(after)}")
        self.screen.table("health", ["", "before", "after"], rows_of(self.health, after))
        self.health = after

    def _let_people_act(self) -> None:
        """Do what owners and people on call do about what the scheduler must not decide."""
        self.screen.say("What is not green needs a person. The demo does what people would do:")
        for act in people.acts():
            people.do(act, self.warehouse, self.history)
            then = f" ({act.then})" if act.then else ""
            self.screen.say(f"  {act.who}: {act.text}{then}")

    def _propose(self) -> None:
        """One more round of the scheduler, in Airflow: it proposes what a person must decide."""
        dag = proposal.SCHEDULER_DAG
        with self.screen.step(f"Running DAG {dag}: one round of the scheduler in Airflow") as step:
            state, self.proposal = proposal.propose(
                self.airflow, self.client, people.PROPOSED, step.update
            )
            proposed = (
                "" if self.proposal is None else f"; it proposes to rescale {people.PROPOSED}"
            )
            step.done(f"DAG {dag} ended with {state}{proposed}")

    def _live_on(self) -> ExitCode:
        """Run the remaining jobs; FAILURE if the final verification finds problems."""
        history = self.history
        for chapter in life.chapters():
            dag_id = f"caretaker_{chapter.job}"
            where = f"DAG {dag_id}" if chapter.in_airflow else f"caretaker run {chapter.job}"
            with self.screen.step(f"{chapter.title} ({where})") as step:
                in_airflow = _in_airflow(self.airflow, self.client, step.update)
                rows = life.tell(chapter, self.warehouse, in_airflow, history)
            self.screen.table(life.TABLE, ["", "before", "after"], rows)
            if chapter.note:
                self.screen.say(chapter.note)
        found = check_table(open_table(self.warehouse, life.TABLE), Scope()).findings
        if found:
            first = found[0].message
            self.screen.warn(f"{life.TABLE}: verify found {len(found)} problems, first: {first}")
            return ExitCode.FAILURE
        self.screen.say("caretaker verify: clean.")
        return ExitCode.SUCCESS

    def approve(self) -> None:
        """Answer the proposal, as a person does."""
        if self.proposal is None:
            return
        title = f"Approving the proposal, as a person would under {self.proposal.page(self.place)}"
        with self.screen.step(title) as step:
            state = proposal.approve(self.airflow, self.client, self.proposal, step.update)
            step.done(f"Approved: DAG {proposal.RESCALE_DAG} ended with {state}")

    def is_answered(self) -> bool:
        """Whether a person has answered, and the run has ended."""
        return self.proposal is not None and proposal.has_ended(self.client, self.proposal)

    def finish(self) -> ExitCode:
        """Measure all tables again, and show what became of them; FAILURE if one is not green."""
        before = self.health
        with self.screen.step("Measuring the health of all tables again") as step:
            self.health = self.scheduler.measure()
            step.done(f"{len(self.health)} tables: {summary(self.health)}")
        unhealthy = {name: h for name, h in before.items() if h.color != _GREEN}
        if unhealthy:
            self.screen.table("health", ["", "before", "after"], rows_of(unhealthy, self.health))
        left = _not_green(self.health)
        return ExitCode.FAILURE if left else ExitCode.SUCCESS

    def say_what_waits(self) -> None:
        """Say what a person should click."""
        if self.proposal is None:
            return
        self.screen.say(f"{people.PROPOSED} waits for you: only a person approves its rescale.")
        self.screen.say(f"Open      {self.proposal.page(self.place)}")
        self.screen.say("          and click Approve. The demo then shows that it is green.")


def _not_green(found: Mapping[str, Health]) -> Sequence[str]:
    return [name for name, health in found.items() if health.color != _GREEN]


def _in_airflow(
    airflow: ChildProcess, client: Client, tell: Callable[[str], None]
) -> life.InAirflow:
    def run(job: str, conf: Mapping[str, object]) -> Mapping[str, Any]:
        dag_id = f"caretaker_{job}"
        run_id = trigger(client, dag_id, conf)
        wait_for_run(airflow, client, dag_id, run_id, tell)
        return report_of(client, dag_id, run_id)

    return run
