"""Filters that are pushed down leave exactly the rows that Spark's own filter leaves."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import ENV
from pyspark.sql import datasource as ds

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.table.write_session import write_rows
from paimon_spark.source.batch_reader import PaimonBatchReader, row_type_of
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.spark_types import spark_schema

pytestmark = pytest.mark.spark

NAN = float("nan")
VALUES: dict[str, tuple[str, list[Any]]] = {
    "i": ("INT", [-3, 0, 1, 2, 7, 2**31 - 1]),
    "b": ("BOOLEAN", [True, False]),
    "f": ("DOUBLE", [-1.5, -0.0, 0.0, 2.25, float("inf"), NAN]),
    "s": ("STRING", ["", "a", "ab", "b%", "é", "\U0001f600"]),
    "x": ("BYTES", [b"", b"a", b"\xff"]),
    "d": ("DECIMAL(10, 2)", [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
    "t": ("DATE", [date(1969, 12, 31), date(2024, 1, 31), date(2024, 2, 1)]),
    "n": ("TIMESTAMP(6)", [datetime(1969, 12, 31, 23, 59, 59, 7), datetime(2024, 1, 31)]),  # noqa: DTZ001
    "z": (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [datetime(1969, 12, 31, tzinfo=UTC), datetime(2024, 1, 31, 1, tzinfo=UTC)],
    ),
    "n9": ("TIMESTAMP(9)", [datetime(2024, 1, 31), datetime(2024, 1, 31, 0, 0, 1)]),  # noqa: DTZ001
}
COMPARISONS = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "<=>",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}
TEXTS = {
    ds.StringStartsWith: "startswith",
    ds.StringEndsWith: "endswith",
    ds.StringContains: "contains",
}


def literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case float():
            return f"double('{value}')"
        case str():
            return f"'{value}'"
        case bytes():
            return f"X'{value.hex()}'"
        case Decimal():
            return f"cast('{value}' as decimal(10, 2))"
        case datetime():
            kind = "timestamp_ntz" if value.tzinfo is None else "timestamp"
            return f"{kind}'{value.replace(tzinfo=None).isoformat(' ')}'"
    return f"date'{value}'"


def some_filter(dice: random.Random) -> tuple[ds.Filter, str]:
    name = dice.choice(list(VALUES))
    values = VALUES[name][1]
    column = (name,)
    kind = dice.choice(["compare"] * 5 + ["in", "null", "text", "not", "not"])
    if kind == "not":
        inner, sql = some_filter(dice)
        return ds.Not(inner), f"NOT ({sql})"
    if kind == "null":
        which = dice.choice([ds.IsNull, ds.IsNotNull])
        return which(column), f"{name} IS {'NOT ' if which is ds.IsNotNull else ''}NULL"
    if kind == "in":
        chosen = dice.sample([*values, None], dice.randint(1, 2))
        return ds.In(column, tuple(chosen)), f"{name} IN ({', '.join(map(literal, chosen))})"
    if kind == "text":
        text = dice.choice(list(TEXTS))
        value = dice.choice(["", "a", "b", "%"])
        return text(("s",), value), f"{TEXTS[text]}(s, '{value}')"
    compare = dice.choice(list(COMPARISONS))
    value = dice.choice(values)
    return compare(column, value), f"{name} {COMPARISONS[compare]} {literal(value)}"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Four files of random rows, some values null, with an index in the files."""
    dice = random.Random(7)
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    columns = [Column("id", "INT NOT NULL"), *(Column(n, t) for n, (t, _) in VALUES.items())]
    options = {"bucket": "-1", "write-only": "true", "file-index.bloom-filter.columns": "i,s"}
    catalog.create_table("db.t", create_schema(columns, now_millis=0, options=options))
    opened = catalog.get_table("db.t")
    for start in range(0, 200, 50):
        data: dict[str, Any] = {"id": pa.array(range(start, start + 50), pa.int32())}
        for name, (_, values) in VALUES.items():
            some = dice.sample(values, min(len(values), 1 + start // 50)) if start < 150 else values
            data[name] = [dice.choice([*some, None]) for _ in range(50)]
        write_rows(opened, pa.table(data), env=ENV)
    return str(tmp_path / "db.db" / "t")


def pushed_ids(path: str, f: ds.Filter) -> tuple[bool, set[int]]:
    """Whether the filter was taken, and the rows that the reader gives then."""
    options = SourceOptions.of({"path": path})
    reader = PaimonBatchReader(options, spark_schema(row_type_of(options)))
    left = list(reader.pushFilters([f]))
    batches = [b for p in reader.partitions() for b in reader.read(p)]
    return not left, {i for b in batches for i in b.column("id").to_pylist()}


def test_pushed_filters_are_spark_s_own(session: Any, table: str) -> None:
    dice = random.Random(11)
    filters = [some_filter(dice) for _ in range(250)]
    rows = session.read.format("paimon").load(table).cache()
    tests = [f"coalesce({sql}, false) AS c{i}" for i, (_, sql) in enumerate(filters)]
    answers = rows.selectExpr("id", *tests).toArrow()
    ids = answers.column("id")
    assert len(ids) == 200
    taken = 0
    for i, (f, sql) in enumerate(filters):
        expected = set(ids.filter(answers.column(f"c{i}")).to_pylist())
        was_taken, found = pushed_ids(table, f)
        taken += was_taken
        if was_taken:
            assert found == expected, sql
        else:
            assert len(found) == 200, sql
    assert taken > 180
    rows.unpersist()


def test_queries_with_and_without_push_down(session: Any, table: str) -> None:
    pushed = session.read.format("paimon").load(table)
    plain = session.createDataFrame(pushed.toArrow())
    for where in (
        "i IN (1, 2, null) AND s LIKE 'a%'",
        "f >= 0 AND NOT (s <=> 'a') AND i IS NOT NULL",
        "n < timestamp_ntz'2024-01-31' AND (b OR i > 0)",
        "n9 = timestamp_ntz'2024-01-31' AND d > 0",
    ):
        expected = sorted(r.id for r in plain.where(where).select("id").collect())
        assert expected
        assert sorted(r.id for r in pushed.where(where).select("id").collect()) == expected


def test_what_is_not_pushed(table: str) -> None:
    nano = timedelta(microseconds=1)
    for f in (
        ds.EqualTo(("n9",), datetime(2024, 1, 31) + nano),  # noqa: DTZ001
        ds.EqualTo(("s", "part"), "a"),
        ds.Not(ds.In(("i",), (1, None))),
        ds.EqualTo(("i",), "1"),
    ):
        was_taken, found = pushed_ids(table, f)
        assert not was_taken
        assert len(found) == 200
