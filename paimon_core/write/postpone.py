"""The postpone bucket: rows of a bucket=-2 table that have no real bucket yet.

Java: `postpone/PostponeBucketFileStoreWrite`.

::

    bucket-postpone/data--u-USER-s-WRITER-w-UUID-n.avro    rows in arrival order, unsorted,
    unnumbered

Readers do not see them.  Compaction replays them, oldest file first, into the buckets of their
partition (`compaction.postpone`).  All files of one writer carry its number, so that one task can
replay them.
"""

from __future__ import annotations

from typing import Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.schema import file_schema
from paimon_core.options import DATA_FILE_PREFIX, FILE_FORMAT, STATS_MODE
from paimon_core.schema.table_schema import TableSchema

MOST_WRITER_ID: Final = 2**31 - 1


def postpone_schema(schema: TableSchema, *, user: str, writer_id: int) -> TableSchema:
    """Return the schema with the options for postpone files.

    The format is Avro without statistics, whatever the table's format; the table's own format if
    Avro cannot hold a column.
    """
    prefix = f"{schema.options.value(DATA_FILE_PREFIX)}-u-{user}-s-{writer_id}-w-"
    options: dict[str, str | None] = {DATA_FILE_PREFIX.key: prefix}
    try:
        file_schema(schema.row_type)
    except UnsupportedFeature:
        return schema.with_options(options)
    return schema.with_options({**options, FILE_FORMAT.key: "avro", STATS_MODE.key: "none"})
