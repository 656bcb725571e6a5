"""What was typed, the policy, defaults: command line, forms and Spark resolve the same for all jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from paimon_airflow.spark import application_runs
from paimon_airflow.tasks.job_request import JobRequest, request_from
from paimon_dags.job_dags import job_dag, job_dags
from paimon_dags.pages import all_pages
from paimon_dags.settings import JobSettings, Settings, SettingsError, settings_from
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.parsers.commands import build_parser
from paimon_maintenance.cli.request import requests_of
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job
from paimon_maintenance.policy.load import load_policy
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.run.request import RunRequest

pytestmark = pytest.mark.airflow

TABLE = "db.t"
EVERY_JOB = pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)
_SAMPLES: dict[Kind, tuple[object, object]] = {
    Kind.TEXT: ("one", "two"),
    Kind.INTEGER: (7, 9),
    Kind.DURATION: ("3 d", "5 h"),
    Kind.SIZE: ("5 mb", "7 gb"),
    Kind.PARTITIONS: (["dt=1"], ["dt=2"]),
    Kind.OPTIONS: ({"write-buffer-size": "8 mb"}, {"target-file-size": "16 mb"}),
    Kind.TEXTS: (["one"], ["two"]),
}


def samples(argument: Argument) -> tuple[object, object]:
    """Two values that are not the default, the second another one than the first if possible."""
    if argument.name == "step_arguments":
        return {"expire_snapshots.retain_max": "5"}, {"compact.slice_bytes": "1 gb"}
    if argument.kind is Kind.BOOLEAN:
        return not argument.default, bool(argument.default)
    if argument.choices:
        others = [c for c in argument.choices if c != argument.default]
        several = argument.kind is Kind.TEXTS
        first, second = others[0], others[-1]
        return ([first], [second]) if several else (first, second)
    return _SAMPLES[argument.kind]


def policy_file(folder: Path, job: Job, arguments: dict[str, object]) -> str:
    """A policy with all of them: a rule has one of those that contradict each other."""
    apart = {name for group in job.at_most_one for name in group[1:]} & arguments.keys()
    together = {name: value for name, value in arguments.items() if name not in apart}
    rule = {
        "tables": "db.*",
        "options": {"snapshot.num-retained.min": "3"},
        "guards": {"max_deleted_share": 0.4, "max_rewrite": "10 gb"},
        "on_refused": "skip",
        "jobs": {job.name: {"arguments": together}},
    }
    others = [
        {"tables": "db.*", "jobs": {job.name: {"arguments": {name: arguments[name]}}}}
        for name in sorted(apart)
    ]
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "rules": [rule, *others]}))
    return str(file)


def words(argument: Argument, value: object) -> list[str]:
    """How the value is typed on the command line."""
    if isinstance(value, bool):
        return [argument.option if value else f"--no-{argument.option.removeprefix('--')}"]
    if isinstance(value, dict):
        return [w for k, v in value.items() for w in (argument.option, f"{k}={v}")]
    if isinstance(value, list):
        return [w for v in value for w in (argument.option, v)]
    return [argument.option, str(value)]


def by_command_line(job: Job, folder: Path, policy: str, *typed: str) -> RunRequest:
    args = build_parser().parse_args(
        ["run", job.name, TABLE, "-w", str(folder), "--policy", policy, *typed]
    )
    (request,) = requests_of(job, args, Output())
    return request


def dag_of(job: Job, policy: str) -> Any:
    (page,) = all_pages([job.name])
    return job_dag(page, Settings(policy=policy), load_policy(policy))


def arguments_in_form(job: Job, policy: str) -> dict[str, Any]:
    params = dag_of(job, policy).params
    return {argument.name: params.get_param(argument.name) for argument in job.arguments}


def by_form(job: Job, folder: Path, policy: str, **typed: object) -> JobRequest:
    """As the task gets it when the form was opened, filled in so far, and sent."""
    untouched = dag_of(job, policy).params.dump()
    params = {**untouched, "warehouse": str(folder), "tables": [TABLE], "dry_run": False, **typed}
    return request_from(job.name, params, storage={}, timezone=None, policy=policy)


def assert_same(one: RunRequest, other: RunRequest) -> None:
    for name in ("arguments", "default_options", "guards", "on_refused", "branch", "table"):
        assert getattr(one, name) == getattr(other, name), name


@EVERY_JOB
def test_an_untouched_form_leaves_every_argument_to_the_policy(job, tmp_path):
    given = {a.name: samples(a)[0] for a in job.arguments}
    policy = policy_file(tmp_path, job, given)
    run = by_form(job, tmp_path, policy).for_table(TABLE)
    read = job.read_arguments(given)
    for argument in job.arguments:
        assert run.arguments[argument.name] == read[argument.name], argument.name
    assert_same(run, by_command_line(job, tmp_path, policy))


@EVERY_JOB
def test_what_is_typed_beats_the_policy_on_the_command_line_in_the_form_and_on_spark(job, tmp_path):
    policy = policy_file(tmp_path, job, {a.name: samples(a)[0] for a in job.arguments})
    for argument in job.arguments:
        typed = samples(argument)[1]
        if isinstance(typed, bool) and not argument.default:
            continue  # the command line has no word that takes back such a switch
        asked = by_form(job, tmp_path, policy, **{argument.name: typed})
        run = asked.for_table(TABLE)
        value, read = run.arguments[argument.name], argument.read(typed)
        if isinstance(read, dict):
            assert isinstance(value, dict)
            assert value.items() >= read.items()
        elif argument.name == "without":
            assert set(value) >= set(read)
        else:
            assert value == read, argument.name
        assert_same(run, by_command_line(job, tmp_path, policy, *words(argument, typed)))
        started = application_runs.StartedRun(table=TABLE, run_id="r", snapshot_before=None)
        (on_spark,) = json.loads(application_runs.batch_json(asked, [started]))
        assert RunRequest.from_json(on_spark, job_named) == replace(run, run_id="r"), argument.name


@EVERY_JOB
def test_every_field_says_what_the_policy_says(job, tmp_path):
    policy = policy_file(tmp_path, job, {a.name: samples(a)[0] for a in job.arguments})
    for name, param in arguments_in_form(job, policy).items():
        assert param.value is None, name
        assert "null" in param.schema["type"], name
        assert "as the policy says (" in param.description, name
        assert "for db.*" in param.description, name
        shown = param.schema.get("values_display", {"null": "as the policy says"})
        assert str(shown["null"]).startswith("as the policy says"), name


@EVERY_JOB
def test_defaults_of_a_dag_come_below_the_policy_and_above_those_of_the_job(job, tmp_path):
    policy = policy_file(tmp_path, job, {a.name: samples(a)[0] for a in job.arguments})
    for argument in job.arguments:
        default = {argument.name: samples(argument)[1]}
        common = {
            "params": {"warehouse": str(tmp_path), "tables": [TABLE]},
            "storage": {},
            "timezone": None,
            "defaults": {**default, "max_rewrite": "1.5 kb"},
        }
        ruled = request_from(job.name, policy=policy, **common).for_table(TABLE)
        if argument.kind is not Kind.OPTIONS:
            read = argument.read(samples(argument)[0])
            assert ruled.arguments[argument.name] == read, argument.name
        assert ruled.guards.max_rewrite_bytes == 10 * 1024**3
        free = request_from(job.name, policy=None, **common).for_table(TABLE)
        assert free.arguments[argument.name] == argument.read(default[argument.name])
        assert free.guards.max_rewrite_bytes == 1536


def test_a_quarantine_of_the_policy_is_not_beaten_by_an_untouched_form(tmp_path):
    job = job_named("remove_orphan_files")
    policy = policy_file(tmp_path, job, {"mode": "quarantine"})
    assert by_form(job, tmp_path, policy).for_table(TABLE).arguments["mode"] == "quarantine"
    mode = dag_of(job, policy).params.get_param("mode")
    assert mode.schema["values_display"] == {
        "null": "as the policy says (quarantine for db.*), else quarantine"
    }
    asked = by_form(job, tmp_path, policy, mode="delete")
    assert asked.for_table(TABLE).arguments["mode"] == "delete"


DELETING = {
    *("maintain", "expire_snapshots", "expire_changelogs", "expire_partitions", "drop_partition"),
    *("replace_tag", "delete_tag", "expire_tags", "expire_consumers", "reset_consumer"),
    *("clear_consumers", "remove_orphan_files", "purge_orphan_files", "rollback"),
    *("delete_branch", "fast_forward", "repair", "remove_unexisting_files"),
}


@EVERY_JOB
def test_a_deleting_job_opens_without_tables_and_with_dry_run_on(job, tmp_path):
    (page,) = all_pages([job.name])
    by_policy, by_page = dag_of(job, policy_file(tmp_path, job, {})), job_dag(page, Settings())
    assert by_policy.schedule is None
    assert by_policy.params.get_param("tables").value is None
    deletes = job.name in DELETING
    for dag in (by_policy, by_page):
        assert dag.params.get_param("dry_run").value is deletes
        if deletes:
            assert dag.params.get_param("tables").value is None
    # A run by the schedule goes on as if there were no form.
    scheduled = {"tables": ["*.*"], "dry_run": False} if by_page.schedule and deletes else {}
    assert by_page.task_dict["plan"].scheduled == scheduled


def test_by_hand_orphans_are_put_aside_and_on_a_schedule_they_go():
    by_hand = Settings(jobs={"remove_orphan_files": JobSettings(schedule="")})
    for settings, own in ((by_hand, {"mode": "quarantine"}), (Settings(), {})):
        (page,) = all_pages(["remove_orphan_files"])
        assert job_dag(page, settings).task_dict["plan"].defaults == own


def test_a_wrong_default_in_the_settings_is_named():

    wrong = Settings(jobs={"compact": JobSettings(defaults={"strategy": "most"})})
    with pytest.raises(SettingsError, match=r"\[jobs.compact\] defaults: .*'most' is not one of"):
        list(job_dags(wrong))


def test_the_engine_typed_then_policy_then_settings_then_default(tmp_path):
    job = job_named("compact")
    rule = {
        "tables": "db.ruled",
        "spark_threshold": "1 gb",
        "jobs": {"compact": {"engine": "auto"}},
    }
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"version": 1, "rules": [rule]}))
    (page,) = all_pages([job.name])
    settings = settings_from(
        {"caretaker": {"engine": "spark", "spark_threshold": 0, "policy": str(policy)}}, environ={}
    )
    dag = job_dag(page, settings, load_policy(policy))
    untouched = {**dag.params.dump(), "warehouse": str(tmp_path), "tables": ["db.*"]}

    def asked(table: str, **typed: object) -> tuple[str, int]:
        request = request_from(
            job.name,
            {**untouched, **typed},
            storage={},
            timezone=None,
            policy=str(policy),
            defaults=dag.task_dict["plan"].defaults,
        )
        run = request.for_table(table)
        started = application_runs.StartedRun(table=table, run_id="r", snapshot_before=None)
        (on_spark,) = json.loads(application_runs.batch_json(request, [started]))
        assert RunRequest.from_json(on_spark, job_named) == replace(run, run_id="r")
        return str(run.engine.engine), run.engine.spark_threshold

    assert asked("db.free") == ("spark", 0)
    assert asked("db.ruled") == ("auto", 1024**3)
    assert asked("db.ruled", engine="local", spark_threshold="1.5 mb") == ("local", 1536 * 1024)
    assert asked("db.ruled", spark_threshold="0") == ("auto", 0)
    assert "else 0." in dag.params.get_param("spark_threshold").description
    for wrong in ({"engine": "flink"}, {"spark_threshold": "much"}):
        with pytest.raises(ValueError, match=r"flink|much"):
            asked("db.free", **wrong)
    alone = job_dag(page, Settings()).task_dict["plan"]
    assert alone.defaults.keys() & {"engine", "spark_threshold"} == set()


@pytest.mark.parametrize("wrong", [{"engine": "flink"}, {"spark_threshold": "much"}])
def test_a_wrong_engine_in_the_settings_is_named(wrong):
    with pytest.raises(SettingsError, match=r"\[caretaker\].*(flink|much)"):
        settings_from({"caretaker": wrong}, environ={})
