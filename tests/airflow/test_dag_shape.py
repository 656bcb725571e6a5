from __future__ import annotations

from pathlib import Path

import pytest

from paimon_airflow.jobs import COMMON_PARAMS
from paimon_dags.job_shape import job_shape, job_shapes
from paimon_dags.pages import COMPACT, DROP_PARTITION, PAGES, ROLLBACK, Page, all_pages
from paimon_dags.settings import (
    JobSettings,
    Settings,
    SettingsError,
    load_settings,
    settings_from,
)
from paimon_dags.shape import DagShape, Field, Kind, Step
from paimon_maintenance.registry import JOBS, job_named

# Jobs without a page of their own yet are among them.
SHAPES = list(job_shapes(Settings(warehouse="/lake")))


def step(name: str, **parts: object) -> Step:
    return Step(id=name, kind=Kind.PLAN, title=name, doc="", **parts)


def shape(*steps: Step, fields: tuple[Field, ...] = ()) -> DagShape:
    return DagShape(
        dag_id="d", job="compact", title="", summary="", docs="", fields=fields, steps=steps
    )


@pytest.mark.parametrize("dag", SHAPES, ids=lambda dag: dag.dag_id)
class TestEveryDag:
    def test_plans_first_and_reports_last_whatever_happened(self, dag):
        first, *_, last = dag.steps
        assert first.kind is Kind.PLAN
        assert last.kind is Kind.REPORT
        assert last.always
        assert set(last.after) == {s.id for s in dag.steps[:-1]}

    def test_only_spark_is_mapped_over_the_planned_batches(self, dag):
        on_spark = [step for step in dag.steps if step.kind is Kind.ON_SPARK]
        assert [s for s in dag.steps if s.mapped] == on_spark
        assert all(step.after == (dag.steps[0].id,) for step in on_spark)
        names = {field.name for field in dag.fields}
        assert {"batch_size", "max_rewrite"} & names == (
            {"batch_size", "max_rewrite"} if on_spark else set()
        )

    def test_one_run_at_a_time(self, dag):
        assert dag.max_active_runs == 1

    def test_the_form_asks_for_every_argument_of_the_job_and_the_switches(self, dag):
        assert sorted(dag.arguments) == sorted(a.name for a in job_named(dag.job).arguments)
        names = {field.name for field in dag.fields}
        assert names >= {"warehouse", "tables", "including", "excluding", "dry_run", "force"}
        assert names - {a.name for a in job_named(dag.job).arguments} <= COMMON_PARAMS

    def test_the_forms_defaults_are_what_the_job_takes(self, dag):
        raw = {f.name: f.default for f in dag.fields if f.argument and f.default is not None}
        job_named(dag.job).read_arguments(raw)

    def test_the_forms_defaults_satisfy_its_schema(self, dag):
        jsonschema = pytest.importorskip("jsonschema")
        for field in dag.fields:
            jsonschema.Draft202012Validator.check_schema(dict(field.schema))
            if field.required and field.default is None:
                assert dag.schedule is None, field.name
            else:
                jsonschema.validate(field.default, dict(field.schema))

    def test_the_page_tells_the_operator_what_to_do(self, dag):
        for part in ("What it does", "What protects data", "Dry run", "Undo", "When it fails"):
            assert f"**{part}.**" in dag.docs
        assert job_named(dag.job).undo in dag.docs

    def test_help_texts_are_sentences(self, dag):
        for field in dag.fields:
            assert field.help.endswith("."), field.name
            assert "`" not in field.help, field.name
            assert field.title[:1].isupper(), field.name


def test_every_job_has_a_dag_and_every_page_is_of_a_known_job():
    assert {page.job for page in PAGES} <= set(JOBS)
    assert len({page.dag_id for page in PAGES}) == len(PAGES)
    assert [shape.job for shape in SHAPES] == list(JOBS)
    assert all_pages(["compact", "new"])[1] == Page(job="new")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.job)
def test_pages_name_arguments_that_the_job_has(page):
    known = {argument.name for argument in job_named(page.job).arguments}
    assert {*page.first, *page.required, *page.defaults} <= known


def test_by_hand_the_form_asks_for_tables_and_what_the_job_cannot_do_without():
    dag = job_shape(DROP_PARTITION, Settings())
    asked = {field.name for field in dag.fields if field.required and field.default is None}
    assert asked == {"tables", "partitions"}
    assert job_shape(COMPACT, Settings()).field("tables").default == ["*.*"]


def test_a_schedule_for_what_runs_by_hand_needs_defaults():
    raw = {"schedule": "@daily"}
    with pytest.raises(SettingsError, match="give defaults for tables, partitions as well"):
        job_shape(DROP_PARTITION, settings_from({"jobs": {"drop_partition": raw}}, environ={}))
    raw["defaults"] = {"tables": ["db.t"], "partitions": ["dt=tmp"]}
    own = settings_from({"jobs": {"drop_partition": raw}}, environ={})
    assert job_shape(DROP_PARTITION, own).schedule == "@daily"


def test_what_destroys_by_hand_is_planned_again_but_not_done_again_by_itself():
    retries = {step.id: step.retries for step in job_shape(ROLLBACK, Settings()).steps}
    assert retries == {"plan": 2, "in_process": 0, "report": 0}
    own = Settings(jobs={"rollback": JobSettings(retries=1)})
    assert {s.id: s.retries for s in job_shape(ROLLBACK, own).steps}["in_process"] == 1


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
    pools = {
        shape.job: {step.pool for step in shape.steps if step.id in {"in_process", "on_spark"}}
        for shape in job_shapes(own)
    }
    assert pools["compact"] == {"spark"}
    assert pools["rollback"] == {"caretaker"}
    assert {step.pool for step in job_shape(COMPACT, Settings()).steps} == {None}


def test_the_scheduled_compaction_is_minor():
    dag = job_shape(COMPACT, Settings())
    assert dag.defaults == {"strategy": "minor"}
    assert dag.field("strategy").default is None
    assert dag.field("strategy").help.endswith("Empty: minor.")


class TestShape:
    def test_steps_come_after_what_they_need(self):
        with pytest.raises(ValueError, match="step a is double, or comes before"):
            shape(step("a", after=("b",)), step("b"))

    def test_names_are_used_once(self):
        with pytest.raises(ValueError, match="double"):
            shape(step("a"), step("a"))
        field = Field(name="x", title="X", help="X.", schema={})
        with pytest.raises(ValueError, match="share a name"):
            shape(step("a"), fields=(field, field))

    def test_a_step_is_mapped_over_one_other(self):
        with pytest.raises(ValueError, match="more than one"):
            shape(step("a"), step("b"), step("c", after=("a", "b"), mapped=True))


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
        dag = job_shape(COMPACT, settings)
        assert dag.schedule == "0 3 * * *"
        assert dag.parallel_batches == 2
        assert {f.name: f.default for f in dag.fields if f.default}.items() >= {
            "warehouse": "s3://lake",
            "batch_size": "5 gb",
            "tables": ["sales.*"],
        }.items()
        assert dag.defaults == {"strategy": "full"}
        on_spark = next(s for s in dag.steps if s.kind is Kind.ON_SPARK)
        assert (on_spark.pool, on_spark.retries) == ("spark", 1)

    def test_a_dag_can_run_by_hand_only(self):
        own = settings_from({"jobs": {"compact": {"schedule": False}}}, environ={})
        assert job_shape(COMPACT, own).schedule is None
        assert "only when triggered" in job_shape(COMPACT, own).docs

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"caretakr": {}}, "unknown caretakr"),
            ({"caretaker": {"batchsize": "1 gb"}}, "unknown batchsize"),
            ({"caretaker": {"batch_tables": "many"}}, "is no int"),
            ({"caretaker": {"batch_tables": True}}, "is no int"),
            ({"caretaker": {"batch_tables": 0}}, "batch_tables must be 1 or more"),
            ({"caretaker": {"parallel_batches": -1}}, "parallel_batches must be 1 or more"),
            ({"caretaker": {"batch_size": "lots"}}, "not a size"),
            ({"caretaker": {"warehouse": 5}}, "is no str"),
            ({"jobs": {"compact": {"retrys": 1}}}, r"\[jobs.compact\]: unknown retrys"),
            ({"jobs": {"compact": {"retries": "some"}}}, "is no int"),
            ({"jobs": {"compact": 1}}, "is no table"),
        ],
    )
    def test_what_is_wrong_in_the_file_is_named(self, raw, message):
        with pytest.raises(SettingsError, match=message):
            settings_from(raw, environ={}, where="caretaker.toml")

    def test_broken_toml_names_the_file(self, tmp_path: Path):
        file = tmp_path / "caretaker.toml"
        file.write_text("[caretaker")
        with pytest.raises(SettingsError, match=r"caretaker\.toml"):
            load_settings(file, {})

    def test_defaults_of_fields_that_the_form_lacks_are_refused(self):
        own = Settings(jobs={"compact": JobSettings(defaults={"stratgy": "full"})})
        with pytest.raises(SettingsError, match="no stratgy"):
            job_shape(COMPACT, own)


def test_settings_of_a_job_that_does_not_exist_are_refused():
    with pytest.raises(SettingsError, match=r"\[jobs.compct\]: no job is called so"):
        list(job_shapes(Settings(jobs={"compct": JobSettings()})))


def test_sizes_and_durations_are_written_with_their_unit():
    from paimon_dags.form import _written
    from paimon_maintenance.job.arguments import Argument, Kind

    def written(kind: Kind, default: object) -> object:
        return _written(Argument(name="x", kind=kind, help="", default=default))

    assert written(Kind.SIZE, 4 * 1024**3) == "4 gb"
    assert written(Kind.SIZE, 1025) == "1025 b"
    assert written(Kind.DURATION, 5_400_000) == "90 min"
    assert written(Kind.DURATION, None) is None
    assert written(Kind.INTEGER, 7) == 7


def test_the_form_opens_with_tables_strategy_and_dry_run():
    fields = job_shape(COMPACT, Settings()).fields
    opening = [field.name for field in fields if field.section is None]
    assert opening == ["warehouse", "tables", "strategy", "dry_run"]


def test_help_texts_say_how_to_write_it_in_a_form():
    dag = job_shape(COMPACT, Settings())
    assert dag.field("options").help.endswith(
        'As a JSON object, for instance {"target-file-size": "256 mb"}.'
    )
    assert dag.field("partitions").help.endswith(
        "One partition a line, for instance dt=2024-01-01,hh=10."
    )
    assert dag.field("strategy").help.startswith("full: ")
