"""SQL sessions for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paimon_maintenance.cli.sql.call import JobProcedures
from paimon_spark.sql.run import execute
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.text.splitter import split_statements


class Sql:
    """Runs statements in one session; without `spark`, none may need it.

    The options of a `catalog` are used in place of the warehouse.
    """

    def __init__(
        self, warehouse: Path, spark: Any = None, *, catalog: Mapping[str, str] | None = None
    ) -> None:
        self.session = SqlSession(
            warehouse=str(warehouse) if catalog is None else "catalog:paimon",
            start_spark=lambda: spark or _no_spark(),
            procedures=JobProcedures(),
            defined={} if catalog is None else {"paimon": catalog},
            storage=catalog or {},
        )

    def __call__(self, text: str) -> list[list[Any]]:
        """The rows of the last statement."""
        rows: list[list[Any]] = []
        for statement in split_statements(text):
            rows = [list(row) for row in execute(self.session, statement).rows]
        return rows

    def columns(self, statement: str) -> list[str]:
        return list(execute(self.session, statement).columns)


def _no_spark() -> Any:
    raise AssertionError("this statement needs no Spark")
