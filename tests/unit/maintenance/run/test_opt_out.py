"""Tables with caretaker.maintenance=off: left alone by whatever chooses tables, not by who names them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Ran, caretaker
from lakes import Lake

from paimon_core.errors import CommitConflict
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.job import Steps
from paimon_maintenance.job.opt_out import OptedOut
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table
from paimon_maintenance.spark_app import run_batch

OPTION = "caretaker.maintenance"
WHY = "its option caretaker.maintenance is 'off' (a run that names the table ignores it)"


@pytest.fixture
def url(tmp_path, monkeypatch) -> str:
    found = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", found)
    return found


@pytest.fixture
def lake(tmp_path, url) -> Lake:
    made = Lake(tmp_path / "lake")
    made.primary_key("db.a")
    made.primary_key("db.off", **{OPTION: "off"})
    for name in ("db.a", "db.off"):
        made.fill(3, name=name)
    return made


def run(lake: Lake, *words: object, table: str = "db.*", command: str = "run") -> Ran:
    local = ("--engine", "local") if command == "run" else ()
    return caretaker(command, "compact", table, "-w", lake.warehouse, *local, *words)


def newest(lake: Lake) -> dict[str, int | None]:
    return {name: lake.table(name).snapshots.latest_id() for name in ("db.a", "db.off")}


def set_option(lake: Lake, value: str) -> None:
    """Write the option into the schema, whether or not ALTER TABLE would take it."""
    file = Path(lake.table("db.off").root) / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["options"][OPTION] = value
    file.write_text(json.dumps(schema))


def request(lake: Lake, *, named: bool, job: str = "compact", **arguments: object) -> RunRequest:
    definition = job_named(job)
    return RunRequest(
        job=definition,
        warehouse=str(lake.warehouse),
        table="db.off",
        arguments=definition.read_arguments(arguments),
        named=named,
    )


# --- the command line ---------------------------------------------------------------------------


def test_a_pattern_leaves_the_table_alone_and_says_so(lake, url):
    ran = run(lake)
    assert ran.code == ExitCode.SUCCESS
    assert newest(lake) == {"db.a": 4, "db.off": 3}
    assert f"compact db.off: skipped: {WHY}" in ran.out
    (entry,) = SqlHistory(url).newest(table="db.off")
    assert (entry.event, entry.status, entry.error) == ("skip", "skipped", None)
    assert entry.details["why"] == WHY
    assert WHY in caretaker("history", "db.off").out


@pytest.mark.parametrize("pattern", ["*.*", "db.of?", "db.[o]ff"])
def test_every_wildcard_chooses(lake, pattern):
    assert run(lake, table=pattern).code in (ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO)
    assert newest(lake)["db.off"] == 3


def test_who_names_the_table_runs_the_job(lake):
    assert run(lake, table="db.off").code == ExitCode.SUCCESS
    assert newest(lake) == {"db.a": 3, "db.off": 4}
    planned = run(lake, table="db.off", command="plan")
    assert planned.code == ExitCode.NOTHING_TO_DO
    assert "skipped" not in planned.out + planned.err


@pytest.mark.parametrize("dry_run", [True, False])
def test_json_has_the_reason_and_no_error(lake, dry_run):
    ran = run(lake, "--json", *(["--dry-run"] if dry_run else []))
    assert ran.code == ExitCode.SUCCESS
    reports = {r["table"]: r for r in ran.json["reports"]}
    assert reports["db.a"]["status"] == ("dry_run" if dry_run else "success")
    assert reports["db.a"]["why"] is None
    off = reports["db.off"]
    assert (off["status"], off["why"], off["error"]) == ("skipped", WHY, None)
    assert (off["exit_code"], off["plan"], off["snapshots"]) == (3, None, [])


def test_plans_skip_it_too(lake, url):
    text = run(lake, command="plan")
    assert (text.code, "db.off" in text.out) == (ExitCode.SUCCESS, False)
    assert f"db.off: skipped, {WHY}" in text.err
    a, off = run(lake, "--json", command="plan").json["plans"]
    assert a["empty"] is False
    assert off == {"job": "compact", "table": "db.off", "status": "skipped", "why": WHY}
    entry = SqlHistory(url).newest(table="db.off")[0]
    assert (entry.event, entry.status, entry.error_type) == ("skip", "skipped", None)


def test_where_all_tables_opted_out_there_is_nothing_to_do(lake):
    for command in ("run", "plan"):
        assert run(lake, table="db.o*", command=command).code == ExitCode.NOTHING_TO_DO


def test_tables_that_cannot_be_read_still_fail(lake):
    schema = Path(lake.table("db.off").root) / "schema" / "schema-0"
    schema.write_text("{")
    ran = run(lake, "--json")
    assert ran.code == ExitCode.CORRUPT_TABLE
    off = {r["table"]: r for r in ran.json["reports"]}["db.off"]
    assert (off["status"], off["error"]["type"]) == ("failed", "CorruptTable")
    assert newest_of(lake, "db.a") == 4


def newest_of(lake: Lake, name: str) -> int | None:
    return lake.table(name).snapshots.latest_id()


@pytest.mark.parametrize(
    ("value", "runs"), [("OFF", False), ("no", False), ("of", False), ("ON ", True), ("yes", True)]
)
def test_any_word_that_does_not_mean_on_keeps_jobs_away(lake, value, runs):
    set_option(lake, value)
    assert run(lake).code == ExitCode.SUCCESS
    assert newest(lake)["db.off"] == (4 if runs else 3)


def test_nobody_has_to_approve_a_run_that_is_skipped(lake, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules:\n  - { tables: '*.*', approval: rescale }\n")
    words = ("-w", lake.warehouse, "--policy", file, "--bucket-num", "3", "--json")
    ran = caretaker("run", "rescale", "db.o*", *words)
    assert ran.code == ExitCode.NOTHING_TO_DO
    assert [r["status"] for r in ran.json["reports"]] == ["skipped"]
    assert caretaker("approvals", "list", "-w", lake.warehouse).code == ExitCode.NOTHING_TO_DO


# --- one run -------------------------------------------------------------------------------------


def test_a_skipped_run_counts_as_skipped(lake):
    metrics = Metrics()
    report = run_table(request(lake, named=False), RunServices(metrics=metrics))
    assert (report.status, report.error, report.why) == (Status.SKIPPED, None, WHY)
    text = metrics.to_text()
    assert 'runs_total{job="compact",outcome="skipped",table="db.off"} 1' in text
    assert "last_success" not in text
    with pytest.raises(OptedOut):
        plan_table(request(lake, named=False))


def test_an_option_that_is_set_after_the_choice_counts(lake):
    set_option(lake, "on")
    asked = request(lake, named=False)
    assert not plan_table(asked).is_empty
    set_option(lake, "off")
    assert run_table(asked).status is Status.SKIPPED
    assert newest(lake)["db.off"] == 3


def test_an_option_that_is_set_before_a_new_plan_counts(lake):
    set_option(lake, "on")
    report = run_table(in_conflict(request(lake, named=False), lake))
    assert (report.status, report.snapshots) == (Status.SKIPPED, ())
    assert newest(lake)["db.off"] == 3


def in_conflict(asked: RunRequest, lake: Lake) -> RunRequest:
    """The request with a job whose commit meets another one, before which the table opted out."""
    steps = asked.job.load()

    def lose(*_: object) -> None:
        set_option(lake, "off")
        raise CommitConflict("another writer won")

    lost: Steps = replace(steps, commit=lose)
    return replace(asked, job=replace(asked.job, load=lambda: lost))


def test_a_run_that_has_changed_the_table_comes_to_its_end(tmp_path, url):
    lake = Lake(tmp_path / "lake")
    # Rows in the postpone bucket take two plans: the first moves them to their buckets.
    lake.primary_key("db.off", bucket="-2")
    lake.fill(3, name="db.off")

    class Setting(LocalEngine):
        def run_units(self, *given: object, **rest: object) -> object:
            set_option(lake, "off")
            return super().run_units(*given, **rest)

    report: Report = run_table(request(lake, named=False), RunServices(engine=Setting()))
    assert (report.status, report.error) == (Status.SUCCESS, None)
    assert len(report.snapshots) == 2
    assert run_table(request(lake, named=False)).status is Status.SKIPPED


# --- Spark's batch ---------------------------------------------------------------------------------


def test_a_request_takes_along_whether_somebody_named_the_table(lake):
    chosen, named = request(lake, named=False), request(lake, named=True)
    assert chosen.to_json()["named"] is False
    assert "named" not in named.to_json()
    for one in (chosen, named):
        assert RunRequest.from_json(one.to_json(), job_named) == one


def test_a_batch_for_spark_skips_it_and_starts_no_spark(lake, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    code = run_batch([request(lake, named=False).to_json()], str(results))
    assert code == ExitCode.NOTHING_TO_DO
    report = json.loads((results / "db.off.json").read_text())
    assert (report["status"], report["why"], report["error"]) == ("skipped", WHY, None)
    assert newest(lake)["db.off"] == 3
