"""Takes rows out of files of a primary-key table, which stay at their levels.

Java writes the other rows to level 0 (`DeleteFromPaimonTableCommand`).  There, they would get new
sequence numbers, and readers that skip level 0 (first-row) would not see them until the next
compaction.
"""

from __future__ import annotations

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions, without_deleted
from paimon_core.manifest.data_file import FileSource, ManifestEntry
from paimon_core.read.data_file import read_data_file
from paimon_core.write.data_file_writer import RollingKeyValueWriter
from paimon_core.write.on_failure import write_all


def without_rows(
    table: FileStoreTable, entry: ManifestEntry, gone: Positions, *, env: Environment
) -> CommitMessage:
    """Write the file without the rows at these positions; return the message that replaces it."""
    file = entry.file
    writer = RollingKeyValueWriter(
        table.io,
        table.paths,
        entry.partition,
        entry.bucket,
        table.schema,
        level=file.level,
        file_source=FileSource.APPEND,
        env=env,
    )
    batches = read_data_file(
        table.io,
        table.paths.data_file(entry.partition, entry.bucket, file),
        file,
        file_schema=table.schema_of(file.schema_id),
        read_type=table.schema.row_type,
        key_value=True,
        partition=entry.partition,
    )
    written = write_all(writer, without_deleted(batches, gone))
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        new_files=tuple(written),
        deleted_files=(file,),
    )
