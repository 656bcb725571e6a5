"""A Spark stream from one table to another, as a driver of its own: python stream_driver.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Copy what `db.source` has, a file a micro-batch, and end."""
    from pyspark.sql import SparkSession

    import paimon_spark

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    paimon_spark.register(spark)
    tables = folder / "lake" / "db.db"
    rows = (
        spark.readStream.format("paimon")
        .options(**{"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
        .option("read.stream.maxFilesPerTrigger", "1")
        .load(str(tables / "source"))
    )
    query = (
        rows.writeStream.format("paimon")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tables / "sink"))
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
