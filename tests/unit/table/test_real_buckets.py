"""How many buckets a new partition of a table with bucket = -2 gets for its first rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from sql_sessions import Sql

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.real_buckets import RealBuckets, partition_sizes, row_sizes
from paimon_core.types.binary_row import encode_row


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    return Sql(tmp_path)


def table(sql: Sql) -> FileStoreTable:
    return sql.session.catalog.get_table("default.t")


def buckets(sql: Sql) -> dict[str, int]:
    opened = table(sql)
    latest = opened.latest_or_not_found()
    return {
        str(opened.paths.partition_values(e.partition).get("p", "")): e.total_buckets
        for e in scan_files(opened, latest)
        if e.bucket >= 0
    }


def created(sql: Sql, **options: str) -> None:
    given = {"primary-key": "a,p", "bucket": "-2"}
    given |= {f"postpone.{k.replace('_', '-')}": v for k, v in options.items()}
    shown = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
    sql(f"CREATE TABLE t (a INT, b STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({shown})")


def values(sql: Sql, keys: range, partition: int, *, overwrite: bool = False) -> None:
    rows = ", ".join(f"({k}, 'v', {partition})" for k in keys)
    sql(f"INSERT {'OVERWRITE' if overwrite else 'INTO'} t VALUES {rows}")


def test_a_new_partition_gets_the_buckets_that_its_rows_need(sql: Sql) -> None:
    created(sql, target_row_num_per_bucket="4")
    values(sql, range(9), 1)
    values(sql, range(4), 2)
    assert buckets(sql) == {"1": 3, "2": 1}
    values(sql, range(10, 30), 2)  # it keeps its number
    assert buckets(sql) == {"1": 3, "2": 1}


def test_no_rows_are_in_no_partition(sql: Sql) -> None:
    created(sql)
    found = RealBuckets.of(table(sql), tasks=1)
    assert found is not None
    names = {"a": pa.int32(), "b": pa.string(), "p": pa.int32()}
    none = pa.table({name: pa.array([], kind) for name, kind in names.items()})
    assert list(found.split(table(sql), none)) == []
    assert partition_sizes(table(sql), none) == {}
    assert len(found.assigned(table(sql), none)) == 0


def test_rows_that_wait_count_too(sql: Sql) -> None:
    created(sql, target_row_num_per_bucket="4", batch_write_fixed_bucket="false")
    values(sql, range(8), 1)
    values(sql, range(8), 2)
    assert buckets(sql) == {}
    sql("ALTER TABLE t SET TBLPROPERTIES ('postpone.batch-write-fixed-bucket' = 'true')")
    values(sql, range(20, 24), 1)
    sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
    values(sql, range(20, 24), 2, overwrite=True)
    assert buckets(sql) == {"1": 3, "2": 1}


def test_sizes_count_without_a_number_of_rows(sql: Sql) -> None:
    created(sql, target_size_per_bucket="320 b")  # a row of three columns is 32 bytes
    values(sql, range(10), 1)
    values(sql, range(11), 2)
    assert buckets(sql) == {"1": 1, "2": 2}


def test_there_is_a_most(sql: Sql) -> None:
    most = {"batch-write-fixed-bucket.max-parallelism": "2"}
    created(sql, target_row_num_per_bucket="1", **most)
    values(sql, range(9), 1)
    assert buckets(sql) == {"1": 2}


@pytest.mark.parametrize("key", ["target_row_num_per_bucket", "target_size_per_bucket"])
def test_a_bucket_holds_something(sql: Sql, key: str) -> None:
    created(sql, **{key: "0"})
    with pytest.raises(InvalidArgument, match="must be greater than 0"):
        values(sql, range(1), 1)


def test_rows_are_as_large_as_java_writes_them(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b STRING, c BINARY, d DECIMAL(9, 2), e DECIMAL(20, 2), f DOUBLE)")
    opened = table(sql)
    texts = [None, "", "1234567", "12345678", "1234567890123456é"]
    rows = pa.table(
        {
            "a": pa.array([None, *range(4)], pa.int32()),
            "b": texts,
            "c": pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
            "d": pa.array([None, *([Decimal("1.25")] * 4)], pa.decimal128(9, 2)),
            "e": pa.array([None, *([Decimal("1.25")] * 4)], pa.decimal128(20, 2)),
            "f": pa.array([None, 1.0, 2.0, 3.0, 4.0]),
        }
    )
    types = opened.schema.row_type.types
    internal = [
        (a, b, c, None if d is None else int(d * 100), None if e is None else int(e * 100), f)
        for a, b, c, d, e, f in zip(*(x.to_pylist() for x in rows.columns), strict=True)
    ]
    expected = [len(encode_row(values, types)) - 4 for values in internal]  # without the arity
    assert row_sizes(opened, rows).tolist() == expected
