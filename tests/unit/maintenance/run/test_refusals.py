"""A refused table: an outcome of its own, which fails a run over many tables only when it is new."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Ran, caretaker
from lakes import Lake

from paimon_core.errors import UnsupportedFeature
from paimon_maintenance.history.entry import Actor
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.exit_codes import ExitCode, OnRefused, refusal_fails
from paimon_maintenance.job.report import Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table


@pytest.fixture
def url(tmp_path, monkeypatch) -> str:
    found = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", found)
    # Runs of DAGs within this process leave it behind.
    monkeypatch.delenv("AIRFLOW_CTX_DAG_RUN_ID", raising=False)
    return found


@pytest.fixture
def lake(tmp_path, url) -> Lake:
    made = Lake(tmp_path / "lake")
    made.primary_key("db.a")
    made.fill(3, name="db.a")
    made.from_the_future("db.strange")
    return made


def run(lake: Lake, *more: object, table: str = "db.*", command: str = "run") -> Ran:
    local = ("--engine", "local") if command == "run" else ()
    return caretaker(command, "compact", table, "-w", lake.warehouse, "--json", *local, *more)


def policy(tmp_path: Path, on_refused: str) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(f"version: 1\nrules:\n  - {{tables: 'db.*', on_refused: {on_refused}}}\n")
    return str(file)


def test_a_run_over_many_tables_fails_the_first_time_and_goes_well_from_then_on(lake):
    first = run(lake)
    assert first.code == ExitCode.REFUSED
    by_table = {r["table"]: r for r in first.json["reports"]}
    assert by_table["db.a"]["status"] == "success"
    strange = by_table["db.strange"]
    assert (strange["status"], strange["exit_code"]) == ("refused", 4)
    assert strange["error"]["feature"] == "merge-engine=telepathy"
    assert strange["error"]["known"] is False
    lake.fill(2, name="db.a")
    second = run(lake)
    assert second.code == ExitCode.SUCCESS
    assert second.json["reports"][1]["error"]["known"] is True
    assert "db.strange: error: " in second.err
    assert run(lake).code == ExitCode.NOTHING_TO_DO


def test_another_reason_is_new_again(lake):
    assert run(lake).code == ExitCode.REFUSED
    schema = Path(lake.table("db.strange").root) / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace("telepathy", "clairvoyance"))
    assert run(lake).code == ExitCode.REFUSED
    assert run(lake).code == ExitCode.NOTHING_TO_DO


def test_what_another_job_met_is_known(lake):
    ran = caretaker("plan", "analyze", "db.*", "-w", lake.warehouse)
    assert ran.code == ExitCode.REFUSED
    assert run(lake).code == ExitCode.SUCCESS


def test_a_plan_over_many_tables_counts_refusals_alike(lake):
    assert run(lake, command="plan").code == ExitCode.REFUSED
    assert run(lake, command="plan").code == ExitCode.SUCCESS


def test_without_a_history_every_refusal_is_new(lake, monkeypatch):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", "none")
    run(lake)
    assert run(lake).code == ExitCode.REFUSED


def test_the_policy_may_skip_refusals_or_never(lake, tmp_path):
    assert run(lake, "--policy", policy(tmp_path, "skip")).code == ExitCode.SUCCESS
    run(lake)
    assert run(lake, "--policy", policy(tmp_path, "fail")).code == ExitCode.REFUSED


def test_a_table_that_is_named_ends_as_refused_however_often(lake, tmp_path):
    for more in ((), (), ("--policy", policy(tmp_path, "skip"))):
        ran = run(lake, *more, table="db.strange")
        assert ran.code == ExitCode.REFUSED
        assert ran.json["status"] == "refused"
        assert ran.json["changes"]["snapshots"] == []
    assert "the run did not change the table" in ran.err


def test_the_history_lists_what_was_refused(lake):
    run(lake)
    refused = caretaker("history", "--refused", "--json").json["entries"]
    assert [(e["table"], e["status"], e["exit_code"]) for e in refused] == [
        ("db.strange", "refused", 4)
    ]
    assert refused[0]["details"]["feature"] == "merge-engine=telepathy"
    assert caretaker("history", "--failed", "--json").json["entries"] == []


def test_steps_of_one_dag_run_do_not_make_a_refusal_known_to_each_other(url, lake):
    history = SqlHistory(url)
    error = UnsupportedFeature("merge-engine=telepathy", table="db.strange")

    def known(run_id: str) -> bool:
        actor = Actor(origin="airflow", name=f"dag {run_id}")
        return history.knows_refusal(
            error, table="db.strange", warehouse=str(lake.warehouse), actor=actor
        )

    assert not known("one")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AIRFLOW_CTX_DAG_RUN_ID", "one")
        patched.setenv("AIRFLOW_CTX_DAG_ID", "dag")
        request = RunRequest(
            job=job_named("compact"),
            warehouse=str(lake.warehouse),
            table="db.strange",
            arguments=job_named("compact").read_arguments({}),
        )
        run_table(request, RunServices(history=history))
    assert not known("one")
    assert known("two")


@pytest.fixture
def half(tmp_path, url) -> Lake:
    """A table that compaction refuses and the expiry of snapshots does not."""
    made = Lake(tmp_path / "lake")
    made.log(**{"snapshot.num-retained.min": "1"})
    made.fill(4)
    made.change_options("db.t", "commit.callbacks", "org.example.Callback")
    return made


def maintain(lake: Lake, *more: str) -> Ran:
    words = ("--step-argument", "expire_snapshots.retain_max=1", "--compact", "full", *more)
    return caretaker("run", "maintain", "db.t", "-w", lake.warehouse, *words)


def test_maintain_says_what_its_other_steps_did_where_one_is_refused(half):
    ran = maintain(half)
    assert ran.code == ExitCode.REFUSED
    assert ran.out.startswith("maintain db.t: refused\n")
    assert "  compact: refused: " in ran.out
    assert "  expire_snapshots: success" in ran.out
    assert "the run had already changed the table: removed snapshot 1, " in ran.out
    for text in (ran.out, ran.err):
        assert "nothing was read or written" not in text
        assert "the run did not change the table" not in text
    assert len(half.table().snapshots.ids()) == 1


def test_a_failure_comes_before_a_refusal(half):
    tags = Path(half.table().root) / "tag"
    tags.mkdir()
    (tags / "tag-broken").write_text("{")
    ran = maintain(half, "--json")
    assert ran.code == ExitCode.CORRUPT_TABLE
    assert ran.json["status"] == "failed"
    statuses = {p["job"]: p["status"] for p in ran.json["parts"]}
    assert statuses["compact"] == "refused"
    assert "failed" in statuses.values()


def test_after_refused_tags_no_snapshot_expires(tmp_path, url):
    """A tag that cannot be made might have kept what would go."""
    lake = Lake(tmp_path / "lake")
    lake.log(**{"tag.automatic-creation": "process-time", "snapshot.num-retained.min": "1"})
    lake.fill(3)
    lake.change_options("db.t", "tag.callbacks", "org.example.Callback")
    request = RunRequest(
        job=job_named("maintain"),
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job_named("maintain").read_arguments({}),
    )
    report = run_table(request)
    statuses = {str(p["job"]): str(p["status"]) for p in report.parts}
    assert report.status is Status.REFUSED
    assert statuses["trigger_tag_automatic_creation"] == "refused"
    assert statuses["expire_snapshots"] == "skipped"


@pytest.mark.parametrize(
    ("on_refused", "known", "fails"),
    [
        (None, False, True),
        (None, True, False),
        (OnRefused.SKIP, False, False),
        (OnRefused.FAIL, True, True),
    ],
)
def test_when_a_refusal_counts(on_refused, known, fails):
    assert refusal_fails(on_refused, known=known) is fails
