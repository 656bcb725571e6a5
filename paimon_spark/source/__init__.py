"""The DataFrame source `paimon` (Spark 4's Python Data Source API).

::

    data_source --+-- batch_reader ---- rows           Arrow batches to Spark, and back
                  +-- batch_writer ---- task_writer     files by tasks, one commit by the driver
                  |               `---- write_jobs      the same without Spark's writer processes
                  +-- stream_reader                     micro-batches of (start, end] offsets
                  `-- stream_writer                     one commit a micro-batch, exactly once

    options        the options of format("paimon")      spark_types   Paimon's types as Spark's
    own_names      columns whatever their case
    schema_merge   write.merge-schema                   distribution  rows to their bucket's task

    reading ---- parquet_files                          batches that Spark's Parquet reader reads
    lookup_join -- lookup_cache                          a table by key, for streams

    row_changes --+-- placed_frames                     large UPDATE, DELETE and MERGE of SQL
    patches ------+-- places
"""

from paimon_spark.source.data_source import PaimonDataSource
from paimon_spark.source.distribution import shuffled, write
from paimon_spark.source.lookup_join import lookup
from paimon_spark.source.reading import read

__all__ = ["PaimonDataSource", "lookup", "read", "shuffled", "write"]
