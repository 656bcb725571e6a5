"""A Spark session that knows `format("paimon")`; one a file, in the JVM that all files share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paimon_maintenance.engines.spark.engine import SparkEngine


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    import paimon_spark

    conf = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        # A few rows do not earn back what it costs to compile a plan.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    engine = SparkEngine(master="local[2]", conf=conf)
    spark = engine.session()
    paimon_spark.register(spark)
    yield spark
    engine.close()
