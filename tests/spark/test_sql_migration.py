"""Tables that were made from those of Hive, whose files Spark wrote, in SQL."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from metastore_process import HiveMetastore
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.catalog.hive.partitions import HivePartitions
from paimon_core.errors import UnsupportedFeature

pytestmark = pytest.mark.spark


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


def test_large_files_with_times_as_spark_writes_them(
    hive_metastore: HiveMetastore, session: Any, tmp_path: Path
) -> None:
    """INT96, which Spark reads as times in a zone only, and Paimon without one."""
    sql = Sql(tmp_path, session, catalog=hive_metastore.options)
    sql("CREATE DATABASE spark_s; USE spark_s")
    sql("CREATE TABLE t (id BIGINT, at TIMESTAMP) USING parquet PARTITIONED BY (dt DATE)")
    rows, start = 300_000, datetime.fromisoformat("2024-01-31T00:00:00.000001")
    (folder,) = Path(hive_metastore.options["warehouse"]).rglob("t")
    at = [start + timedelta(seconds=i * 7919 % 86_400, microseconds=i) for i in range(rows)]
    columns = {"id": pa.array(range(rows), pa.int64()), "at": pa.array(at, pa.timestamp("us"))}
    place = folder / "dt=2024-01-31"
    place.mkdir()
    pq.write_table(pa.table(columns), place / "f", use_deprecated_int96_timestamps=True)
    format_table = sql.session.catalog.format_tables
    assert format_table is not None
    registry = HivePartitions(format_table.metastore.client, "spark_s", "t")
    registry.add([{"dt": "2024-01-31"}])
    assert sql("CALL sys.migrate_table('hive', 'spark_s.t')") == [[True]]
    query = "SELECT count(*), min(at), max(id) FROM t WHERE id >= 0"
    assert sql(query) == [[rows, "2024-01-31 00:00:00.000001", rows - 1]]
    late = f"{max(at)}"
    assert sql(f"SELECT dt FROM t WHERE at = TIMESTAMP_NTZ'{late}'") == [["2024-01-31"]]


def test_lists_in_the_forms_of_old_writers(
    hive_metastore: HiveMetastore, hive_oracles: _Oracles, session: Any, tmp_path: Path
) -> None:
    """What is taken, Java reads too."""
    sql = Sql(tmp_path, session, catalog=hive_metastore.options)
    sql("CREATE DATABASE lists; USE lists")
    java = hive_oracles.of("1.4.2").defaults(catalog=hive_metastore.options, database="lists")
    lists = {
        "ARRAY<INT>": ("array(1, null)", [1, None]),
        "ARRAY<STRING>": ("array('a', 'b')", ["a", "b"]),
        "STRUCT<x: ARRAY<STRING>>": ("named_struct('x', array('a', 'b'))", {"x": ["a", "b"]}),
        "MAP<STRING, ARRAY<INT>>": ("map('k', array(1, null))", [["k", [1, None]]]),
        "ARRAY<ARRAY<INT>>": ("array(array(1, null), null)", [[1, None], None]),
        "ARRAY<STRUCT<q: INT>>": ("array(named_struct('q', 1), null)", [{"q": 1}, None]),
        "MAP<STRING, ARRAY<STRING>>": ("map('k', array('a', 'b'))", None),
        "ARRAY<STRUCT<q: STRING>>": ("array(named_struct('q', 'x'))", None),
        "ARRAY<ARRAY<STRING>>": ("array(array('x'))", None),
    }
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        for number, (kind, (value, wanted)) in enumerate(lists.items()):
            name = f"t{number}"
            sql(f"CREATE TABLE {name} (v {kind}) USING parquet LOCATION '{tmp_path}/{name}'")
            session.sql(f"SELECT {value} AS v").write.parquet(str(tmp_path / name), mode="append")
            call = f"CALL sys.migrate_table('hive', '{name}')"
            if wanted is None:
                with pytest.raises(UnsupportedFeature, match="old form of lists"):
                    sql(call)
            else:
                sql(call)
                assert java.rows(table=name) == [["+I", wanted]], kind
    finally:
        session.conf.unset("spark.sql.parquet.writeLegacyFormat")


def test_format_tables_that_this_session_wrote_and_read(
    hive_metastore: HiveMetastore, session: Any, tmp_path: Path
) -> None:
    """Their partitions are folders that the metastore does not know."""
    sql = Sql(tmp_path, session, catalog=hive_metastore.options)
    sql("CREATE DATABASE of_formats; USE of_formats")
    for kind in ("parquet", "orc"):
        sql(f"CREATE TABLE {kind}s (id INT, at DATE, n INT) USING {kind} PARTITIONED BY (at, n)")
        sql(f"CREATE TABLE plain_{kind}s (id STRING) USING {kind}")
        sql(f"INSERT INTO {kind}s VALUES (1, DATE'2024-01-31', 7), (2, DATE'2024-01-31', NULL)")
        sql(f"INSERT INTO plain_{kind}s VALUES ('a'), ('b')")
        rows = [[1, "2024-01-31", 7], [2, "2024-01-31", None]]
        assert sql(f"SELECT * FROM {kind}s ORDER BY id") == rows
        assert f"USING {kind}" in sql(f"SHOW CREATE TABLE {kind}s")[0][0]
        assert sql(f"CALL sys.migrate_table('hive', '{kind}s')") == [[True]]
        assert sql(f"SELECT * FROM {kind}s ORDER BY id") == rows
        assert sql(f"SELECT id FROM {kind}s WHERE n = 7") == [[1]]
        assert "USING paimon" in sql(f"SHOW CREATE TABLE {kind}s")[0][0]
        sql(f"UPDATE {kind}s SET id = 5 WHERE n IS NULL; INSERT INTO {kind}s VALUES (6, NULL, 1)")
        assert sql(f"SELECT id FROM {kind}s ORDER BY id") == [[1], [5], [6]]
        sql(f"ALTER TABLE {kind}s ADD COLUMN more INT; CALL sys.compact('{kind}s')")
        assert sql(f"SELECT id, more FROM {kind}s ORDER BY id") == [[1, None], [5, None], [6, None]]
        migrated = f"'hive', 'plain_{kind}s', NULL, false, 'of_formats.{kind}_target'"
        assert sql(f"CALL sys.migrate_table({migrated})") == [[True]]
        assert sql(f"SELECT * FROM {kind}_target ORDER BY id") == [["a"], ["b"]]
        assert sql(f"SELECT * FROM plain_{kind}s") == []
