"""TPC-H on the tables of `tpch.py` through Paimon's own connector for Spark, beside Spark on Parquet.

    python3.11 -m venv /tmp/spark-3.5; /tmp/spark-3.5/bin/pip install pyspark==3.5.5
    mvn dependency:get -Dartifact=org.apache.paimon:paimon-spark-3.5:0.9.0 -Dtransitive=false
    /tmp/spark-3.5/bin/python benchmarks/tpch_connector.py --folder /tmp/tpch/scale-1 --jar JAR

Runs with the Python of that Spark, on tables that `tpch.py` made.  Each query runs once without being
measured, then once measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tpch import KEYS, _cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> int:
    """0 if all answers are equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="what tpch.py made, for one scale")
    parser.add_argument("--jar", required=True, help="paimon-spark-3.5-0.9.0.jar")
    parser.add_argument("--way", choices=["append", "pk"], default="pk")
    parser.add_argument("--queries", help="their numbers, separated by commas (default: all)")
    parser.add_argument("--master", default="local[2]")
    wanted = parser.parse_args()
    folder = Path(wanted.folder).resolve()
    spark = _session(wanted.master, wanted.jar, folder / wanted.way)
    queries = json.loads((folder / "made" / "queries.json").read_text())
    totals: dict[str, tuple[float, float]] = {}
    wrong = 0
    for number in wanted.queries.split(",") if wanted.queries else queries:
        text = queries[number].rstrip().rstrip(";")
        cells, answers = [], []
        for way in ("parquet", wanted.way):
            _use(spark, folder, parquet=way == "parquet")
            answers.append(_rows(spark, text))
            begun, cpu = time.perf_counter(), _cpu_seconds()
            _rows(spark, text)
            seconds, cpu = time.perf_counter() - begun, _cpu_seconds() - cpu
            cells.append(f"{seconds:.2f} | {cpu:.2f}")
            before = totals.get(way, (0.0, 0.0))
            totals[way] = (before[0] + seconds, before[1] + cpu)
        if answers[0] != answers[1]:
            wrong += 1
            cells.append("WRONG ANSWER")
        print(f"| {number} | {' | '.join(cells)} |", flush=True)
    print("| all | " + " | ".join(f"{s:.2f} | {cpu:.2f}" for s, cpu in totals.values()) + " |")
    return int(wrong > 0)


def _session(master: str, jar: str, warehouse: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the one of this Python

    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", jar)
        .config("spark.sql.catalog.paimon", "org.apache.paimon.spark.SparkCatalog")
        .config("spark.sql.catalog.paimon.warehouse", f"file:{warehouse}")
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _use(spark: SparkSession, folder: Path, *, parquet: bool) -> None:
    """Let the names of the queries mean views of Parquet files, or the tables of Paimon."""
    for name in KEYS:
        if parquet:
            spark.read.parquet(str(folder / "parquet" / name)).createOrReplaceTempView(name)
        else:
            spark.catalog.dropTempView(name)
    spark.sql("USE spark_catalog.default" if parquet else "USE paimon.default")


def _rows(spark: SparkSession, text: str) -> list[str]:
    return sorted(repr(tuple(map(_digits, row))) for row in spark.sql(text).collect())


def _digits(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9g}"
    return value.normalize() if isinstance(value, Decimal) else value


if __name__ == "__main__":
    sys.exit(main())
