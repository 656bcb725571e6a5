"""Statistics files: Flink's own, byte for byte; ours, as Java reads them back."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from lakes import ENV, Lake

from oracle import Oracle
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.io.json_text import parse_json_object, to_pretty_json
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.statistics import (
    ColumnStatistics,
    Statistics,
    read_statistics,
    statistics_from_object,
    statistics_to_object,
    value_from_text,
    value_to_text,
    write_statistics,
)
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type

# What ANALYZE TABLE ... FOR ALL COLUMNS wrote with Flink 2.0 and its connector 2.0.0.
BY_FLINK = """\
{
  "snapshotId" : 1,
  "schemaId" : 0,
  "mergedRecordCount" : 2,
  "mergedRecordSize" : -1,
  "colStats" : {
    "dt" : {
      "colId" : 6,
      "distinctCount" : 2,
      "min" : "-3623",
      "max" : "19753",
      "nullCount" : 0
    },
    "de" : {
      "colId" : 5,
      "distinctCount" : 2,
      "min" : "-7.25",
      "max" : "12.5",
      "nullCount" : 0
    },
    "b" : {
      "colId" : 1,
      "distinctCount" : 2,
      "nullCount" : 0
    },
    "d" : {
      "colId" : 4,
      "distinctCount" : 2,
      "min" : "-0.001",
      "max" : "1.0E20",
      "nullCount" : 0
    },
    "n" : {
      "colId" : 7,
      "distinctCount" : 1,
      "nullCount" : 1,
      "avgLen" : 2,
      "maxLen" : 2
    }
  }
}"""
COLUMNS = {
    "id": "INT",
    "b": "BOOLEAN",
    "ti": "TINYINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "de": "DECIMAL(10, 3)",
    "dt": "DATE",
    "n": "STRING",
}


def schema_of(columns: dict[str, str]) -> TableSchema:
    fields = tuple(
        DataField(id=i, name=n, type=parse_type(t)) for i, (n, t) in enumerate(columns.items())
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields),
        partition_keys=(),
        primary_keys=(),
        options=Options({}),
    )


def test_what_flink_wrote_is_read_and_written_alike() -> None:
    schema = schema_of(COLUMNS)
    read = statistics_from_object(parse_json_object(BY_FLINK), schema)
    assert read.merged_record_count == 2
    assert read.columns["de"].min == Decimal("-7.25")
    assert read.columns["dt"].max == 19753
    assert read.columns["d"].max == 1e20
    assert read.columns["b"] == ColumnStatistics(column_id=1, distinct_count=2, null_count=0)
    # Flink's decimals come from doubles; a DECIMAL(10, 3) that was read has all its digits.
    digits = BY_FLINK.replace("7.25", "7.250").replace("12.5", "12.500")
    assert to_pretty_json(statistics_to_object(read, schema)) == digits


VALUES: list[tuple[str, Any, str]] = [
    ("BOOLEAN", False, "false"),
    ("TINYINT", -128, "-128"),
    ("BIGINT", 2**63 - 1, "9223372036854775807"),
    ("FLOAT", 1.5, "1.5"),
    ("DOUBLE", 1e-5, "1.0E-5"),
    ("DECIMAL(20, 3)", Decimal("12345678901234567.125"), "12345678901234567.125"),
    ("CHAR(5)", "ab", "ab"),
    ("DATE", -1, "-1"),
    ("TIME(3)", 45_296_789, "45296789"),
    ("TIMESTAMP(3)", 1_706_704_496_123_000_000, "2024-01-31 12:34:56.123"),
    ("TIMESTAMP(9)", 1_706_704_496_123_456_789, "2024-01-31 12:34:56.123456789"),
    ("TIMESTAMP_LTZ(6)", 1_706_704_496_000_001_000, "2024-01-31 12:34:56.000001"),
]


@pytest.mark.parametrize(("sql", "value", "text"), VALUES)
def test_values_as_text(sql: str, value: Any, text: str) -> None:
    assert value_to_text(value, parse_type(sql)) == text
    assert value_from_text(text, parse_type(sql)) == value


def test_what_has_no_order_has_no_minimum() -> None:
    with pytest.raises(UnsupportedFeature, match="BYTES"):
        value_to_text(b"x", parse_type("BYTES"))


def analyzed(lake: Lake, statistics: Statistics) -> str:
    table = lake.table()
    name = write_statistics(table, statistics, new_uuid=ENV.new_uuid)
    request = CommitRequest(user="analyst", kind=CommitKind.ANALYZE, statistics=name)
    commit_changes(table, lambda _: ManifestChanges(), request, env=ENV)
    return name


def test_a_snapshot_carries_them(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.append({"k": [1, 2], "v": ["a", None]})
    table = lake.table()
    assert read_statistics(table, table.latest_or_not_found()) is None
    statistics = Statistics(
        snapshot_id=1,
        schema_id=0,
        merged_record_count=2,
        merged_record_size=None,
        columns={"v": ColumnStatistics(column_id=1, null_count=1, avg_len=1, max_len=1)},
    )
    name = analyzed(lake, statistics)
    lake.append({"k": [3], "v": ["c"]})
    latest = table.latest_or_not_found()
    assert latest.statistics == name
    assert read_statistics(table, latest) == statistics
    path = Path(table.paths.statistics(name))
    path.write_text("{}")
    with pytest.raises(CorruptTable, match="schemaId"):
        read_statistics(table, latest)
    path.unlink()
    with pytest.raises(CorruptTable, match="missing"):
        read_statistics(table, latest)
    lake.append({"k": [4], "v": ["d"]})
    assert table.latest_or_not_found().statistics is None, "lost statistics are not named again"


def test_java_reads_ours(tmp_path: Path, oracle: Oracle) -> None:
    types = {f"c{i}": sql for i, (sql, _, _) in enumerate(VALUES)}
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle(
        [
            {"op": "create_database"},
            {
                "op": "create_table",
                "columns": [{"name": n, "type": t} for n, t in types.items()],
                "options": {"bucket": "-1"},
            },
            {"op": "write", "rows": [[None] * len(types)]},
        ]
    )
    statistics = Statistics(
        snapshot_id=1,
        schema_id=0,
        merged_record_count=1,
        merged_record_size=10,
        columns={
            f"c{i}": ColumnStatistics(column_id=i, min=value, max=value, distinct_count=1)
            for i, (_, value, _) in enumerate(VALUES)
        },
    )
    analyzed(Lake(tmp_path), statistics)
    (row,) = oracle.rows(system="statistics")
    assert row[:5] == ["+I", 1, 0, 1, 10]
    columns = json.loads(row[5])
    assert {n: c["max"] for n, c in columns.items()} == {
        f"c{i}": text for i, (_, _, text) in enumerate(VALUES)
    }
