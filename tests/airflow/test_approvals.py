"""A person approves plans where the policy wants it; the scheduler's proposals wait, each once."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from airflow_page import ODD_NAMES
from command_line import caretaker
from lakes import Lake

from paimon_airflow.runs.approval import PROPOSED, body_of
from paimon_airflow.runs.scheduler_operator import proposals_of
from paimon_airflow.tasks.job_request import request_from
from paimon_dags.job_dags import job_dags
from paimon_dags.settings import Settings, settings_from
from paimon_maintenance.history.approval_store import ApprovalStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.registry import job_named
from paimon_maintenance.schedule.candidates import Candidate
from paimon_maintenance.schedule.cost import Work
from paimon_maintenance.schedule.decide import Action, Decision
from paimon_maintenance.schedule.round import Round

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]
POLICY = """
version: 1
rules:
  - { tables: "db.*", approval: [rescale, rollback] }
  - { tables: "db.free", approval: [] }
"""


@pytest.fixture
def policy(tmp_path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


def test_only_the_dags_that_may_wait_have_the_task(policy, tmp_path):
    def waiting(**settings: Any) -> set[str]:
        made = job_dags(Settings(warehouse="/lake", **settings))
        return {d.dag_id.removeprefix("caretaker_") for d in made if "approve" in d.task_dict}

    assert waiting() == set()
    rollbacks = {"rollback", "rollback_to_as_latest", "fast_forward"}
    assert waiting(policy=policy) == {"rescale", *rollbacks}
    with_scheduler = settings_from({"scheduler": {}}, environ={})
    assert waiting(scheduler=with_scheduler.scheduler) == {"rescale"}
    forced = tmp_path / "forced.yaml"
    forced.write_text('version: 1\nrules: [{ tables: "*.*", approval: force }]\n')
    assert "expire_snapshots" in waiting(policy=str(forced))


def test_rollbacks_and_overridden_guards_wait_where_the_policy_says_so(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(
        "version: 1\nrules:\n  - { tables: '*.*', guards: { max_deleted_share: 0.3 } }\n"
        "  - { tables: db.t, approval: [rollback, force] }\n"
    )

    def wanted(job: str, table: str = "db.t", **typed: object) -> str | None:
        params = {"warehouse": str(tmp_path), "tables": [table], "dry_run": False, **typed}
        request = request_from(job, params, storage={}, timezone=None, policy=str(file))
        found = request.approval_wanted(table, proposed=False)
        return None if found is None else str(found)

    assert wanted("rollback", snapshot=1) == "rollback"
    assert wanted("rollback", snapshot=1, dry_run=True) is None
    assert wanted("rollback", "db.free", snapshot=1) is None
    assert wanted("rescale") is None
    assert wanted("expire_snapshots") is None
    assert wanted("expire_snapshots", force=True) == "force"
    # A looser limit overrides a guard as well.
    assert wanted("expire_snapshots", max_deleted_share=0.9) == "force"
    assert wanted("expire_snapshots", max_deleted_share=0.1) is None
    assert wanted("expire_snapshots", "db.free", force=True) is None


def answer(dag_id: str, option: str) -> None:
    """What a person does on the page: respond once the task waits.

    `DAG.test` writes the state again at the end of the task, over that of an answer that came before,
    and then waits for ever.  No person is so fast.
    """
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    deadline = time.monotonic() + 1200
    waits = False
    while time.monotonic() < deadline:
        with create_session() as session:
            query = select(TaskInstance).where(
                TaskInstance.dag_id == dag_id, TaskInstance.state == "awaiting_input"
            )
            found = session.scalars(query).first()
            if found is not None and waits:
                update_hitl_detail(
                    dag_id,
                    found.run_id,
                    found.task_id,
                    UpdateHITLDetailPayload(chosen_options=[option]),
                    SimpleAuthManagerUser(username="ann", role="op"),
                    session,
                )
                return
            waits = found is not None
        time.sleep(2 if waits else 0.5)


DAG_FILE = """\
from airflow.sdk import DAG
from paimon_airflow import caretaker_job

with DAG({dag_id!r}, schedule=None):
    caretaker_job(
        "rescale",
        [{table!r}],
        arguments={{"bucket_num": 2}},
        warehouse={warehouse!r},
        policy={policy!r},
        engine="local",
        approval=True,
    )
"""


def dag_of(dag_id: str, table: str, lake: Lake, policy: str) -> Any:
    """A DAG in a file of its own, as Airflow wants it."""
    from airflow.dag_processing.dagbag import DagBag

    file = Path(os.environ["AIRFLOW_HOME"]) / "dags" / f"{dag_id}.py"
    file.parent.mkdir(exist_ok=True)
    parts = {"table": table, "warehouse": str(lake.warehouse), "policy": policy}
    file.write_text(DAG_FILE.format(dag_id=dag_id, **parts))
    bag = DagBag(dag_folder=str(file))
    assert bag.import_errors == {}
    return bag.dags[dag_id]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["Approve", "Reject"])
def test_a_rescale_waits_for_a_person(
    airflow_database, finished, policy, tmp_path, monkeypatch, option
):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    lake.fill(2)
    dag_id = f"approval_{option.lower()}"
    dag = dag_of(dag_id, "db.t", lake, policy)
    person = threading.Thread(target=answer, args=(dag_id, option))
    person.start()
    ran = finished(dag.test(), "rescale.")
    person.join()
    buckets = lake.table().schema.options["bucket"]
    if option == "Approve":
        assert (ran.state, buckets) == ("success", "2"), ran.tasks
        assert ran.tasks["rescale.report"] == "success"
    else:
        assert (ran.state, buckets) == ("success", "1"), ran.tasks
        assert ran.tasks["rescale.in_process"] == "skipped"
        assert ran.tasks["rescale.report"] == "skipped"
    history = SqlHistory(os.environ["CARETAKER_HISTORY_URL"])
    (recorded,) = ApprovalStore(history, str(lake.warehouse)).all(only_waiting=False)
    assert (recorded.table, recorded.reason, recorded.origin) == ("db.t", "rescale", "airflow")
    assert recorded.state == ("used" if option == "Approve" else "rejected")
    assert recorded.answered_by == "ann"


@pytest.mark.slow
def test_what_was_approved_on_the_command_line_does_not_wait(
    airflow_database, finished, policy, tmp_path, monkeypatch
):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    lake.fill(2)
    where = ("-w", str(lake.warehouse))
    words = ("run", "rescale", "db.t", *where, "--policy", policy, "--bucket-num", "2")
    assert caretaker(*words).code == 9
    assert caretaker("approvals", "approve", "1", *where).code == 0
    ran = finished(dag_of("approval_cli", "db.t", lake, policy).test(), "rescale.")
    assert ran.state == "success", ran.tasks
    assert lake.table().schema.options["bucket"] == "2"
    assert caretaker(*words[:-1], "4").code == 9  # it was for one run


@pytest.mark.slow
def test_a_table_without_the_rule_does_not_wait(
    airflow_database, finished, policy, tmp_path, monkeypatch
):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.free")
    lake.fill(2, name="db.free")
    ran = finished(dag_of("approval_free", "db.free", lake, policy).test(), "rescale.")
    assert ran.state == "success"
    assert lake.table("db.free").schema.options["bucket"] == "2"


def proposal(table: str, **arguments: object) -> Decision:
    one = Candidate(
        table=table,
        job="rescale",
        work=Work(job="rescale"),
        benefit=1,
        why="too large",
        arguments=arguments,
        proposal=True,
    )
    return Decision(table=table, action=Action.PROPOSE, reason="too large", candidate=one)


def test_each_proposal_is_made_once():
    parted = proposal("db.t", bucket_num=4, partitions=[{"dt": "1", "hr": "2"}])
    other = Decision(table="db.u", action=Action.NO, reason="needs nothing")
    first, *rest = proposals_of(Round(id="a", decisions=(parted, other)), "/lake")
    assert rest == []
    assert first["conf"] == {
        "warehouse": "/lake",
        "tables": ["db.t"],
        "bucket_num": 4,
        "partitions": ["dt=1,hr=2"],
        "dry_run": False,
    }
    assert str(first["trigger_run_id"]).startswith(f"{PROPOSED}db.t__")
    again = proposals_of(Round(id="b", decisions=(parted,)), "/lake")
    assert again == [first]
    # The next day has a partition more; who rejected this number is not asked again.
    days = [{"dt": "1", "hr": "2"}, {"dt": "2", "hr": "2"}]
    grown = proposal("db.t", bucket_num=4, partitions=days)
    (next_day,) = proposals_of(Round(id="d", decisions=(grown,)), "/lake")
    assert next_day["trigger_run_id"] == first["trigger_run_id"]
    more = proposals_of(Round(id="c", decisions=(proposal("db.t", bucket_num=8),)), "/lake")
    assert more[0]["trigger_run_id"] != first["trigger_run_id"]
    # A round over a branch does not propose to rescale main.
    (branch,) = proposals_of(Round(id="e", decisions=(parted,)), "/lake", "dev")
    assert branch["conf"] == {**first["conf"], "branch": "dev"}
    assert branch["trigger_run_id"] != first["trigger_run_id"]


@pytest.mark.parametrize("table", ODD_NAMES)
def test_airflow_takes_the_proposal_of_a_table_with_an_odd_name(table):
    from airflow.configuration import conf

    (made,) = proposals_of(Round(id="a", decisions=(proposal(table, bucket_num=4),)), "/lake")
    run_id = str(made["trigger_run_id"])
    assert re.match(conf.get("scheduler", "allowed_run_id_pattern"), run_id)
    assert len(run_id) < 250
    assert made["conf"]["tables"] == [table]


def test_a_proposal_names_the_partitions_that_were_meant():
    odd = [{"dt": "a,b;dt=c", "hr": "1"}, {"dt": "%2C 'x'", "hr": "="}]
    (made,) = proposals_of(
        Round(id="a", decisions=(proposal("db.t", bucket_num=4, partitions=odd),)), "/lake"
    )
    read = job_named("rescale").read_arguments({"partitions": made["conf"]["partitions"]})
    assert read["partitions"] == tuple(odd)


def test_the_text_of_an_approval_is_no_markup():
    shown = body_of({"db.`t": ["rescale ``` <b>", "  tag\nsnapshot 4"]})
    assert shown == "**`db.'t`**\n\n- `rescale ''' <b>`\n- `tag snapshot 4`"


@pytest.mark.slow
def test_the_scheduler_runs_in_a_dag(airflow_database, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = Lake(tmp_path / "lake")
    lake.primary_key("db.t")
    lake.fill(7)
    folder = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    folder.mkdir(exist_ok=True)
    file = Path(shutil.copy(ROOT / "dags" / "caretaker.py", folder))
    file.with_suffix(".toml").write_text(
        f'[caretaker]\nwarehouse = "{lake.warehouse}"\nengine = "local"\n[scheduler]\n'
    )
    dag = runpy.run_path(str(file))["caretaker_schedule"]
    assert dag.schedule == "*/10 * * * *"
    run = dag.test()
    assert str(run.state) == "success"
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert states == {"round": "success", "propose": "skipped"}
    assert str(lake.table().snapshots.latest().commit_kind) == "COMPACT"
