"""caretaker_compact on real tables, with a real Spark submitted by the Spark provider."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from paimon_airflow.tasks.links import SparkUiLink
from paimon_maintenance.history.store import SqlHistory

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def warehouse(golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables that Java wrote: two kinds to compact, one to refuse."""
    monkeypatch.setenv("CARETAKER_HISTORY_URL", f"sqlite:///{tmp_path}/history.db")
    lake = tmp_path / "lake"
    for table, name in {
        "orders": "dedup_write_only",
        "log": "append_unaware",
        "tracked": "row_tracking",
    }.items():
        shutil.copytree(golden(name).root, lake / "db.db" / table)
    schema = lake / "db.db" / "tracked" / "schema" / "schema-0"
    calling = '"options" : { "commit.callbacks" : "org.example.Callback",'
    schema.write_text(schema.read_text().replace('"options" : {', calling, 1))
    return lake


def snapshots(warehouse: Path) -> dict[str, int]:
    from paimon_core.catalog.filesystem import FileSystemCatalog
    from paimon_core.table.open import open_table

    return {
        table: open_table(str(warehouse), f"db.{table}").latest_or_not_found().id
        for table in FileSystemCatalog(str(warehouse)).list_tables("db")
    }


def rows(warehouse: Path, table: str) -> list[str]:
    """The rows without their kinds, which compaction may turn from +U into +I."""
    from paimon_core.read.table_read import read_table
    from paimon_core.schema.table_schema import VALUE_KIND
    from paimon_core.table.open import open_table

    opened = open_table(str(warehouse), f"db.{table}")
    batches = read_table(opened, opened.latest_or_not_found())
    return sorted(
        str(row) for batch in batches for row in batch.drop_columns(VALUE_KIND).to_pylist()
    )


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_tables_are_compacted_one_is_refused_and_the_run_says_so(run_dag, warehouse):
    before = snapshots(warehouse)
    content = {table: rows(warehouse, table) for table in ("orders", "log")}
    # By the settings: the tables are small, and would run in the worker otherwise.
    ran = run_dag(
        {"warehouse": str(warehouse), "strategy": "full"},
        retries=1,
        engine="spark",
        spark_conf={"spark.yarn.historyServer.address": "history:18080"},
    )
    assert ran.report["failed"] == {}
    assert ran.report["refused"].keys() == {"db.tracked"}
    assert ran.report["refused"]["db.tracked"].startswith("UnsupportedFeature")
    assert ran.state == "failed"
    assert ran.tasks["on_spark[0]"] == "success"
    assert ran.tries["report"] == 1
    after = snapshots(warehouse)
    assert after["orders"] == before["orders"] + 1
    assert after["log"] == before["log"] + 1
    assert after["tracked"] == before["tracked"]
    for table, found in content.items():
        assert rows(warehouse, table) == found
    orders = next(t for t in ran.report["tables"] if t["table"] == "db.orders")
    assert orders["snapshot"] == after["orders"]
    assert orders["figures"]["runs"][1] < orders["figures"]["runs"][0]
    # The link of the task, its result, and the history name the application.
    assert re.fullmatch(r"http://history:18080/history/local-\d+/jobs/", orders["spark_ui"])
    assert ran.link("on_spark", SparkUiLink()) == orders["spark_ui"]
    recorded = SqlHistory(os.environ["CARETAKER_HISTORY_URL"]).newest(table="db.orders")[0]
    assert recorded.application_url == orders["spark_ui"]
    assert f"/{recorded.application_id}/" in orders["spark_ui"]

    # What was just done is done: the next run starts no Spark.
    again = run_dag({"warehouse": str(warehouse), "excluding": ["db\\.tracked"]})
    assert again.state == "success"
    assert again.tasks["on_spark"] == "skipped"
    assert snapshots(warehouse) == after


def test_a_dry_run_writes_nothing(run_dag, warehouse):
    before = files(warehouse)
    ran = run_dag(
        {"warehouse": str(warehouse), "strategy": "full", "tables": ["db.orders"], "dry_run": True}
    )
    assert ran.state == "success"
    assert ran.tasks["on_spark"] == "skipped"
    (planned,) = ran.report["tables"]
    assert planned["outcome"] == "planned"
    assert "rewrite 12 of 12 files" in planned["summary"]
    assert files(warehouse) == before


def test_a_guard_stops_a_table_before_spark_starts(run_dag, warehouse):
    conf = {"warehouse": str(warehouse), "tables": ["db.orders"], "max_rewrite": "1 kb"}
    ran = run_dag(conf, retries=2)
    assert ran.state == "failed"
    assert ran.report["failed"]["db.orders"].startswith("GuardTripped")
    assert ran.tasks["on_spark"] == "skipped"


def test_patterns_that_match_nothing_fail_at_once(run_dag, warehouse):
    ran = run_dag({"warehouse": str(warehouse), "tables": ["sales.*"]}, retries=2)
    assert ran.state == "failed"
    assert ran.tries["plan"] == 1


def test_a_misspelt_param_never_becomes_a_run(warehouse):
    from paimon_airflow.tasks.job_request import request_from
    from paimon_core.errors import InvalidArgument

    params = {"warehouse": str(warehouse), "tables": ["db.*"], "dryrun": True}
    with pytest.raises(InvalidArgument, match=r"no param 'dryrun'.*dry_run"):
        request_from("expire_snapshots", params, storage={}, timezone=None)


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("tables", 5),
        ("tables", True),
        ("tables", ["db.*", None]),
        ("tables", {"db.*": 1}),
        ("excluding", 1.5),
        ("excluding", [["db.a"]]),
        ("including", {"db.a": True}),
        ("branch", ["b"]),
        ("batch_size", "9" * 400),
        ("max_deleted_bytes", "1" + "0" * 400),
        ("next_snapshot", 5),
    ],
)
def test_odd_json_in_the_conf_is_refused_by_the_name_of_its_param(warehouse, param, value):
    from paimon_airflow.tasks.job_request import request_from
    from paimon_core.errors import InvalidArgument

    params = {"warehouse": str(warehouse), "tables": ["db.*"], "next_snapshot_id": 4}
    named = {"batch_size": "is more than", "max_deleted_bytes": "is more than"}
    with pytest.raises(InvalidArgument, match=named.get(param, param)):
        request_from("reset_consumer", params | {param: value}, storage={}, timezone=None)


def test_other_names_of_an_argument_count_but_not_the_forms_own_words(warehouse):
    from paimon_airflow.tasks.job_request import request_from

    def asked(job, **params):
        params |= {"warehouse": str(warehouse), "tables": ["db.*"]}
        return request_from(job, params, storage={}, timezone=None)

    assert asked("reset_consumer", consumer_id="c", next_snapshot=4).arguments == {
        "consumer_id": "c",
        "next_snapshot_id": 4,
    }
    made = asked("create_branch", branch_name="new", branch="old")
    assert (made.arguments, made.branch) == ({"branch_name": "new"}, "old")


def test_a_table_with_nothing_to_do_says_why(warehouse):
    from paimon_airflow.runs import jobs
    from paimon_airflow.tasks.job_request import request_from

    params = {"warehouse": str(warehouse), "tables": ["db.orders"]}
    request = request_from("expire_snapshots", params, storage={}, timezone=None)
    (plan,) = jobs.plan_tables(request, ["db.orders"])
    assert plan.result is not None
    assert plan.result.outcome == "nothing"
    assert "snapshot.num-retained.min" in plan.result.summary


def test_only_the_partitions_and_tables_asked_for_are_planned(warehouse):
    """Arguments reach the job, without Airflow in between."""
    from paimon_airflow.runs import jobs
    from paimon_airflow.tasks.job_request import request_from

    params = {
        "warehouse": str(warehouse),
        "tables": ["db.*"],
        "including": [".*orders"],
        "batch_size": "1 gb",
        "strategy": "full",
        "spark_threshold": 0,
    }
    request = request_from("compact", params, storage={}, timezone=None)
    assert jobs.list_tables(request) == ["db.orders"]
    (plan,) = jobs.plan_tables(request, ["db.orders"])
    assert plan.where == "spark"
    assert plan.bytes > 0
