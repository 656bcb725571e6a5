"""`format("paimon")` in batches: what Java wrote is read, what it writes Java reads."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import ENV, Lake
from spark_rows import frame_values, spark_values

from oracle import Oracle
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_spark.source import read, shuffled, write

pytestmark = pytest.mark.spark

TYPES = [
    ("id", "INT NOT NULL"),
    ("dt", "DATE"),
    ("b", "BOOLEAN"),
    ("i1", "TINYINT"),
    ("i2", "SMALLINT"),
    ("i8", "BIGINT"),
    ("f4", "FLOAT"),
    ("f8", "DOUBLE"),
    ("s", "STRING"),
    ("x", "BYTES"),
    ("d", "DECIMAL(20, 3)"),
    ("t", "TIME(3)"),
    ("t3", "TIMESTAMP(3)"),
    ("t9", "TIMESTAMP(9)"),
    ("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("a", "ARRAY<TIMESTAMP(3)>"),
    ("m", "MAP<STRING, ARRAY<INT>>"),
    ("r", "ROW<x INT, y ROW<z STRING>>"),
]


def load(session: Any, root: object, **options: str) -> Any:
    return session.read.format("paimon").options(**options).load(str(root))


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize(
    "name", ["types_pk_parquet", "types_append_orc", "partitions_null", "deletion_vectors"]
)
def test_what_java_wrote_is_read(session: Any, golden: Any, name: str) -> None:
    table = golden(name)
    java = table.expected["reads"]["latest"]
    frame = load(session, table.root)
    assert frame.columns == java["columns"]
    assert frame_values(frame) == spark_values(java["rows"], java["types"])


def test_time_travel_tags_and_branches(session: Any, golden: Any) -> None:
    table = golden("tags_branches")
    reads = table.expected["reads"]
    ways = {"snapshot": "scan.snapshot-id", "tag": "scan.tag-name", "branch": "branch"}
    told = {name.partition("-")[0]: name for name in reads}
    assert set(ways) <= set(told)
    for way, option in ways.items():
        name = told[way]
        frame = load(session, table.root, **{option: name.partition("-")[2]})
        java = reads[name]
        assert frame_values(frame) == spark_values(java["rows"], java["types"])


def test_incremental_reads_leave_deletes_out(session: Any, golden: Any) -> None:
    table = golden("changelog_input")
    ((between, java),) = list(table.expected["incremental"].items())[:1]
    added = [r for r in java["rows"] if r[0] in ("+I", "+U")]
    assert len(added) < len(java["rows"])
    frame = load(session, table.root, **{"incremental-between": between})
    assert frame_values(frame) == spark_values(added, java["types"])
    audit = load(session, f"{table.root}$audit_log", **{"incremental-between": between})
    assert audit.columns == ["rowkind", *java["columns"]]
    assert sorted(r.rowkind for r in audit.collect()) == sorted(r[0] for r in java["rows"])


def test_system_tables_and_columns(session: Any, golden: Any) -> None:
    table = golden("dedup")
    latest = table.expected["snapshots"][-1]["id"]
    options = {"warehouse": str(table.warehouse), "table": "db.t$snapshots"}
    snapshots = session.read.format("paimon").options(**options).load()
    assert snapshots.where(f"snapshot_id = {latest}").count() == 1
    files = load(session, f"{table.root}$files", columns="file_path,level")
    assert files.columns == ["file_path", "level"]
    assert files.count() > 0
    two = load(session, table.root, columns="v, k")
    assert two.columns == ["v", "k"]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"scan.snapshotid": "1"}, "scan.snapshot-id"),
        ({"columns": "nothing"}, "has no column nothing"),
        ({"scan.snapshot-id": "99"}, "99"),
        ({"bucket": "-1"}, "bucket"),
        ({"timezone": "Mars/Base"}, "unknown time zone"),
    ],
)
def test_wrong_options_are_refused(
    session: Any, golden: Any, options: dict[str, str], cause: str
) -> None:
    with pytest.raises(Exception, match=cause):
        load(session, golden("dedup").root, **options).collect()


def test_a_condition_leaves_out_files(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log("db.t")
    for start in range(0, 40, 10):
        lake.append({"k": list(range(start, start + 10)), "v": ["v"] * 10})
    files = scan_files(lake.table(), lake.table().latest_or_not_found())
    for entry in files:
        # Only the file that the filter asks for is still there.
        if (
            entry.file.file_name
            != sorted(files, key=lambda e: e.file.creation_time or 0)[2].file.file_name
        ):
            Path(lake.table().paths.data_file(entry.partition, entry.bucket, entry.file)).unlink()
    where = "k >= 20 AND k < 30 AND v LIKE 'v%'"
    frame = load(session, tmp_path / "db.db" / "t", where=where)
    assert frame.count() == 10


# --- writes -------------------------------------------------------------------------------------


def sample(session: Any) -> Any:
    numbered = session.range(0, 60, numPartitions=3)
    return numbered.selectExpr(
        "cast(id as int) AS id",
        "date_add(date'2024-01-30', cast(id % 3 as int)) AS dt",
        "id % 2 = 0 AS b",
        "cast(id as tinyint) AS i1",
        "cast(-id as smallint) AS i2",
        "id * 10000000000 AS i8",
        "cast(id / 3 as float) AS f4",
        "if(id = 7, double('NaN'), -id / 7D) AS f8",
        "if(id % 5 = 0, null, concat('s', id)) AS s",
        "cast(concat('x', id) as binary) AS x",
        "cast(id / 8 as decimal(20, 3)) AS d",
        "cast(id * 1001 as int) AS t",
        "timestamp_ntz'1969-12-31 23:59:59.123456' + make_interval(0, 0, 0, 0, 0, 0, id) AS t3",
        "timestamp_ntz'2024-01-31 12:34:56.123456' AS t9",
        "timestamp'2024-01-31 12:34:56.123456' AS l6",
        "array(timestamp_ntz'1969-12-31 23:59:59.123', null) AS a",
        "if(id % 4 = 0, null, map('a', array(1, null), 'b', null)) AS m",
        "if(id % 6 = 0, null, named_struct('x', cast(id as int), 'y', named_struct('z', 'zz'))) AS r",
    )


def create(oracle: Oracle, *, keys: list[str], partitions: list[str], **options: str) -> None:
    columns = [{"name": n, "type": t} for n, t in TYPES]
    columns = [
        {**c, "type": c["type"].removesuffix(" NOT NULL") + " NOT NULL"} if c["name"] in keys else c
        for c in columns
    ]
    dashed = {k.replace("_", "-"): v for k, v in options.items()}
    oracle(
        [
            {"op": "create_database"},
            {
                "op": "create_table",
                "columns": columns,
                "primary_keys": keys,
                "partition_keys": partitions,
                "options": dashed,
            },
        ]
    )


def java_rows(oracle: Oracle) -> list[str]:
    java = oracle.one("read")
    return spark_values(java["rows"], java["types"])


@pytest.mark.sampled(one_of=6)
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ([], {"bucket": "-1"}),
        (["id", "dt"], {"bucket": "3"}),
        (["id", "dt"], {"bucket": "-1"}),
    ],
    ids=["append", "fixed", "dynamic"],
)
def test_java_reads_what_is_written(
    session: Any, oracle_1_4_2: Oracle, tmp_path: Path, keys: list[str], options: dict[str, str]
) -> None:
    oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")
    create(oracle_1_4_2, keys=keys, partitions=["dt"], **options)
    root = str(tmp_path / "db.db" / "t")
    rows = sample(session)
    write(rows, path=root)
    assert java_rows(oracle_1_4_2) == frame_values(load(session, root))
    assert load(session, root).count() == 60
    if keys:
        # Rows of a key replace each other; in Java's sequence of commits, too.
        write(rows.where("id < 30").selectExpr("id", "dt", "'new' AS s"), path=root)
        oracle_1_4_2.one("compact")
    else:
        rows.limit(7).write.format("paimon").mode("append").save(root)
    assert java_rows(oracle_1_4_2) == frame_values(load(session, root))
    assert load(session, root, columns="s").where("s = 'new'").count() == (30 if keys else 0)


@pytest.mark.oracle
def test_tasks_without_a_shuffle_leave_one_version_of_a_key(
    session: Any, oracle_2_0_0: Oracle, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2)
    root = str(tmp_path / "db.db" / "t")
    # Each task writes every key.
    rows = session.range(0, 90, numPartitions=3).selectExpr(
        "cast(id % 30 as int) AS k", "concat('v', id) AS v"
    )
    rows.write.format("paimon").mode("append").save(root)
    table = lake.table()
    entries = scan_files(table, table.latest_or_not_found())
    assert len(entries) == 6
    for bucket in (0, 1):
        ranges = sorted(
            (e.file.min_sequence_number, e.file.max_sequence_number)
            for e in entries
            if e.bucket == bucket
        )
        assert all(a[1] < b[0] for a, b in pairwise(ranges))
    oracle_2_0_0.defaults(warehouse=tmp_path, database="db", table="t")
    # The last task's rows are the newest, for us, for Java, and after a compaction.
    expected = sorted(f"v{i}" for i in range(60, 90))
    assert sorted(r.v for r in load(session, root).collect()) == expected
    assert sorted(r[2] for r in oracle_2_0_0.rows()) == expected
    oracle_2_0_0.one("compact")
    assert sorted(r[2] for r in oracle_2_0_0.rows()) == expected
    write(rows.where("k = 3").selectExpr("k", "'later' AS v").limit(1), path=root)
    assert [r[2] for r in oracle_2_0_0.rows() if r[1] == 3] == ["later"]


def test_dynamic_buckets_refuse_two_tasks_in_a_partition(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=-1)
    root = str(tmp_path / "db.db" / "t")
    rows = session.range(0, 30, numPartitions=2).selectExpr("cast(id as int) k", "'v' AS v")
    with pytest.raises(Exception, match=r"paimon_spark\.source\.write"):
        rows.write.format("paimon").mode("append").save(root)
    assert lake.table().snapshots.latest() is None
    assert lake.on_disk() == set()
    write(rows, path=root)
    assert load(session, root).count() == 30


@pytest.mark.oracle
def test_overwrites(session: Any, oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2, partitioned=True)
    root = str(tmp_path / "db.db" / "t")
    oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")

    def overwrite(where: str, value: str, **options: str) -> list[str]:
        rows = session.range(8).selectExpr(
            "cast(id as int) AS k", f"'{value}' AS v", "concat('d', id % 2) AS dt"
        )
        write(rows.where(where), mode="overwrite", path=root, **options)
        java = oracle_1_4_2.one("read")
        values = spark_values(java["rows"], java["types"])
        assert frame_values(load(session, root)) == values
        return sorted(row[2] for row in java["rows"])

    assert overwrite("true", "a") == ["a"] * 8
    dynamic = {"partitionOverwriteMode": "dynamic"}
    assert overwrite("dt = 'd0' AND k < 4", "b", **dynamic) == ["a"] * 4 + ["b"] * 2
    assert overwrite("false", "b", **dynamic) == ["a"] * 4 + ["b"] * 2
    static = {"overwrite-partition": "dt=d1"}
    assert overwrite("dt = 'd1' AND k = 1", "c", **static) == ["b", "b", "c"]
    with pytest.raises(Exception, match="do not belong to the partition"):
        overwrite("true", "d", **static)
    assert overwrite("dt = 'd0'", "e") == ["e"] * 4
    assert overwrite("false", "f") == []
    assert lake.table().latest_or_not_found().commit_kind == "OVERWRITE"


@pytest.mark.oracle
def test_row_kinds_delete(session: Any, oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=2)
    lake.fill(1, rows=6)
    rows = session.sql("SELECT 2 AS k, 'gone' AS v, 3Y AS _row_kind_ UNION ALL SELECT 3, 'up', 2Y")
    write(rows, path=str(tmp_path / "db.db" / "t"))
    oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")
    found = {r[1]: r[2] for r in oracle_1_4_2.rows()}
    assert sorted(found) == [0, 1, 3, 4, 5]
    assert found[3] == "up"


@pytest.mark.oracle
def test_merged_schemas(session: Any, oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=1)
    lake.fill(1, rows=2)
    root = str(tmp_path / "db.db" / "t")
    rows = session.sql("SELECT 1L AS k, 'v' AS v, named_struct('a', 1) AS extra")
    with pytest.raises(Exception, match="has no column extra"):
        write(rows.withColumn("k", rows.k.cast("int")), path=root)
    merge = {"write.merge-schema": "true"}
    with pytest.raises(Exception, match="bigint does not fit"):
        write(rows, path=root, **merge)
    assert lake.table().schema.names == ("k", "v")
    merge |= {"write.merge-schema.type-widening": "true"}
    with pytest.raises(Exception, match="do not merge"):
        write(session.sql("SELECT 1 AS k, 5 AS v"), path=root, **merge)
    write(session.sql("SELECT 1 AS k, 'v' AS v, named_struct('a', 1) AS extra"), path=root, **merge)
    nested = "SELECT 2 AS k, 'w' AS v, named_struct('a', 2L, 'b', 'x') AS extra"
    write(session.sql(nested), path=root, **merge)
    oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")
    java = oracle_1_4_2.one("read")
    assert java["columns"] == ["k", "v", "extra"]
    assert java["types"][2] == "ROW<`a` BIGINT, `b` STRING>"
    assert frame_values(load(session, root)) == spark_values(java["rows"], java["types"])
    assert len(java["rows"]) == 3


def test_a_failing_task_leaves_no_files(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(partitioned=True)
    rows = session.range(0, 30_000, numPartitions=1).selectExpr(
        "cast(id as int) AS k", "'v' AS v", "if(id < 29000, 'd', null) AS dt"
    )
    with pytest.raises(Exception, match="which is NOT NULL"):
        rows.write.format("paimon").mode("append").save(str(tmp_path / "db.db" / "t"))
    assert lake.table().snapshots.latest() is None
    assert lake.on_disk() == set()


def test_a_failing_job_of_write_leaves_no_files(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.log()
    go = tmp_path / "go"

    def second_fails(batches: Any) -> Any:
        for batch in batches:
            number = batch.column(0)[0].as_py()
            while number == 1 and not go.exists():
                time.sleep(0.05)
            if number == 1:
                raise RuntimeError("too late")
            yield pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int32()), "v": ["v"]})

    def once_the_first_has_ended() -> None:
        tracker = session.sparkContext.statusTracker()
        end = time.monotonic() + 120
        while time.monotonic() < end and not go.exists():
            stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
            if any(s is not None and s.numCompletedTasks for s in stages):
                found.update(lake.on_disk())
                go.touch()
            time.sleep(0.05)
        go.touch()

    found: set[str] = set()
    rows = session.range(0, 2, numPartitions=2).mapInArrow(second_fails, "k INT, v STRING")
    watch = threading.Thread(target=once_the_first_has_ended)
    watch.start()
    with pytest.raises(Exception, match="too late"):
        write(rows, path=str(tmp_path / "db.db" / "t"))
    watch.join()
    assert len(found) == 1
    assert lake.table().snapshots.latest() is None
    assert lake.on_disk() == set()


def test_rows_are_computed_once(session: Any, tmp_path: Path) -> None:
    Lake(tmp_path).primary_key(buckets=2)
    runs = session.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        runs.add(1)
        yield from batches

    plain = session.range(0, 20, numPartitions=1).selectExpr("cast(id AS int) AS k", "'v' AS v")
    write(plain.mapInArrow(counted, "k INT, v STRING"), path=str(tmp_path / "db.db" / "t"))
    assert runs.value == 1


def test_shuffled_rows_of_a_bucket_are_in_one_partition(session: Any, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(buckets=4, partitioned=True)
    rows = session.range(0, 200, numPartitions=4).selectExpr(
        "id AS k", "'v' AS v", "concat('d', id % 3) AS dt"
    )
    root = str(tmp_path / "db.db" / "t")
    with pytest.raises(Exception, match="bigint does not fit"):
        write(rows, path=root)
    write(rows.withColumn("k", rows.k.cast("int")), path=root)
    table = open_table(str(tmp_path), "db.t")
    entries = scan_files(table, table.latest_or_not_found())
    assert len(entries) == 12
    assert max(e.file.max_sequence_number for e in entries) < 200
    assert shuffled(rows, {"path": root}).columns == ["k", "v", "dt"]
    assert commit(table, [], user="nobody", env=ENV) == ()


def test_variants_and_vectors_go_both_ways(
    session: Any, golden: Any, tmp_path: Path, oracle_2_0_0: Oracle
) -> None:
    kinds = golden("types_pk_parquet").warehouse.parents[2] / "newer" / "kinds"
    shredded = load(session, kinds / "variant_shredded" / "warehouse" / "db.db" / "t")
    (variant,) = [f.name for f in shredded.schema if f.dataType.simpleString() == "variant"]
    assert shredded.selectExpr(f"to_json({variant}) AS j").where("j IS NOT NULL").count() > 0

    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    types = ("INT", "VARIANT", "ARRAY<VARIANT>", "ROW<x VARIANT, y INT>", "VECTOR<FLOAT, 2>")
    columns = [Column(n, t) for n, t in zip(("id", "v", "a", "r", "e"), types, strict=True)]
    catalog.create_table("db.t", create_schema(columns, now_millis=1))
    table = catalog.get_table("db.t")
    rows = session.sql("""
        SELECT 1 AS id, parse_json('{"a":[1,2.5]}') AS v, array(parse_json('1'), NULL) AS a,
          named_struct('x', parse_json('"s"'), 'y', 3) AS r, array(1.5F, 2F) AS e
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL""")
    write(rows, path=table.root)
    rows.selectExpr("id + 2 AS id", "v", "a", "r", "e").write.format("paimon").mode("append").save(
        table.root
    )
    expected = [(1, '{"a":[1,2.5]}', ["1", None], '"s"', 3, [1.5, 2.0]), (2, *[None] * 5)]
    text = ["id", "to_json(v)", "transform(a, p -> to_json(p))", "to_json(r.x)", "r.y", "e"]
    for frame in (load(session, table.root), read(session, path=table.root)):
        found = [tuple(r) for r in frame.selectExpr(*text).orderBy("id").collect()]
        assert found == expected + [(i + 2, *others) for i, *others in expected]
        assert [r.id for r in frame.where("v IS NULL").orderBy("id").collect()] == [2, 4]
    java = oracle_2_0_0.rows(
        warehouse=str(tmp_path), database="db", table="t", projection=["id", "v"]
    )
    assert [r[1:] for r in java] == [
        [1, '{"a":[1,2.5]}'],
        [2, None],
        [3, '{"a":[1,2.5]}'],
        [4, None],
    ]
    with pytest.raises(Exception, match="VECTOR of 1 elements instead of 2"):
        write(session.sql("SELECT 9 AS id, array(1F) AS e"), path=table.root)
