"""`sys.merge_branch`: what a branch appended goes to another, without copies of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_sessions import Sql

from paimon_core.errors import CommitConflict, InvalidArgument
from paimon_core.read.table_read import read_table
from paimon_core.table import merge_branch as merging
from paimon_core.table.open import open_table

MERGE = "CALL sys.merge_branch(table => 't', source_branch => 'b')"
TABLE = "CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ('branch-merge.enabled' = 'true'"


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def _branched(sql: Sql, options: str = "") -> None:
    sql(
        f"{TABLE}{options}); INSERT INTO t VALUES (1, 'a'); CALL sys.create_tag('t', 'start'); "
        "CALL sys.create_branch('t', 'b', 'start'); INSERT INTO `t$branch_b` VALUES (2, 'b')"
    )


def _ids(sql: Sql, branch: str = "main") -> list[int]:
    table = open_table(sql.session.warehouse, "default.t", branch=branch)
    batches = read_table(table, table.latest_or_not_found())
    return sorted(i for batch in batches for i in batch.column("id").to_pylist())


def test_rows_of_the_branch_are_in_both(sql: Sql) -> None:
    _branched(sql)
    sql("INSERT INTO t VALUES (3, 'c')")
    assert sql(MERGE) == [[True]]
    assert _ids(sql) == [1, 2, 3]
    assert _ids(sql, "b") == [1, 2]
    newest = sql.session.catalog.get_table("default.t").snapshots.latest_id()
    assert sql(MERGE) == [[True]]
    assert sql.session.catalog.get_table("default.t").snapshots.latest_id() == newest


def test_a_branch_is_merged_into_another(sql: Sql) -> None:
    _branched(sql)
    sql("CALL sys.create_branch('t', 'c', 'start'); CALL sys.merge_branch('t', 'b', 'c')")
    assert (_ids(sql), _ids(sql, "c")) == ([1], [1, 2])


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("ALTER TABLE `t$branch_b` ADD COLUMN x INT", "schema mismatch"),
        ("INSERT OVERWRITE t VALUES (9, 'x')", "commit kind 'OVERWRITE'"),
    ],
)
def test_branches_that_do_not_fit_are_refused(sql: Sql, before: str, problem: str) -> None:
    _branched(sql)
    sql(before)
    rows = _ids(sql)
    with pytest.raises(InvalidArgument, match=problem):
        sql(MERGE)
    assert _ids(sql) == rows


def test_data_evolution_is_refused(sql: Sql) -> None:
    _branched(sql, ", 'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'")
    with pytest.raises(InvalidArgument, match="has data evolution"):
        sql(MERGE)


def test_primary_keys_and_the_branch_itself_are_refused(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO t VALUES (1)")
    with pytest.raises(InvalidArgument, match="both are one branch"):
        sql("CALL sys.merge_branch('t', 'main')")
    sql("CALL sys.create_branch('t', 'b'); INSERT INTO `t$branch_b` VALUES (2)")
    with pytest.raises(InvalidArgument, match="has primary keys"):
        sql(MERGE)


def test_a_second_merge_at_the_same_time_conflicts(
    sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    _branched(sql)
    first = merging.commit_changes

    def late(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(merging, "commit_changes", first)
        sql(MERGE)
        return first(*args, **kwargs)

    monkeypatch.setattr(merging, "commit_changes", late)
    with pytest.raises(CommitConflict):
        sql(MERGE)
    assert _ids(sql) == [1, 2]


def test_tables_that_keep_rows_sorted_are_sorted_by_compact(sql: Sql) -> None:
    sql(
        "CREATE TABLE s (a INT, b INT) TBLPROPERTIES ('clustering.incremental' = 'true', "
        "'clustering.columns' = 'a,b', 'clustering.strategy' = 'zorder', "
        "'bucket-append-ordered' = 'false')"
    )
    sql("INSERT INTO s VALUES (3, 1), (1, 1); INSERT INTO s VALUES (2, 1)")
    assert sql("CALL sys.compact(table => 's', compact_strategy => 'full')") == [[True]]
    table = sql.session.catalog.get_table("default.s")
    rows = [r["a"] for b in read_table(table, table.latest_or_not_found()) for r in b.to_pylist()]
    assert rows == [1, 2, 3]
    assert sql("CALL sys.compact(table => 's')") == [[True]]
    modes = "clustering.incremental.mode=global-sort"
    assert sql(f"CALL sys.compact(table => 's', options => '{modes}')") == [[True]]
