"""A client of Spark Connect, with a server of its own: python connect_client.py FOLDER.

Reads, writes and streams the tables of the folder, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

NO_SERVER = 77
"""The exit code if the server does not start."""


def main(folder: Path) -> int:
    """0, or NO_SERVER."""
    from pyspark.sql import SparkSession

    import paimon_spark
    from paimon_spark.source import lookup, read, shuffled, write
    from paimon_spark.sql.run import sql

    try:
        builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        client = type(spark).__module__
    except Exception as e:  # noqa: BLE001 - whatever the server lacks here
        print(e)
        return NO_SERVER
    paimon_spark.register(spark)
    log, keyed = str(folder / "db.db" / "log"), str(folder / "db.db" / "keyed")
    rows = spark.createDataFrame([(i, f"v{i}") for i in range(20)], "k INT, v STRING")
    rows.write.format("paimon").mode("append").save(log)
    write(rows.where("k < 5"), path=keyed)

    query = (
        shuffled(spark.readStream.format("paimon").load(log), {"path": keyed})
        .writeStream.format("paimon")
        .option("write.shuffled", "true")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(keyed)
    )
    query.awaitTermination()
    frame = spark.read.format("paimon").load(keyed)
    found = lookup(on={"k": "k"}, columns=["v"], path=keyed)
    asked = spark.createDataFrame([(7,), (99,)], "k INT")
    asked_first = sql(spark, "SELECT count(*) AS n FROM db.log WHERE k > 4", warehouse=str(folder))
    asked.createOrReplaceTempView("keyed")
    asked_view = sql(spark, "USE db; SELECT count(*) AS n FROM keyed", warehouse=str(folder))
    asked_next = sql(
        spark, "SELECT count(*) AS n FROM db.keyed WHERE k > 17", warehouse=str(folder)
    )
    seen = {
        "client": client,
        "counted": [frame.collect()[0].n for frame in (asked_first, asked_next, asked_view)],
        "rows": sorted([r.k, r.v] for r in frame.collect()),
        "filtered": frame.where("k >= 10 AND v <> 'v12'").count(),
        "read": read(spark, columns=["k"], path=keyed).count(),
        "snapshots": read(spark, path=f"{keyed}$snapshots").count(),
        "looked up": sorted([r.k, r.v] for r in found.join(asked).collect()),
    }
    print(json.dumps(seen))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
