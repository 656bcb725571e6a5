"""Caretaker's own DAGs as Airflow sees them: tasks, forms, schedules, and what the settings change."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_airflow.tasks.job_request import COMMON_PARAMS
from paimon_dags.job_dags import job_dag, job_dags
from paimon_dags.pages import (
    COMPACT,
    CREATE_TAG,
    DROP_PARTITION,
    EXPIRE_SNAPSHOTS,
    PAGES,
    ROLLBACK,
    Page,
    all_pages,
)
from paimon_dags.settings import (
    JobSettings,
    Settings,
    SettingsError,
    load_settings,
    settings_from,
    use_catalogs_of,
)
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS, job_named
from paimon_maintenance.storage.catalogs import defined_catalogs

pytestmark = pytest.mark.airflow

DAGS = list(job_dags(Settings(warehouse="/lake")))
WORKING = ("in_process", "on_spark")


def job_of(dag: Any) -> Job:
    return job_named(dag.task_dict["plan"].job)


def task(dag: Any, task_id: str) -> Any:
    """The task's values, also those of a mapped one."""
    found = dag.task_dict[task_id]
    partial = getattr(found, "partial_kwargs", None)
    return found if partial is None else SimpleNamespace(**partial)


def opens_with(dag: Any) -> dict[str, object]:
    return {name: dag.params.get_param(name).value for name in dag.params}


def refuses_its_default(param: Any) -> bool:
    from airflow.sdk.exceptions import ParamValidationError

    try:
        param.resolve()
    except ParamValidationError:
        return True
    return False


@pytest.mark.parametrize("dag", DAGS, ids=lambda dag: dag.dag_id)
class TestEveryDag:
    def test_plans_first_and_reports_last_whatever_happened(self, dag):
        first, *working, last = dag.task_ids
        assert (first, last) == ("plan", "report")
        assert working == (list(WORKING) if job_of(dag).rewrites else ["in_process"])
        assert dag.task_dict["plan"].upstream_task_ids == set()
        assert all(dag.task_dict[w].upstream_task_ids == {"plan"} for w in working)
        report = dag.task_dict["report"]
        assert report.upstream_task_ids == {"plan", *working}
        assert report.trigger_rule == "all_done"
        assert (report.planned_by, report.run_by) == ("plan", working)

    def test_only_spark_is_mapped_over_the_planned_batches(self, dag):
        assert [t.task_id for t in dag.tasks if t.is_mapped] == [
            name for name in ("on_spark",) if job_of(dag).rewrites
        ]
        if job_of(dag).rewrites:
            on_spark = dag.task_dict["on_spark"]
            assert on_spark.expand_input.value["batch"].operator.task_id == "plan"
            assert on_spark.partial_kwargs["map_index_template"] == "{{ task.label }}"
            assert on_spark.partial_kwargs["max_active_tis_per_dagrun"] == 4
            assert dag.task_dict["plan"].batch_tables == 50
        else:
            assert dag.task_dict["plan"].batch_tables is None
        assert {"batch_size", "max_rewrite"} & set(dag.params) == (
            {"batch_size", "max_rewrite"} if job_of(dag).rewrites else set()
        )

    def test_one_run_at_a_time(self, dag):
        assert dag.max_active_runs == 1

    def test_working_tasks_are_tried_again_only_where_the_job_is_safe(self, dag):
        retries = {name: task(dag, name).retries for name in dag.task_ids}
        again = 2 if job_of(dag).retry_safe else 0
        assert retries.pop("plan") == 2
        assert retries.pop("report") == 0
        assert set(retries.values()) == {again}
        told = "Airflow has already retried" if again else "Airflow did not retry"
        assert told in dag.doc_md

    def test_the_form_asks_for_every_argument_of_the_job_and_the_switches(self, dag):
        names = set(dag.params)
        arguments = {a.name for a in job_of(dag).arguments}
        assert names >= arguments
        assert names >= {"warehouse", "tables", "including", "excluding", "dry_run", "force"}
        assert names - arguments <= COMMON_PARAMS

    def test_the_forms_defaults_are_what_the_job_takes(self, dag):
        arguments = {a.name for a in job_of(dag).arguments}
        raw = {n: v for n, v in opens_with(dag).items() if n in arguments and v is not None}
        job_of(dag).read_arguments(raw)

    def test_the_forms_defaults_satisfy_its_schema(self, dag):
        jsonschema = pytest.importorskip("jsonschema")
        for name in dag.params:
            param = dag.params.get_param(name)
            jsonschema.Draft202012Validator.check_schema(dict(param.schema))
            if refuses_its_default(param):
                assert param.value is None, name
                assert dag.schedule is None, name

    def test_the_page_tells_the_operator_what_to_do(self, dag):
        for part in ("What it does", "What protects data", "Dry run", "Undo", "When it fails"):
            assert f"**{part}.**" in dag.doc_md
        assert job_of(dag).undo in dag.doc_md

    def test_help_texts_are_sentences(self, dag):
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.description.endswith("."), name
            assert "`" not in param.description, name
            assert param.schema["title"][:1].isupper(), name


def test_every_job_has_a_dag_and_every_page_is_of_a_known_job():
    assert {page.job for page in PAGES} <= set(JOBS)
    assert len({page.dag_id for page in PAGES}) == len(PAGES)
    assert [job_of(dag).name for dag in DAGS] == list(JOBS)
    assert all_pages(["compact", "new"])[1] == Page(job="new")


def test_a_job_without_a_page_is_never_tried_again_and_its_form_opens_safely(monkeypatch):
    new = Job(
        name="new_job",
        summary="something new",
        changes="Changes.",
        protects="Protects.",
        undo="None.",
        arguments=(),
        load=job_named("compact").load,
    )
    monkeypatch.setitem(JOBS, new.name, new)
    dag = next(d for d in job_dags(Settings()) if d.dag_id == "caretaker_new_job")
    assert {name: task(dag, name).retries for name in WORKING} == dict.fromkeys(WORKING, 0)
    assert dag.schedule is None
    assert (opens_with(dag)["tables"], opens_with(dag)["dry_run"]) == (None, True)


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)
def test_jobs_require_arguments_that_they_have(job):
    assert set(job.required) <= {argument.name for argument in job.arguments}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.job)
def test_pages_name_arguments_that_the_job_has(page):
    known = {argument.name for argument in job_named(page.job).arguments}
    assert {*page.first, *page.defaults} <= known


def test_by_hand_the_form_asks_for_tables_and_what_the_job_cannot_do_without():
    dag = job_dag(DROP_PARTITION, Settings())
    asked = {name for name in dag.params if refuses_its_default(dag.params.get_param(name))}
    assert asked == {"tables", "partitions"}
    assert opens_with(job_dag(COMPACT, Settings()))["tables"] == ["*.*"]


def test_a_schedule_for_what_runs_by_hand_needs_defaults():
    raw: dict[str, Any] = {"schedule": "@daily"}
    with pytest.raises(SettingsError, match="give defaults for tables, partitions as well"):
        job_dag(DROP_PARTITION, settings_from({"jobs": {"drop_partition": raw}}, environ={}))
    raw["defaults"] = {"tables": ["db.t"], "partitions": ["dt=tmp"]}
    dag = job_dag(DROP_PARTITION, settings_from({"jobs": {"drop_partition": raw}}, environ={}))
    assert dag.schedule == "@daily"
    assert dag.task_dict["plan"].scheduled == {"tables": ["db.t"], "dry_run": False}
    assert (opens_with(dag)["tables"], opens_with(dag)["dry_run"]) == (None, True)
    tags = {"schedule": "@daily", "defaults": {"tables": ["db.t"], "tag": "x"}}
    dag = job_dag(CREATE_TAG, settings_from({"jobs": {"create_tag": tags}}, environ={}))
    assert (opens_with(dag)["tables"], opens_with(dag)["dry_run"]) == (["db.t"], False)


@pytest.mark.parametrize(
    ("run_type", "tables", "dry_run"),
    [
        ("scheduled", ("*.*",), False),
        ("manual", ("db.t",), True),
        ("operator_triggered", ("db.t",), True),
        ("backfill", ("db.t",), True),
    ],
)
def test_a_run_by_the_schedule_does_not_take_what_the_form_opens_with(run_type, tables, dry_run):
    dag = job_dag(EXPIRE_SNAPSHOTS, Settings(warehouse="/lake"))
    params = (
        {**opens_with(dag)} if run_type == "scheduled" else {**opens_with(dag), "tables": ["db.t"]}
    )
    context = {"params": params, "dag_run": SimpleNamespace(run_type=run_type)}
    for name in ("plan", "in_process"):
        request = dag.task_dict[name].request(context)
        assert (request.patterns, request.dry_run) == (tables, dry_run)


@pytest.mark.parametrize("run_type", ["manual", "backfill"])
def test_nobody_deletes_by_sending_the_form_as_it_opens(run_type):
    from airflow.sdk.exceptions import AirflowFailException

    dag = job_dag(EXPIRE_SNAPSHOTS, Settings(warehouse="/lake"))
    context = {"params": opens_with(dag), "dag_run": SimpleNamespace(run_type=run_type)}
    with pytest.raises(AirflowFailException, match="no tables are given"):
        dag.task_dict["plan"].request(context)


def test_what_destroys_by_hand_is_planned_again_but_not_done_again_by_itself():
    dag = job_dag(ROLLBACK, Settings())
    assert {t.task_id: t.retries for t in dag.tasks} == {"plan": 2, "in_process": 0, "report": 0}
    own = Settings(jobs={"rollback": JobSettings(retries=1, retry_minutes=7)})
    again = job_dag(ROLLBACK, own).task_dict["in_process"]
    assert (again.retries, again.retry_delay) == (1, timedelta(minutes=7))


def test_only_what_the_options_of_a_table_bound_runs_on_a_schedule():
    scheduled = {page.job for page in PAGES if not page.by_hand}
    assert scheduled == {
        "maintain",
        "compact",
        "compact_manifest",
        "expire_snapshots",
        "expire_changelogs",
        "expire_tags",
        "trigger_tag_automatic_creation",
        "expire_consumers",
        "remove_orphan_files",
    }


def test_a_pool_for_all_and_one_of_its_own():
    own = settings_from(
        {"caretaker": {"pool": "caretaker"}, "jobs": {"compact": {"pool": "spark"}}}, environ={}
    )

    def pools(dag: Any) -> dict[str, str]:
        return {name: getattr(task(dag, name), "pool", "") for name in dag.task_ids}

    assert pools(job_dag(COMPACT, own)) == {
        "plan": "default_pool",
        "in_process": "spark",
        "on_spark": "spark",
        "report": "default_pool",
    }
    assert pools(job_dag(ROLLBACK, own))["in_process"] == "caretaker"
    assert set(pools(job_dag(ROLLBACK, Settings())).values()) == {"default_pool"}


def test_the_scheduled_compaction_is_minor():
    dag = job_dag(COMPACT, Settings())
    assert task(dag, "plan").defaults == {"strategy": "minor"}
    assert task(dag, "on_spark").defaults == {"strategy": "minor"}
    assert opens_with(dag)["strategy"] is None
    assert dag.params.get_param("strategy").description.endswith("Empty: minor.")


class TestSettings:
    def test_without_a_file_the_environment_names_the_warehouse(self, tmp_path: Path):
        found = load_settings(tmp_path / "caretaker.toml", {"CARETAKER_WAREHOUSE": "/lake"})
        assert found == Settings(warehouse="/lake")

    def test_the_file_wins_and_reaches_the_dag(self, tmp_path: Path):
        file = tmp_path / "caretaker.toml"
        file.write_text(
            """
            [caretaker]
            warehouse = "s3://lake"
            batch_size = "5 gb"
            parallel_batches = 2
            [storage]
            "s3.endpoint" = "http://store"
            [jobs.compact]
            schedule = "0 3 * * *"
            pool = "spark"
            retries = 1
            defaults = { strategy = "full", tables = ["sales.*"] }
            """
        )
        settings = load_settings(file, {"CARETAKER_WAREHOUSE": "/lake"})
        dag = job_dag(COMPACT, settings)
        assert dag.schedule == "0 3 * * *"
        opening = opens_with(dag)
        assert opening["warehouse"] == "s3://lake"
        assert opening["batch_size"] == "5 gb"
        assert opening["tables"] == ["sales.*"]
        assert task(dag, "plan").defaults == {"strategy": "full"}
        assert task(dag, "plan").storage == {"s3.endpoint": "http://store"}
        on_spark = task(dag, "on_spark")
        assert (on_spark.pool, on_spark.retries) == ("spark", 1)
        assert on_spark.max_active_tis_per_dagrun == 2

    def test_a_dag_can_run_by_hand_only(self):
        own = settings_from({"jobs": {"compact": {"schedule": False}}}, environ={})
        dag = job_dag(COMPACT, own)
        assert dag.schedule is None
        assert "only when triggered" in dag.doc_md

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"caretakr": {}}, "unknown caretakr"),
            ({"caretaker": {"batchsize": "1 gb"}}, "unknown batchsize"),
            ({"caretaker": {"batch_tables": "many"}}, "must be a whole number"),
            ({"caretaker": {"batch_tables": True}}, "must be a whole number"),
            ({"caretaker": {"batch_tables": 0}}, "batch_tables must be 1 or more"),
            ({"caretaker": {"parallel_batches": -1}}, "parallel_batches must be 1 or more"),
            ({"caretaker": {"batch_size": "lots"}}, "is not a size"),
            ({"caretaker": {"warehouse": 5}}, "must be a text"),
            ({"jobs": {"compact": {"retrys": 1}}}, r"\[jobs.compact\]: unknown retrys"),
            ({"jobs": {"compact": {"retries": "some"}}}, "must be a whole number"),
            ({"jobs": {"compact": 1}}, "must be a table"),
        ],
    )
    def test_what_is_wrong_in_the_file_is_named(self, raw, message):
        with pytest.raises(SettingsError, match=message):
            settings_from(raw, environ={}, where="caretaker.toml")

    def test_catalogs_are_checked_and_left_to_the_tasks(self, tmp_path: Path, monkeypatch):
        monkeypatch.setenv("CARETAKER_CONFIG", "")
        monkeypatch.delenv("CARETAKER_CONFIG")
        file = tmp_path / "caretaker.toml"
        file.write_text(
            '[caretaker]\nwarehouse = "catalog:prod"\n[catalogs.prod]\nmetastore = "rest"\n'
        )
        assert load_settings(file, {}).warehouse == "catalog:prod"
        assert load_settings(file, {}).storage == {}
        use_catalogs_of(tmp_path / "missing.toml")
        assert "CARETAKER_CONFIG" not in os.environ
        use_catalogs_of(file)
        assert defined_catalogs() == {"prod": {"metastore": "rest"}}
        raw = {"catalogs": {"prod": {"token": "s3cret"}}}
        with pytest.raises(SettingsError, match=r"\[catalogs\.prod\]: token") as refused:
            settings_from(raw, environ={})
        assert "s3cret" not in str(refused.value)

    def test_broken_toml_names_the_file(self, tmp_path: Path):
        file = tmp_path / "caretaker.toml"
        file.write_text("[caretaker")
        with pytest.raises(SettingsError, match=r"caretaker\.toml"):
            load_settings(file, {})

    def test_defaults_of_fields_that_the_form_lacks_are_refused(self):
        own = Settings(jobs={"compact": JobSettings(defaults={"stratgy": "full"})})
        with pytest.raises(SettingsError, match="no stratgy"):
            job_dag(COMPACT, own)


@pytest.mark.parametrize(
    ("job", "defaults", "message"),
    [
        ("compact", {"tables": "sales.*"}, "tables: 'sales.*' is not of type 'array'"),
        ("expire_snapshots", {"tables": ["sales"]}, "tables: 'sales' does not match"),
        ("expire_snapshots", {"dry_run": "no"}, "dry_run: 'no' is not of type 'boolean'"),
    ],
)
def test_defaults_that_the_form_does_not_take_are_refused(job, defaults, message):
    (page,) = all_pages([job])
    own = Settings(jobs={job: JobSettings(defaults=defaults)})
    with pytest.raises(SettingsError, match=rf"\[jobs\.{job}\] defaults: {re.escape(message)}"):
        job_dag(page, own)


def test_a_job_by_hand_may_have_defaults_for_some_of_its_form():
    own = Settings(jobs={"rollback": JobSettings(defaults={"safety_tag": "14 d"})})
    dag = job_dag(ROLLBACK, own)
    assert opens_with(dag)["tables"] is None
    assert dag.task_dict["plan"].defaults == {"safety_tag": "14 d"}


def test_settings_of_a_job_that_does_not_exist_are_refused():
    with pytest.raises(SettingsError, match=r"\[jobs.compct\]: there is no such job"):
        list(job_dags(Settings(jobs={"compct": JobSettings()})))


def test_the_page_of_a_job_explains_the_errors_that_it_may_have():
    expiry = job_dag(EXPIRE_SNAPSHOTS, Settings()).doc_md
    assert "`LeaseHeld`" in expiry
    assert "`ClockSkew`" in expiry
    compact = job_dag(COMPACT, Settings()).doc_md
    assert "`LeaseHeld`" not in compact
    assert "`SparkApplicationLost`" in compact


def test_the_form_opens_with_tables_strategy_and_dry_run():
    params = job_dag(COMPACT, Settings()).params
    opening = [name for name in params if "section" not in params.get_param(name).schema]
    assert opening == ["warehouse", "tables", "strategy", "dry_run"]


def test_help_texts_say_how_to_write_it_in_a_form():
    params = job_dag(COMPACT, Settings()).params
    assert params.get_param("options").description.endswith(
        'As a JSON object, for instance {"target-file-size": "256 mb"}.'
    )
    assert params.get_param("partitions").description.endswith(
        "One partition per line, for instance dt=2024-01-01,hh=10."
    )
    assert params.get_param("strategy").description.startswith("full: ")
