"""`format("paimon")`: what Spark asks for readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from paimon_spark.source.options import SourceOptions

if TYPE_CHECKING:
    from paimon_spark.source.reads.batch_reader import PaimonBatchReader
    from paimon_spark.source.streams.stream_reader import PaimonStreamReader
    from paimon_spark.source.streams.stream_writer import PaimonStreamWriter
    from paimon_spark.source.writes.batch_writer import PaimonBatchWriter


class PaimonDataSource(DataSource):
    """The DataFrame source; its options are in `paimon_spark.source.options`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "paimon"

    def schema(self) -> StructType:
        """The columns of a read.

        Spark asks the same for batches and streams: the columns are the same for both.
        """
        from paimon_spark.source.reads.batch_reader import row_type_of  # noqa: PLC0415 - fast start
        from paimon_spark.source.spark_types import spark_schema  # noqa: PLC0415 - fast start

        return spark_schema(row_type_of(self._options()))

    def reader(self, schema: StructType) -> PaimonBatchReader:
        """Reads a batch."""
        from paimon_spark.source.reads.batch_reader import PaimonBatchReader  # noqa: PLC0415

        return PaimonBatchReader(self._options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> PaimonBatchWriter:  # noqa: FBT001 - Spark's
        """Writes a batch."""
        from paimon_spark.source.writes.batch_writer import PaimonBatchWriter  # noqa: PLC0415

        return PaimonBatchWriter(self._options(), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> PaimonStreamReader:  # noqa: N802 - Spark's name
        """Follows the table."""
        from paimon_spark.source.streams.stream_reader import PaimonStreamReader  # noqa: PLC0415

        return PaimonStreamReader(self._options(), schema)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's
    ) -> PaimonStreamWriter:
        """Writes micro-batches."""
        from paimon_spark.source.streams.stream_writer import PaimonStreamWriter  # noqa: PLC0415

        return PaimonStreamWriter(self._options(), schema, overwrite=overwrite)

    def _options(self) -> SourceOptions:
        return SourceOptions.of(self.options)
