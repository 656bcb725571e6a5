"""The procedures of Java's Spark connector: all are here under their names, or refused by them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from sql_sessions import Sql

from paimon_core.errors import PaimonError
from paimon_core.table.sink.write_session import commit_write, prepare_rows
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch
from paimon_maintenance.cli.sql import copy_table
from paimon_maintenance.cli.sql.procedures import PROCEDURES
from paimon_spark.sql.errors import error_type

JAVA = {
    "alter_function": ("function! change!", "result"),
    "alter_view_dialect": ("view! action! engine query", "result"),
    "clear_consumers": ("table! includingConsumers excludingConsumers", "result"),
    "compact": (
        (
            "table! partitions compact_strategy order_strategy order_by where options "
            "partition_idle_time"
        ),
        "result",
    ),
    "compact_chain_table": ("table! partition! overwrite", "result"),
    "compact_database": (
        "including_databases including_tables excluding_tables options",
        "result",
    ),
    "compact_manifest": ("table! options dry_run", "result"),
    "copy": ("source_table! target_table! where", "result"),
    "create_branch": ("table! branch! tag ignoreIfExists", "result"),
    "create_function": (
        "function! inputParams! returnParams! deterministic comment options",
        "result",
    ),
    "create_global_index": ("table! index_column! index_type! partitions options", "result"),
    "create_tag": ("table! tag! snapshot time_retained", "result"),
    "create_tag_from_timestamp": (
        "table! tag! timestamp time_retained",
        "tagName snapshot commit_time watermark",
    ),
    "delete_branch": ("table! branch!", "result"),
    "delete_tag": ("table! tag!", "result"),
    "drop_function": ("function!", "result"),
    "reassign_row_id": ("table! partitions", "result"),
    "drop_global_index": (
        "table! index_column! index_type! partitions dry_run",
        "result dropped_file_count",
    ),
    "expire_partitions": (
        (
            "table! expiration_time timestamp_formatter timestamp_pattern expire_strategy max_expires "
            "options"
        ),
        "expired_partitions",
    ),
    "expire_snapshots": (
        "table! retain_max retain_min older_than max_deletes options",
        "deleted_snapshots_count",
    ),
    "expire_tags": ("table! older_than", "expired_tags"),
    "fast_forward": ("table! branch!", "result"),
    "mark_partition_done": ("table! partitions!", "result"),
    "merge_branch": ("table! source_branch! target_branch", "result"),
    "migrate_database": ("source_type! database! options options_map parallelism", "result"),
    "migrate_table": (
        "source_type! table! options delete_origin target_table options_map parallelism",
        "result",
    ),
    "purge_files": ("table!", "result"),
    "remove_orphan_files": (
        "table! older_than dry_run parallelism mode",
        "deletedFileCount deletedFileTotalLenInBytes",
    ),
    "remove_unexisting_files": ("table! dry_run parallelism", "fileName"),
    "rename_branch": ("table! from_branch! to_branch!", "result"),
    "rename_tag": ("table! tag! target_tag!", "result"),
    "repair": ("database_or_table!", "result"),
    "repair_earliest_snapshot": (
        "table! snapshot_id!",
        "previous_earliest_snapshot_id current_earliest_snapshot_id",
    ),
    "replace_tag": ("table! tag! snapshot time_retained", "result"),
    "rescale": ("table! bucket_num partitions where", "result"),
    "reset_consumer": ("table! consumerId! nextSnapshotId", "result"),
    "rewrite_file_index": ("table! where", "written_partitions written_indexes"),
    "rollback": ("table! version snapshot tag", "previous_snapshot_id current_snapshot_id"),
    "rollback_to_timestamp": ("table! timestamp!", "previous_snapshot_id current_snapshot_id"),
    "rollback_to_watermark": ("table! watermark!", "previous_snapshot_id current_snapshot_id"),
    "trigger_tag_automatic_creation": ("table!", "result"),
}
"""`SparkProcedures` of release 2.0.0, which has all of 1.4.2: arguments (required ones with !) and
columns.
"""
OURS = {"analyze", "drop_partition", "expire_changelogs"}
REFUSED = {
    "alter_function": "'f', 'c'",
    "create_function": "'f', '[]', '[]'",
    "drop_function": "`function` => 'f'",
    "migrate_database": (
        "source_type => 'hive', database => 'd', options_map => map('k', 'v'), parallelism => 6"
    ),
    "migrate_table": "source_type => 'hive', table => 'd.t', delete_origin => false",
    "repair": "'default.t'",
}
"""By a filesystem catalog: other catalogs do them."""
WRONG = {
    "compact()": "Required parameters [table] is missed",
    "compact(table => NULL)": "Required parameters [table] is missed",
    "create_tag('t', NULL)": "Required parameters [tag] is missed",
    "compact(table => 't', table => 't')": "table is duplicated",
    "compact(tabel => 't')": "tabel is unknown",
    "purge_files('t', 1)": "Too many arguments",
    "expire_snapshots('t', '5')": "Cannot cast StringType to IntegerType of retain_max",
    "expire_snapshots('t', 5000000000)": "Cannot cast LongType to IntegerType of retain_max",
    "create_tag('t', 'x', 'one')": "Cannot cast StringType to LongType of snapshot",
    "remove_orphan_files(table => 't', dry_run => 1)": "Cannot cast IntegerType to BooleanType of dry_run",
    "remove_orphan_files(table => 't', mode => 'far')": "Unknown mode: far",
}


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    found = Sql(tmp_path)
    found("CREATE TABLE t (id INT, v STRING)")
    return found


def test_every_procedure_has_its_name_arguments_and_columns() -> None:
    ours = {
        name: (
            " ".join(p.name + "!" * p.required for p in procedure.parameters),
            " ".join(procedure.columns),
        )
        for name, procedure in PROCEDURES.items()
        if name not in OURS
    }
    assert ours == JAVA


def test_some_are_refused_by_name(sql: Sql) -> None:
    listed = {row[3] for row in sql("SHOW PROCEDURES")}
    assert listed == set(PROCEDURES)
    for name, arguments in REFUSED.items():
        with pytest.raises(PaimonError, match=f"sys.{name} is not supported: ") as caught:
            sql(f"CALL sys.{name}({arguments})")
        assert error_type(caught.value) == "UnsupportedOperationException"
    with pytest.raises(PaimonError, match="does not support views"):
        sql("CALL sys.alter_view_dialect('v', 'add', 'spark', 'SELECT 1')")


def test_arguments_that_do_not_fit(sql: Sql) -> None:
    for call, text in WRONG.items():
        with pytest.raises(PaimonError) as caught:
            sql(f"CALL sys.{call}")
        assert error_type(caught.value) == "RuntimeException", call
        assert text in str(caught.value), call


def test_the_option_branch_is_not_for_procedures(sql: Sql) -> None:
    sql("CREATE TABLE b (id INT); INSERT INTO b VALUES (1); CALL sys.create_branch('b', 'dev')")
    sql("SET spark.paimon.branch=dev; INSERT INTO b VALUES (2); INSERT INTO b VALUES (3)")
    for table in ("'b'", "table => 'default.b'"):
        with pytest.raises(PaimonError, match="do not go by the option branch"):
            sql(f"CALL sys.expire_snapshots({table}, retain_max => 1)")
    with pytest.raises(PaimonError, match="the option branch is dev"):
        sql("CALL sys.compact('b$branch_other')")
    assert sql("CALL sys.create_tag('b$branch_dev', 'kept')") == [[True]]
    sql("ALTER TABLE b CREATE TAG other; ALTER TABLE b RENAME TAG other TO more")
    assert sql("SHOW TAGS b") == [["kept"], ["more"]]
    sql("RESET spark.paimon.branch")
    assert sql("SHOW TAGS b") == []


def test_tags_and_statistics_of_a_branch(sql: Sql) -> None:
    sql("CREATE TABLE c (id INT); INSERT INTO c VALUES (1); CALL sys.create_branch('c', 'dev')")
    sql("INSERT INTO `c$branch_dev` VALUES (2); ALTER TABLE `c$branch_dev` CREATE TAG one")
    sql("ALTER TABLE c CREATE TAG one; ALTER TABLE `c$branch_dev` DELETE TAG one")
    assert sql("SHOW TAGS c") == [["one"]]
    assert sql("SHOW TAGS `c$branch_dev`") == []
    sql("ANALYZE TABLE `c$branch_dev` COMPUTE STATISTICS")
    kinds = []
    for name in (["c"], ["c$branch_dev"]):
        newest = sql.session.open(sql.session.table_name(name)).latest_or_not_found()
        kinds.append(newest.commit_kind.value)
    assert kinds == ["APPEND", "ANALYZE"]


def test_procedures_over_many_tables_leave_alone_those_that_opted_out(sql: Sql, caplog) -> None:
    for name, option in (("a", "on"), ("off", "off")):
        sql(
            f"CREATE TABLE {name} (k INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='1', "
            f"'write-only'='true', 'caretaker.maintenance'='{option}')"
        )
        sql(f"INSERT INTO {name} VALUES (1)")
        sql(f"INSERT INTO {name} VALUES (2)")
    why = "its option caretaker.maintenance is 'off' (a run that names the table ignores it)"
    tables = "including_tables => 'default.a|default.off'"
    assert sql(f"CALL sys.compact_database({tables})") == [
        [f"Compact database finished. Success: 1, Failed: 0, skipped: default.off ({why})"]
    ]
    for none in (
        "including_tables => 'a'",
        f"including_databases => 'x', {tables}",
        f"{tables}, excluding_tables => '.*a|.*off'",
    ):
        answer = sql(f"CALL sys.compact_database({none})")
        assert answer == [["Compact database finished. Success: 0, Failed: 0"]]
    sql("CALL sys.remove_orphan_files(table => 'default.*')")
    assert f"default.off: skipped, {why}" in caplog.text
    assert "default.a: skipped" not in caplog.text
    newest = sql.session.open(sql.session.table_name(["off"])).latest_or_not_found()
    assert newest.commit_kind.value == "APPEND"
    assert sql("CALL sys.compact('off')") == [[True]]
    newest = sql.session.open(sql.session.table_name(["off"])).latest_or_not_found()
    assert newest.commit_kind.value == "COMPACT"


def test_orphan_files_are_counted(sql: Sql, tmp_path: Path) -> None:
    sql("INSERT INTO t VALUES (1, 'a')")
    orphan = tmp_path / f"default.db/t/bucket-0/data-{uuid4()}-0.parquet"
    orphan.write_bytes(b"abc")
    os.utime(orphan, (0, 0))
    for dry_run, answer in (("true", [[1, 3]]), ("false", [[1, 3]]), ("false", [[0, 0]])):
        call = f"CALL sys.remove_orphan_files(table => 't', dry_run => {dry_run})"
        assert sql(call) == answer
    assert not orphan.exists()


def test_a_rollback_has_one_target(sql: Sql) -> None:
    for i in range(3):
        sql(f"{'' if i else 'CREATE TABLE r (id INT);'} INSERT INTO r VALUES ({i})")
    sql("CALL sys.create_tag('r', '20250122', 1)")
    for target in ("tag => '20250122'", "snapshot => 2", "tag => 'other', snapshot => 2"):
        with pytest.raises(PaimonError, match="only one of"):
            sql(f"CALL sys.rollback(table => 'r', version => '20250122', {target})")
    assert sql("CALL sys.rollback(table => 'r', version => '', snapshot => 2)") == [[3, 2]]
    assert sql("CALL sys.rollback(table => 'r', version => '20250122')") == [[2, 1]]


def test_the_earliest_snapshot_behind_a_gap(sql: Sql) -> None:
    for i in range(4):
        sql(f"INSERT INTO t VALUES ({i}, 'x')")
    with pytest.raises(PaimonError, match="does not immediately follow"):
        sql("CALL sys.repair_earliest_snapshot('t', 3)")
    snapshots = sql.session.catalog.get_table("default.t").snapshots
    snapshots.delete(2)
    for wanted, text in {2: "Snapshot 2 does not exist", 9: "later than latest"}.items():
        with pytest.raises(PaimonError, match=text):
            sql(f"CALL sys.repair_earliest_snapshot('t', {wanted})")
    assert sql("CALL sys.repair_earliest_snapshot(table => 't', snapshot_id => 3)") == [[1, 3]]
    assert snapshots.hints()[0] == 3


def test_tags_that_are_not_there(sql: Sql) -> None:
    sql("CREATE TABLE g (id INT); INSERT INTO g VALUES (1); INSERT INTO g VALUES (2)")
    sql("ALTER TABLE g REPLACE TAG new AS OF VERSION 1 RETAIN 1 DAYS; ALTER TABLE g DELETE TAG old")
    assert sql("SHOW TAGS g") == [["new"]]
    assert sql.session.open(sql.session.table_name(["g"])).tags.get("new").snapshot.id == 1


def test_arguments_are_all_named_or_none(sql: Sql) -> None:
    sql("CREATE TABLE g (id INT); INSERT INTO g VALUES (1)")
    for given in ("'g', tag => 'x'", "table => 'g', 'x'"):
        with pytest.raises(PaimonError, match="Cannot mix named and positional arguments"):
            sql(f"CALL sys.create_tag({given})")
    assert sql("SHOW TAGS g") == []


def test_a_table_that_fails_keeps_no_other_from_its_compaction(sql: Sql) -> None:
    for name in ("calls", "fine"):
        sql(f"CREATE TABLE {name} (id INT)")
        sql(f"INSERT INTO {name} VALUES (1); INSERT INTO {name} VALUES (2)")
    sql("ALTER TABLE calls SET TBLPROPERTIES ('commit.callbacks' = 'org.example.Callback')")
    (answer,) = sql("CALL sys.compact_database()")[0]
    assert answer.startswith(
        "Compact database finished. Success: 2, Failed: 1, failed: default.calls ("
    )


def test_a_purge_leaves_the_files_of_a_commit_that_is_under_way(sql: Sql) -> None:
    sql("CREATE TABLE p (id INT); INSERT INTO p VALUES (1); INSERT INTO p VALUES (2)")
    table = sql.session.open(sql.session.table_name(["p"]), to_write=True)
    rows, env = pa.table({"id": pa.array([3], pa.int32())}), sql.session.env
    written = prepare_rows(table, rows, env=env, user="u", overwrite=False)
    assert sql("CALL sys.purge_files('p')") == [["Success"]]
    commit_write(table, written, env=env, user="u")
    table = sql.session.open(sql.session.table_name(["p"]))
    assert table.snapshots.ids() == [3, 4]
    assert [b.column("id").to_pylist() for b in read_batch(batch_scan_of(table))] == [[3]]


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ("ALTER TABLE gone RENAME TO other", "dropped or renamed"),
        (
            "DROP TABLE gone; CREATE TABLE gone (a INT); INSERT INTO gone VALUES (7)",
            "created again",
        ),
        ("CREATE OR REPLACE TABLE gone (b INT); INSERT INTO gone VALUES (7)", "schema of table"),
    ],
    ids=["renamed", "created again", "replaced"],
)
def test_a_copy_of_a_table_that_goes_meanwhile_is_not_called_done(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, beside: str, told: str
) -> None:
    sql("CREATE TABLE gone (a INT); INSERT INTO gone VALUES (1)")
    create = copy_table._create

    def slow(*given: Any) -> None:
        sql(beside)
        create(*given)

    monkeypatch.setattr(copy_table, "_create", slow)
    with pytest.raises(PaimonError, match=told):
        sql("CALL sys.copy('gone', 'c')")
