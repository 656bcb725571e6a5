"""Paimon tables in PySpark 4, without a jar.

::

    import paimon_spark

    paimon_spark.register(spark)
    spark.read.format("paimon").load("WAREHOUSE/db.db/t")

`source` is the DataFrame source `paimon`, `sql` plans SQL on Paimon tables, `metadata_columns` and
`write_options` are for both and need no Spark.  This package knows no jobs: `CALL` reaches them
through the protocol `paimon_spark.sql.procedures.Procedures`, which `paimon_maintenance`
implements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("paimon")` known to the session, which becomes the active one.

    A second time is no error.
    """
    from paimon_spark.source.data_source import PaimonDataSource  # noqa: PLC0415 - imports PySpark

    if hasattr(spark, "_jsparkSession"):
        # Spark looks names up in the active session, whichever session registers, reads or writes.
        spark.createDataFrame([], "i INT")  # makes this one active
    spark.dataSource.register(PaimonDataSource)
