"""The DataFrame source `paimon` (Spark 4's Python Data Source API).

::

    data_source      what Spark asks for readers and writers of format("paimon")
        |
    streams          micro-batches of (start, end] offsets, each written once; joins with tables
    changes          large UPDATE, DELETE and MERGE of SQL: rows with their places
        |
    reads            batch reads: Python tasks, or Spark's own Parquet reader where it can
    writes           files by tasks, one commit by the driver; rows to their bucket's task
        |
    rows             Arrow batches to Spark, and back
    options          the options of format("paimon")
    spark_types      Paimon's types as Spark's
    own_names        columns whatever their case
"""

from paimon_spark.source.data_source import PaimonDataSource
from paimon_spark.source.reads.frames import read
from paimon_spark.source.streams.lookup_join import lookup
from paimon_spark.source.writes.distribution import shuffled, write

__all__ = ["PaimonDataSource", "lookup", "read", "shuffled", "write"]
