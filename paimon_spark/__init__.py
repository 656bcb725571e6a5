"""Paimon tables in PySpark 4, without a jar.

::

    import paimon_spark

    paimon_spark.register(spark)
    spark.read.format("paimon").load("WAREHOUSE/db.db/t")

`source` is the DataFrame source `paimon`, `sql` plans SQL on Paimon tables, `placed_rows` and
`metadata_columns` are for both and need no Spark.  This package knows no
jobs: `CALL` reaches them through the protocol `paimon_spark.sql.procedures.Procedures`, which
`paimon_maintenance` implements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("paimon")` known to the session; a second time is no error."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - imports PySpark

    from paimon_spark.source.data_source import PaimonDataSource  # noqa: PLC0415 - imports PySpark

    try:
        spark.dataSource.register(PaimonDataSource)
    except AnalysisException as e:
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark looks for the name in the active session, which is another one.
        spark.createDataFrame([], "i INT")  # makes this one the active one
        spark.dataSource.register(PaimonDataSource)
