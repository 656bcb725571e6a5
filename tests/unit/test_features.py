"""Each refusal is by name, and before anything is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker

from oracle import Oracle
from paimon_core.errors import UnsupportedFeature
from paimon_core.features import (
    check_committable,
    check_compactable,
    check_readable,
    check_writable,
)
from paimon_core.table.open import open_table
from paimon_maintenance.job.exit_codes import ExitCode

READ = {
    "type": "format-table",
    "merge-engine": "brand-new",
}
COMMIT = {
    "manifest.format": "csv",
    "metadata.iceberg.storage": "hive-catalog",
    "metadata.iceberg.format-version": "4",
    "commit.callbacks": "org.example.Callback",
    "metastore.partitioned-table": "true",
    "clustering.incremental": "true",
    "pk-vector.index.columns": "v",
}
COMPACT = {
    "row-tracking.enabled": "true",
}


@pytest.mark.parametrize("key", READ)
def test_what_cannot_be_read_cannot_be_touched_at_all(key: str, golden: Callable[..., Any]) -> None:
    warehouse = str(golden("dedup").warehouse)
    table = open_table(warehouse, "db.t", dynamic_options={key: READ[key]})
    for check in (check_readable, check_writable, check_compactable):
        with pytest.raises(UnsupportedFeature) as caught:
            check(table)
        assert key in caught.value.feature
        assert caught.value.table == "db.t"


def test_postponed_rows_that_queries_show_are_compacted(
    oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    """Queries show them before, as Spark and Flink of 2.0 do."""
    java = oracle_2_0_0.copy(warehouse=tmp_path, database="db", table="t")
    java.one("create_database")
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "-2", "postpone.merge-on-read": "true"}
    java.one("create_table", columns=columns, primary_keys=["k"], options=options)
    java.one("write", rows=[[1, "a"], [2, "b"]])
    java.one("write", rows=[[2, "c"]])
    read = caretaker("read", "db.t", "-w", tmp_path)
    assert read.out.splitlines() == ['["+I",1,"a"]', '["+I",2,"c"]'], read.err
    ran = caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local")
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert [row[1:] for row in java.rows()] == [[1, "a"], [2, "c"]]


def test_chain_tables_are_written_and_not_compacted(golden: Callable[..., Any]) -> None:
    options: dict[str, str | None] = {"chain-table.enabled": "true"}
    table = open_table(str(golden("dedup").warehouse), "db.t", dynamic_options=options)
    check_writable(table)
    for check in (check_readable, check_compactable):
        with pytest.raises(UnsupportedFeature, match="chain-table"):
            check(table)
    options["deletion-vectors.enabled"] = "true"
    with_vectors = open_table(str(golden("dedup").warehouse), "db.t", dynamic_options=options)
    with pytest.raises(UnsupportedFeature, match=r"chain-table.enabled with deletion-vectors"):
        check_writable(with_vectors)


def test_a_refusal_says_that_the_table_uses_what_is_not_supported(
    golden: Callable[..., Any],
) -> None:
    warehouse = str(golden("dedup").warehouse)
    table = open_table(warehouse, "db.t", dynamic_options={"type": "format-table"})
    with pytest.raises(UnsupportedFeature) as caught:
        check_readable(table)
    assert caught.value.message == (
        "table db.t cannot be read: it uses type=format-table, which is not supported"
    )


def test_a_materialized_table_is_one_like_others(golden: Callable[..., Any]) -> None:
    warehouse = str(golden("dedup").warehouse)
    table = open_table(warehouse, "db.t", dynamic_options={"type": "materialized-table"})
    for check in (check_readable, check_committable, check_writable, check_compactable):
        check(table)


@pytest.mark.parametrize("key", COMMIT)
def test_what_a_commit_would_leave_stale(key: str, golden: Callable[..., Any]) -> None:
    warehouse = str(golden("dedup").warehouse)
    options = {"metadata.iceberg.storage": "table-location"} if "iceberg" in key else {}
    table = open_table(warehouse, "db.t", dynamic_options=options | {key: COMMIT[key]})
    check_readable(table)
    for check in (check_committable, check_writable, check_compactable):
        with pytest.raises(UnsupportedFeature) as caught:
            check(table)
        assert key in caught.value.feature


@pytest.mark.parametrize("key", COMPACT)
def test_what_cannot_be_compacted(key: str, golden: Callable[..., Any]) -> None:
    warehouse = str(golden("dedup").warehouse)
    table = open_table(warehouse, "db.t", dynamic_options={key: COMPACT[key]})
    check_readable(table)
    with pytest.raises(UnsupportedFeature) as caught:
        check_compactable(table)
    assert key in caught.value.feature


def test_data_evolution_can_be_written_and_compacted_but_not_streamed(
    golden: Callable[..., Any],
) -> None:
    warehouse = str(golden("append_unaware").warehouse)
    options = {"data-evolution.enabled": "true", "row-tracking.enabled": "true"}
    table = open_table(warehouse, "db.t", dynamic_options=options)
    check_writable(table)
    check_compactable(table)
    with pytest.raises(UnsupportedFeature, match="data-evolution"):
        check_readable(table)
    options["vector.file.format"] = "lance"
    table = open_table(warehouse, "db.t", dynamic_options=options)
    with pytest.raises(UnsupportedFeature, match=r"vector\.file\.format=lance"):
        check_compactable(table)


def test_a_plain_table_is_not_refused(golden: Callable[..., Any]) -> None:
    table = open_table(str(golden("dedup").warehouse), "db.t")
    for check in (check_readable, check_writable, check_compactable, check_committable):
        check(table)


@pytest.mark.parametrize(
    "key", ["tag.callbacks", "metastore.tag-to-partition", "metadata.iceberg.storage"]
)
def test_who_would_not_hear_of_a_tag(key: str, golden: Callable[..., Any], tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    shutil.copytree(golden("tags_branches").warehouse, warehouse)
    newest = max((warehouse / "db.db" / "t" / "schema").iterdir())
    schema = json.loads(newest.read_text())
    schema["options"][key] = "rest-catalog"
    newest.write_text(json.dumps(schema))
    for tag in (warehouse / "db.db" / "t" / "tag").iterdir():
        lasting = json.loads(tag.read_text()) | {"tagTimeRetained": None, "tagCreateTime": None}
        tag.write_text(json.dumps(lasting))  # the golden ones live for a day
    for words in (
        ("create_tag", "--tag", "new"),
        ("delete_tag", "--tag", "t1"),
        ("expire_tags", "--older-than", "0 s"),
        ("trigger_tag_automatic_creation", "--option", "tag.automatic-creation=batch"),
    ):
        ran = caretaker("run", words[0], "db.t", "-w", warehouse, "--json", *words[1:])
        assert ran.code == 4, (words, ran.err)
        assert key in ran.json["error"]["feature"]
    assert caretaker("plan", "expire_tags", "db.t", "-w", warehouse).code == 3
