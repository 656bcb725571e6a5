"""Format tables of REST and Hive catalogs: Java reads what ours writes, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from metastore_process import HiveMetastore
from pyspark.errors import PySparkException
from sql_sessions import Sql

from oracle import FlinkSql, Oracle, RestServer
from paimon_core.catalog.hive import format_tables
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.open import open_catalog
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_spark.sql.text.names import quoted_text

pytestmark = pytest.mark.spark

KINDS = ("csv", "json", "parquet", "orc")
COLUMNS = """
    id INT, b BOOLEAN, f FLOAT, d DOUBLE, n DECIMAL(10, 2), s STRING, y BINARY, da DATE,
    ts TIMESTAMP, p STRING, pd DATE, pi INT
"""
ROW = """(1, true, 1.5, 1e10, 12.34, 'q"u,o;te', X'00ff10', DATE'2024-02-03',
    TIMESTAMP'2024-02-03 04:05:06.789', 'a:b', DATE'2024-01-31', 7)"""
NULLS = f"({', '.join(['2'] + ['NULL'] * 11)})"


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


def _session(place: Path, spark: Any, options: Mapping[str, str], database: str) -> Sql:
    sql = Sql(place, spark, catalog=options)
    sql(f"CREATE DATABASE IF NOT EXISTS {database}; USE {database}")
    return sql


def _write(sql: Sql, kind: str) -> None:
    sql(f"CREATE TABLE {kind}s ({COLUMNS}) USING {kind} PARTITIONED BY (p, pd, pi)")
    sql(f"INSERT INTO {kind}s VALUES {ROW}, {NULLS}")


def _check(rows: list[list[Any]], time: str) -> None:
    first, second = rows
    assert first[1:9] == [1, True, 1.5, 1e10, "12.34", 'q"u,o;te', "00ff10", "2024-02-03"]
    assert first[9].rstrip("0Z") == time.rstrip("0")
    assert first[10:] == ["a:b", "2024-01-31", 7]
    assert second == ["+I", 2, *[None] * 11]


def test_java_reads_those_of_a_rest_catalog(
    rest_server: RestServer, oracle_2_0_0: Oracle, session: Any, tmp_path: Path
) -> None:
    sql = _session(tmp_path, session, rest_server.options, "formats")
    java = oracle_2_0_0.defaults(catalog=rest_server.options, database="formats")
    for kind in ("csv", "parquet"):
        _write(sql, kind)
        told = java.one("get_table", table=f"{kind}s")
        assert told["class"] == "FormatTableImpl"
        assert told["options"]["file.format"] == kind
        _check(java.rows(table=f"{kind}s"), "2024-02-03T04:05:06.789")
        filtered = java.rows(table=f"{kind}s", filter={"field": "pi", "op": "=", "value": 7})
        assert [row[1] for row in filtered] == [1]
    named = {f"catalog.{k}": v for k, v in rest_server.options.items()}
    with pytest.raises(PySparkException, match="read a format table in SQL"):
        session.read.format("paimon").options(**named, table="formats.csvs").load()
    # One that Java has made.
    java.one(
        "create_table",
        table="theirs",
        columns=[{"name": "id", "type": "INT"}, {"name": "p", "type": "STRING"}],
        partition_keys=["p"],
        options={"type": "format-table", "file.format": "csv", "field-delimiter": "|"},
    )
    sql("INSERT INTO theirs VALUES (1, 'x'); INSERT OVERWRITE theirs PARTITION (p = 'x') VALUES 2")
    assert java.rows(table="theirs") == [["+I", 2, "x"]]
    sql("CREATE TABLE texts (a STRING, b STRING) USING csv")
    values = [r"a\b", '"', "x,", r"\\", " y ", r"\","]
    rows = ", ".join(f"({quoted_text(v)}, {i})" for i, v in enumerate(values))
    sql(f"INSERT INTO texts VALUES {rows}")
    found = sorted(java.rows(table="texts"), key=lambda row: str(row[2]))
    assert [row[1] for row in found] == values
    assert sql("SELECT a FROM texts ORDER BY b") == [[v] for v in values]
    sql("DROP TABLE texts")
    assert [row[1] for row in sql("SHOW TABLES")] == ["csvs", "parquets", "theirs"]
    assert open_catalog(rest_server.options).list_tables("formats") == []
    sql("DROP TABLE theirs")


def test_java_reads_those_of_a_hive_catalog(
    hive_metastore: HiveMetastore, hive_oracles: _Oracles, session: Any, tmp_path: Path
) -> None:
    options = hive_metastore.options
    sql = _session(tmp_path, session, options, "formats")
    java = hive_oracles.of("2.0.0").defaults(catalog=options, database="formats")
    for kind in ("csv", "json", "orc"):
        _write(sql, kind)
        _check(java.rows(table=f"{kind}s"), "2024-02-03T04:05:06.789")
    assert sql("SELECT id, p, pd, pi FROM csvs WHERE pi = 7") == [[1, "a:b", "2024-01-31", 7]]
    hive = java.one("get_table", table="csvs")["hive"]
    assert hive["parameters"]["table_type"] == "CSV"
    assert hive["sd"]["serdeInfo"]["parameters"]["field.delim"] == ","
    java.one(
        "create_table",
        table="theirs",
        columns=[{"name": "id", "type": "INT"}, {"name": "p", "type": "STRING"}],
        partition_keys=["p"],
        options={"type": "format-table", "file.format": "csv", "csv.field-delimiter": "|"},
    )
    with pytest.raises(UnsupportedFeature, match="Only data table support alter table"):
        sql("ALTER TABLE theirs SET TBLPROPERTIES ('k' = 'v')")
    sql(f"SET spark.paimon.format-table.commit-hive-sync-url = {options['uri']}")
    sql("INSERT INTO theirs VALUES (1, 'x'), (2, 'y/z')")
    sql("RESET spark.paimon.format-table.commit-hive-sync-url")
    assert java.rows(table="theirs") == [["+I", 1, "x"], ["+I", 2, "y/z"]]
    catalog = HiveCatalog.connect(options)
    _check_others_are_left_out(catalog)
    theirs = catalog.format_tables.find("formats.theirs")
    assert theirs is not None
    found = catalog.format_tables.metastore.client.call("get_partitions", "formats", "theirs", -1)
    assert sorted(p.values[0] for p in found) == ["x", "y/z"]
    assert catalog.list_tables("formats") == []
    sql("ALTER TABLE theirs RENAME TO ours")
    assert sql("SELECT * FROM ours ORDER BY id") == [[1, "x"], [2, "y/z"]]
    sql("DROP TABLE ours")
    assert not Path(theirs.root).exists()
    sql("CREATE DATABASE with_formats; CREATE TABLE with_formats.t (id INT) USING orc")
    sql(f"CREATE TABLE with_formats.kept (id INT) USING csv LOCATION '{tmp_path}/kept'")
    sql("INSERT INTO with_formats.kept VALUES (1)")
    folder = Path(catalog.format_tables.metastore.folder_of("with_formats").removeprefix("file:"))
    assert (folder / "t").exists()
    with pytest.raises(InvalidArgument, match="2 format tables"):
        sql("DROP DATABASE with_formats")
    sql("DROP DATABASE with_formats CASCADE")
    assert not folder.exists()
    assert list((tmp_path / "kept").glob("*.csv"))


def _check_others_are_left_out(catalog: HiveCatalog) -> None:
    """Tables of Hive's formats whose files are not all that decides about rows."""
    tables = catalog.format_tables
    client = tables.metastore.client
    plain = client.call("get_table", "formats", "csvs")
    serde = replace(
        plain.sd.serde_info, serialization_lib="org.apache.hadoop.hive.serde2.OpenCSVSerde"
    )
    # The metastore wants buckets for transactions.
    transactional = replace(plain, parameters={**plain.parameters, "transactional": "true"})
    assert format_tables._schema_of(plain) is not None
    assert format_tables._schema_of(transactional) is None
    others = {
        "links": {
            "sd": replace(
                plain.sd, input_format="org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
            )
        },
        "quoted": {"sd": replace(plain.sd, serde_info=serde)},
    }
    names = tables.names("formats")
    for name, changed in others.items():
        found = replace(plain, table_name=name, **changed)
        place = f"{plain.sd.location}-{name}"
        found = replace(found, sd=replace(found.sd, location=place))
        client.call("create_table", found)
        assert tables.find(f"formats.{name}") is None
    assert tables.names("formats") == names


@pytest.mark.long
def test_ours_reads_and_replaces_what_flink_writes(
    rest_server: RestServer, flink_sql: FlinkSql, session: Any, tmp_path: Path
) -> None:
    options = ", ".join(f"'{k}' = '{v}'" for k, v in rest_server.options.items())
    start = (
        f"CREATE CATALOG c WITH ('type' = 'paimon', {options});\nUSE CATALOG c;\nUSE of_flink;\n"
    )
    sql = _session(tmp_path, session, rest_server.options, "of_flink")
    columns = COLUMNS.replace("TIMESTAMP", "TIMESTAMP_LTZ(3)").replace("BINARY", "BYTES")
    row = ROW.replace("TIMESTAMP'2024-02-03 04:05:06.789'", "TO_TIMESTAMP_LTZ(1706933106789, 3)")
    script = f"{start}SET 'table.dml-sync' = 'true';\n"
    for kind in KINDS:
        script += (
            f"CREATE TABLE {kind}s ({columns}) PARTITIONED BY (p, pd, pi) "
            f"WITH ('type' = 'format-table', 'file.format' = '{kind}');\n"
            f"INSERT INTO {kind}s VALUES {row};\n"
        ).replace("\n    ", " ")
    flink_sql(script)
    for kind in KINDS:
        (found,) = sql(f"SELECT * FROM {kind}s WHERE pd = DATE'2024-01-31'")
        _check([["+I", *found], ["+I", 2, *[None] * 11]], "2024-02-03 04:05:06.789")
        sql(f"""
            INSERT OVERWRITE {kind}s PARTITION (p = 'a:b')
            SELECT 9, b, f, d, n, s, y, da, ts, pd, pi FROM {kind}s
        """)
    lines = flink_sql(start + "".join(f"SELECT id, s, ts, pd FROM {k}s;\n" for k in KINDS))
    rows = [line for line in lines if line.startswith("+I[9")]
    assert rows == ['+I[9, q"u,o;te, 2024-02-03T04:05:06.789Z, 2024-01-31]'] * len(KINDS)
