"""Random changes by SQL leave the rows that Spark computes without Paimon, in tables of all kinds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from long_run import LONG
from sql_sessions import Sql

from paimon_spark.sql.dml import large_changes

pytestmark = pytest.mark.spark

CHANGES = 12 if LONG else 4
FORMATS = ("parquet", "parquet", "orc", "avro")
KINDS = {
    "append": ("k", "PARTITIONED BY (p)", {}),
    "bucket": ("k", "", {"bucket": "2", "bucket-key": "k"}),
    "vectors": ("k", "PARTITIONED BY (p)", {"deletion-vectors.enabled": "true"}),
    "tracking": ("k", "", {"row-tracking.enabled": "true"}),
    "keys": ("k, p", "PARTITIONED BY (p)", {"primary-key": "k,p", "bucket": "2"}),
    "lookup": ("k", "", {"primary-key": "k", "bucket": "1", "changelog-producer": "lookup"}),
    "dynamic": ("k", "", {"primary-key": "k", "dynamic-bucket.target-row-num": "20"}),
    "moving": ("k", "PARTITIONED BY (p)", {"primary-key": "k"}),
    "merged": ("k", "", {"primary-key": "k", "bucket": "1", "deletion-vectors.enabled": "true"}),
}
"""The columns that say which rows are the same, where the rows are, and options."""
COLUMNS = "k INT, a INT, b STRING, d DECIMAL(10, 2), p STRING"
CONDITIONS = (
    "{q}a > {n}",
    "{q}a IS NULL",
    "{q}b LIKE 'a%'",
    "{q}p = 'x'",
    "{q}k % 3 = {n}",
    "{q}d BETWEEN -1 AND {n}.5",
    "NOT ({q}a = {n} OR {q}b = 'ab')",
    "{q}b IN ('a', NULL) OR {q}k = {n}",
    "{q}a NOT IN ({n}, 4) AND {q}p <> 'y'",
    "coalesce({q}a, 0) = {n} OR {q}b >= 'b'",
    "{q}a = {q}k",
)


class History:
    """A table and its model: a view of Spark with the rows that the table must have."""

    def __init__(self, sql: Sql, spark: Any, kind: str, chance: random.Random) -> None:
        self.sql, self.spark, self.chance = sql, spark, chance
        self.same, partitioned, options = KINDS[kind]
        self.has_key = "primary-key" in options
        self.partitioned = bool(partitioned)
        self.done: list[str] = []
        options = {**options, "file.format": chance.choice(FORMATS)}
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self.run(f"CREATE TABLE t ({COLUMNS}) {partitioned} TBLPROPERTIES ({properties})")
        self.set_model(spark.createDataFrame([], COLUMNS))

    def run(self, statement: str) -> list[list[Any]]:
        self.done.append(statement)
        return self.sql(statement)

    def set_model(self, frame: Any) -> None:
        rows = [tuple(row) for row in frame.collect()]
        self.spark.createDataFrame(rows, COLUMNS).createOrReplaceTempView("model")

    def condition(self, alias: str = "") -> str:
        return self.chance.choice(CONDITIONS).format(q=alias, n=self.chance.randrange(4))

    def on(self) -> str:
        return " AND ".join(f"t.{name} = s.{name}" for name in self.same.split(", "))

    def make_source(self) -> str:
        """A view `s` of some rows with different keys, in the session of Spark and in that of SQL."""
        rows = []
        for k in self.chance.sample(range(12), self.chance.randrange(1, 8)):
            a, b, d = (
                self.value(v) for v in (range(-1, 5), ("a", "ab", "b", ""), ("-1.25", "3.5"))
            )
            p = self.chance.choice("xyz")
            values = (
                f"({k}, CAST({a} AS INT), CAST({b} AS STRING), CAST({d} AS DECIMAL(10, 2)), '{p}')"
            )
            rows.append(values)
        query = f"SELECT * FROM VALUES {', '.join(rows)} AS v(k, a, b, d, p)"
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW s AS {query}")
        self.run(f"CREATE OR REPLACE TEMPORARY VIEW s AS {query}")
        return query

    def value(self, values: Sequence[object]) -> str:
        one = None if self.chance.random() < 0.2 else self.chance.choice(values)
        return "NULL" if one is None else repr(one)

    def change(self, statement: str, expected: str) -> None:
        """Run the statement, and make the model what this query on the old one returns."""
        after = self.spark.sql(expected)
        self.run(statement)
        self.set_model(after)

    # --- changes --------------------------------------------------------------------------------

    def insert(self) -> None:
        self.make_source()
        others = f"SELECT t.* FROM model t LEFT ANTI JOIN s ON {self.on()}"
        kept = others if self.has_key else "SELECT * FROM model"
        self.change("INSERT INTO t SELECT * FROM s", f"{kept} UNION ALL SELECT * FROM s")

    def delete(self) -> None:
        gone = self.condition()
        self.change(
            f"DELETE FROM t WHERE {gone}",
            f"SELECT * FROM model WHERE NOT coalesce({gone}, false)",
        )

    def update(self) -> None:
        hit = self.condition()
        self.change(
            f"UPDATE t SET a = a + 1, b = concat(b, 'q') WHERE {hit}",
            f"SELECT k, if({hit}, a + 1, a), if({hit}, concat(b, 'q'), b), d, p FROM model",
        )

    def merge(self) -> None:
        self.make_source()
        gone, new, left = self.condition("t."), self.condition("s."), self.condition("t.")
        self.change(
            f"""
            MERGE INTO t USING s ON {self.on()}
            WHEN MATCHED AND {gone} THEN DELETE
            WHEN MATCHED THEN UPDATE SET a = s.a, b = concat(t.b, s.b)
            WHEN NOT MATCHED AND {new} THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND {left} THEN UPDATE SET a = -1
            """,
            f"""
            SELECT t.k, s.a, concat(t.b, s.b), t.d, t.p FROM model t JOIN s ON {self.on()}
            WHERE NOT coalesce({gone}, false)
            UNION ALL SELECT t.k, if({left}, -1, t.a), t.b, t.d, t.p
            FROM model t LEFT ANTI JOIN s ON {self.on()}
            UNION ALL SELECT s.* FROM s LEFT ANTI JOIN model t ON {self.on()} WHERE {new}
            """,
        )

    def overwrite(self) -> None:
        query = self.make_source()
        if not self.partitioned or self.same == "k":
            self.change(f"INSERT OVERWRITE t {query}", "SELECT * FROM s")
            return
        self.run("SET spark.sql.sources.partitionOverwriteMode=dynamic")
        kept = "SELECT t.* FROM model t LEFT ANTI JOIN s ON t.p = s.p"
        self.change("INSERT OVERWRITE t SELECT * FROM s", f"{kept} UNION ALL SELECT * FROM s")
        self.run("RESET spark.sql.sources.partitionOverwriteMode")

    def compact(self) -> None:
        self.run("CALL sys.compact(table => 'default.t')")

    # --- checks ---------------------------------------------------------------------------------

    def check(self) -> None:
        where, joined = self.condition(), self.condition("y.")
        others = (
            f"SELECT k, d FROM {{t}} WHERE {where}",
            f"SELECT p, count(*), max(a), min(b) FROM {{t}} WHERE {where} GROUP BY p",
            f"SELECT x.k, y.a FROM {{t}} x JOIN {{t}} y ON x.k = y.a WHERE {joined}",
        )
        for query in ("SELECT * FROM {t}", self.chance.choice(others)):
            found = self.sql(query.format(t="t"))
            expected = self.spark.sql(query.format(t="model")).collect()
            wanted = [[v if v is None else str(v) for v in row] for row in expected]
            got = [[v if v is None else str(v) for v in row] for row in found]
            told = ";\n".join([*self.done, query])
            assert sorted(map(repr, got)) == sorted(map(repr, wanted)), told


@pytest.mark.sampled(one_of=12)
@pytest.mark.parametrize("kind", KINDS)
def test_random_changes(
    kind: str, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(kind)
    h = History(Sql(tmp_path, session), session, kind, chance)
    changes: list[Callable[[], None]] = [h.insert, h.delete, h.update, h.merge, h.merge]
    changes += [h.overwrite, h.compact]
    h.insert()
    for _ in range(CHANGES):
        # The driver makes small changes, executors large ones.
        monkeypatch.setattr(large_changes, "LARGE_CHANGE", chance.choice([0, 2**40]))
        chance.choice(changes)()
        h.check()
