"""A Spark session that knows `format("paimon")`: one a file, in an application that files share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from paimon_maintenance.engines.spark.engine import SparkEngine

_shared: list[SparkEngine] = []
"""The engine of the files that ran last, whose Python workers the next file uses again."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    import paimon_spark

    if not _shared:
        conf = {
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.session.timeZone": "UTC",
            # A few rows do not earn back what it costs to compile a plan.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
        _shared.append(SparkEngine(master="local[2]", conf=conf))
    spark = _shared[0].session().newSession()
    paimon_spark.register(spark)
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """Ends the application before tests that start another one, in which these would join it."""
    yield
    if nextitem is None or "session" not in getattr(nextitem, "fixturenames", ()):
        while _shared:
            _shared.pop().close()
