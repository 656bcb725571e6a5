"""UPDATE, DELETE and MERGE by the executors: the same rows as by the driver, and for Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from pyspark.errors import SparkRuntimeException
from pyspark.sql.functions import udf
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_spark.sql.dml import insert, large_changes, large_writes
from paimon_spark.sql.errors import WriteRefused
from paimon_spark.sql.frames import distributed

pytestmark = pytest.mark.spark

KINDS = {
    "append": "PARTITIONED BY (p)",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keys": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2')",
    "postponed": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '-2')",
    "across partitions": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id')",
}
MERGE = """
    MERGE INTO t USING (SELECT CAST(id AS INT) AS k, CAST(id % 3 AS INT) AS w FROM range(4, 14)) src
    ON t.id = src.k
    WHEN MATCHED AND src.w = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET t.v = upper(t.v), s.x = src.w
    WHEN NOT MATCHED AND src.w < 2 THEN INSERT (id, v, p) VALUES (src.k, 'new', 'a')
    WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET v = 'left'
    WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN DELETE
"""
EXPECTED = [
    [0, "v0", [0], "a"],
    [1, "left", [1], "b"],
    [3, "v3", [3], "b"],
    [4, "V4", [1], "a"],
    [5, "V5", [2], "b"],
    [7, "V7", [1], "b"],
    [10, "new", None, "a"],
    [12, "new", None, "a"],
    [13, "new", None, "a"],
]


@pytest.fixture
def sql(tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> Sql:
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    return Sql(tmp_path, session)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_executors_changed(
    kind: str, oracle_1_4_2: Oracle, sql: Sql, tmp_path: Path
) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="default", table="t")
    sql(f"CREATE TABLE t (id INT NOT NULL, v STRING, s STRUCT<x: INT>, p STRING) {KINDS[kind]}")
    values = ", ".join(f"({i}, 'v{i}', struct({i}), '{'ab'[i % 2]}')" for i in range(10))
    sql(f"INSERT INTO t VALUES {values}")
    with pytest.raises(WriteRefused, match="MERGE_CARDINALITY_VIOLATION"):
        sql("""
            MERGE INTO t USING (SELECT 1 AS a UNION ALL SELECT 1) s ON t.id = s.a
            WHEN MATCHED THEN UPDATE SET v = ''
        """)
    with pytest.raises(WriteRefused, match="MERGE_CARDINALITY_VIOLATION"):
        sql("""
            MERGE INTO t USING (SELECT 1 AS a, 1 AS n UNION ALL SELECT 1, 2) s ON t.id = s.a
            WHEN MATCHED AND s.n = 1 THEN DELETE
        """)
    sql(MERGE)
    sql("DELETE FROM t WHERE length(v) = 2 AND id = 8")
    if "primary-key" in KINDS[kind]:
        with pytest.raises(UnsupportedFeature, match="primary key column"):
            sql(
                "MERGE INTO t USING (SELECT 1 AS a) s ON t.id = s.a WHEN MATCHED THEN UPDATE SET id = 9"
            )
    else:
        with pytest.raises(WriteRefused, match="non-null column"):
            sql("UPDATE t SET id = NULL WHERE length(v) = 2")
    found = sql("SELECT * FROM t ORDER BY id")
    assert found == EXPECTED
    java = [[i, v, s and [s["x"]], p] for _, i, v, s, p in oracle_1_4_2.rows()]
    assert sorted(java) == found
    assert len(sql("SELECT * FROM `t$snapshots`")) == 3


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_executors_write_files_again_without_deleted_keys(
    engine: str, oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle_2_0_0.defaults(warehouse=tmp_path, database="default", table="t")
    sql(f"""
        CREATE TABLE t (id INT NOT NULL, v BIGINT, p STRING) PARTITIONED BY (p) TBLPROPERTIES
            ('primary-key' = 'id,p', 'bucket' = '2', 'merge-engine' = '{engine}', 'write-only' = 'true',
            'fields.v.aggregate-function' = 'sum');
        INSERT INTO t SELECT id, id, if(id % 2 = 0, 'a', 'b') FROM range(40);
        INSERT INTO t SELECT 7, 0, 'c' FROM range(2); INSERT INTO t VALUES (7, 0, 'c')
    """)
    with pytest.raises(InvalidArgument, match="use 'COMPACT' procedure first"):
        sql("DELETE FROM t WHERE id = 7 AND length(p) = 1")
    sql("CALL sys.compact('t')")
    before = {name for name, *_ in sql("SELECT file_path FROM `t$files` WHERE level > 0")}
    sql("DELETE FROM t WHERE v % 10 = 4 AND length(p) = 1; DELETE FROM t WHERE id = 6 AND p = 'a'")
    after = {name for name, *_ in sql("SELECT file_path FROM `t$files` WHERE level > 0")}
    assert len(before & after) == 3, "files of partitions b and c stay"
    expected = [i for i in range(40) if i % 10 != 4 and i != 6]
    assert sql("SELECT id FROM t WHERE p <> 'c' ORDER BY id") == [[i] for i in expected]
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 1 << 30)
    sql("DELETE FROM t WHERE v > 30 AND length(p) = 1")
    expected = [i for i in expected if i <= 30]
    java = sorted([p, i] for _, i, _, p in oracle_2_0_0.rows())
    assert java == sorted([["ab"[i % 2], i] for i in expected] + [["c", 7]])
    assert caretaker("verify", "default.t", "-w", tmp_path).code == 0


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["append", "keys"])
def test_variants_and_vectors_stay_on_executors(
    kind: str, oracle_2_0_0: Oracle, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LARGE_READ", "PARQUET_READ"):
        monkeypatch.setattr(distributed, name, 0)
    monkeypatch.setattr(large_writes, "LARGE_WRITE", 0)
    oracle_2_0_0.defaults(warehouse=tmp_path, database="default", table="t")
    sql(f"""
        CREATE TABLE t (id INT NOT NULL, v VARIANT, e ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;2', p STRING)
        {KINDS[kind]};
        INSERT INTO t SELECT CAST(id AS INT), parse_json(concat('{{"n":', id, '}}')),
          array(CAST(id AS FLOAT), 0F), 'a' FROM range(4) UNION ALL SELECT 4, NULL, NULL, 'a';
        UPDATE t SET v = parse_json('"new"') WHERE variant_get(v, '$.n', 'int') = 1;
        DELETE FROM t WHERE variant_get(v, '$.n', 'int') = 2;
        MERGE INTO t USING (SELECT 3 AS k UNION ALL SELECT 9) s ON t.id = s.k
        WHEN MATCHED THEN UPDATE SET e = array(7F, 8F)
        WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.k, parse_json('[9]'), 'a')
    """)
    expected = [
        [0, '{"n":0}', [0.0, 0.0]],
        [1, '"new"', [1.0, 0.0]],
        [3, '{"n":3}', [7.0, 8.0]],
        [4, None, None],
        [9, "[9]", None],
    ]
    assert sql("SELECT id, v, e FROM t ORDER BY id") == expected
    java = oracle_2_0_0.rows(projection=["id", "v"])
    assert sorted(row[1:] for row in java) == [row[:2] for row in expected]


def test_the_error_of_a_task_is_the_one_of_the_statement(sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE t (id INT, v STRING); INSERT INTO t VALUES (1, 'a')")
    (file,) = tmp_path.rglob("data-*.parquet")
    file.unlink()
    with pytest.raises(CorruptTable, match=f"a data file is missing.*{file.name}") as raised:
        sql("DELETE FROM t WHERE length(v) = 1")
    assert raised.value.message.endswith("]")
    assert "caretaker verify" in raised.value.next_step


def test_char_and_varchar(oracle_1_4_2: Oracle, sql: Sql, tmp_path: Path) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="default", table="t")
    sql("CREATE TABLE t (id INT, c CHAR(3), v VARCHAR(4))")
    sql("INSERT INTO t VALUES (1, 'a', 'b'), (2, 'x', 'y'), (3, NULL, NULL)")
    sql("UPDATE t SET c = concat(v, '!'), v = concat(v, 'yy    ') WHERE c = 'x' AND length(c) = 3")
    sql("""
        MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 9) s ON t.id = s.k AND t.c = 'a'
        WHEN MATCHED THEN UPDATE SET c = 'z' WHEN NOT MATCHED THEN INSERT (id, c) VALUES (k, 'n')
    """)
    with pytest.raises(SparkRuntimeException, match=r"EXCEED_LIMIT_LENGTH.*column v"):
        sql("UPDATE t SET v = concat(v, '12345') WHERE length(c) = 3")
    found = sql("SELECT * FROM t ORDER BY id")
    assert found == [[1, "z  ", "b"], [2, "y! ", "yyy "], [3, None, None], [9, "n  ", None]]
    assert sorted([*row[1:]] for row in oracle_1_4_2.rows()) == found


def test_deletes_leave_the_ids_of_other_rows(
    oracle_1_4_2: Oracle, sql: Sql, tmp_path: Path
) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="default", table="t")
    sql(
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
        "'deletion-vectors.enabled' = 'true')"
    )
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql("DELETE FROM t WHERE length(v) = 1 AND id = 2")
    found = sql("SELECT id, v, _ROW_ID, _SEQUENCE_NUMBER FROM t ORDER BY id")
    assert found == [[1, "a", 0, 1], [3, "c", 2, 1]]
    assert sorted(r[1:] for r in oracle_1_4_2.rows(system="row_tracking")) == found


def test_a_changelog_takes_back_the_nulls_that_it_told(sql: Sql) -> None:
    """Also where a column got a default value after the rows were written."""
    sql("""
        CREATE TABLE t (k INT, v STRING, w INT) TBLPROPERTIES
          ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input');
        INSERT INTO t VALUES (1, NULL, 1), (2, NULL, 2), (3, NULL, 3);
        ALTER TABLE t ALTER COLUMN v SET DEFAULT 'none';
        DELETE FROM t WHERE length(cast(w AS STRING)) = 1 AND w = 1;
        MERGE INTO t USING (SELECT 2 AS i UNION ALL SELECT 3 UNION ALL SELECT 4) s ON t.k = s.i
        WHEN MATCHED AND s.i = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET w = 33
        WHEN NOT MATCHED THEN INSERT (k) VALUES (s.i)
    """)
    told = sql("SELECT rowkind, k, v, w FROM `t$audit_log` WHERE rowkind = '-D' ORDER BY k")
    assert told == [["-D", 1, None, 1], ["-D", 2, None, 2]]
    assert sql("SELECT * FROM t ORDER BY k") == [[3, "none", 33], [4, "none", None]]


@pytest.mark.parametrize("kind", ["append", "vectors"])
def test_no_row_is_lost_where_a_query_is_computed_again(
    kind: str, sql: Sql, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors that keep the changes may be lost, and a query may choose other rows then."""
    seen = tmp_path / "seen"
    seen.mkdir()

    def chosen(number: int) -> bool:
        mark = seen / str(number)
        first = not mark.exists()
        mark.touch()
        return first

    session.udf.register("chosen", udf(chosen, "boolean", useArrow=False))
    monkeypatch.setattr(type(session.range(1)), "persist", lambda rows, *_: rows)
    sql(f"CREATE TABLE t (id INT, v STRING, p STRING) {KINDS[kind]}")
    sql("INSERT INTO t VALUES (1, 'a', 'a'), (2, 'b', 'a'), (3, 'c', 'b')")
    sql("UPDATE t SET v = upper(v) WHERE chosen(id)")
    assert sql("SELECT id, v FROM t ORDER BY id") == [[1, "A"], [2, "B"], [3, "C"]]


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("sequence", [", 'sequence.field' = 'ts1,ts2'", ""])
def test_upserts_by_executors(
    sequence: str, vectors: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(name: str) -> list[list[Any]]:
        sql(f"""
            CREATE TABLE {name} (k1 INT, k2 STRING, ts1 INT, ts2 INT, v STRING DEFAULT 'none')
              TBLPROPERTIES ('upsert-key' = 'k1,k2', 'deletion-vectors.enabled' = '{vectors}'
              {sequence});
            INSERT INTO {name} SELECT * FROM VALUES (NULL, NULL, 2, 1, 'v1'), (1, NULL, 1, 1, 'v1'),
              (1, 'b', NULL, 1, 'v1'), (2, 'c', 2, 2, 'v1');
            INSERT INTO {name} SELECT * FROM VALUES (NULL, NULL, 2, 0, 'v2'), (1, NULL, 2, 1, 'v2'),
              (1, NULL, 3, 1, 'v3'), (1, 'b', 1, NULL, 'v2'), (3, 'd', 1, 1, 'v2');
            INSERT INTO {name} (k1, k2, ts1, ts2) VALUES (2, 'c', 2, 2)
        """)
        assert len(sql(f"SELECT * FROM `{name}$snapshots`")) == 3
        return sql(f"SELECT * FROM {name} ORDER BY k1, k2, ts1, ts2, v")

    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 32 * 1024**2)
    by_driver = filled("d")
    monkeypatch.setattr(large_changes, "LARGE_CHANGE", 0)
    monkeypatch.setattr(insert, "upsert", None)
    monkeypatch.setattr(large_writes, "LARGE_WRITE", -1)
    assert filled("e") == by_driver
    assert [2, "c", 2, 2, "none"] in by_driver


def test_executors_change_keys_again_that_changed(
    sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("""
        CREATE TABLE t (id INT NOT NULL, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
        INSERT INTO t VALUES (1, 0), (2, 0)
    """)
    other, commit = Sql(Path(sql.session.warehouse)), large_changes.commit_write
    changes = ["INSERT INTO t VALUES (1, 10)"]

    def after_a_change(*args: Any, **kwargs: Any) -> Any:
        if changes:
            other(changes.pop())
        return commit(*args, **kwargs)

    monkeypatch.setattr(large_changes, "commit_write", after_a_change)
    sql("UPDATE t SET n = n + 1")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, 11], [2, 1]]
