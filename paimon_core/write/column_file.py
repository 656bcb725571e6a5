"""Writes new values of some columns of a table with data evolution.

Java: `spark/write/DataEvolutionTableDataWrite`.  A file of columns belongs to a group: it has the
row ids of the group, and one value for each of its rows, also for those that stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileSource, ManifestEntry
from paimon_core.options import Options
from paimon_core.types.data_types import TypeRoot, type_roots
from paimon_core.write.blob_writer import check_inline
from paimon_core.write.data_file_writer import RollingAppendWriter
from paimon_core.write.on_failure import aborted_on_failure

NEVER_FULL: Final = 1 << 62
"""A group has one file for its rows, however large it becomes."""


def write_columns(
    table: FileStoreTable,
    group: Sequence[ManifestEntry],
    rows: Iterable[pa.RecordBatch],
    columns: Collection[str],
    *,
    env: Environment,
) -> CommitMessage:
    """Write these columns of `rows`, one row for each of the group.

    Return the message that adds them.  CorruptTable if the group has another number of rows.
    """
    base = group[0]
    schema = table.schema
    options = {k: v for k, v in schema.options.items() if not k.startswith("file-index.")}
    some = replace(
        schema,
        fields=tuple(f for f in schema.fields if f.name in columns),
        options=Options(options),
    )
    writer = RollingAppendWriter(
        table.io,
        table.paths,
        base.partition,
        base.bucket,
        some,
        file_source=FileSource.APPEND,
        env=env,
        target_file_size=NEVER_FULL,
    )
    described = [f.name for f in some.fields if TypeRoot.BLOB in type_roots(f.type)]
    with aborted_on_failure((writer,)):
        for batch in rows:
            for name in described:
                check_inline(batch.column(name), name, schema.options)
            writer.write(batch.select(list(some.names)))
        (file,) = writer.close()
        if file.row_count != base.file.row_count:
            raise CorruptTable(
                f"{file.row_count} values for the {base.file.row_count} rows of a data file",
                table=table.name,
                file=base.file.file_name,
            )
    # Sequence numbers of 0 become those of the commit (`commit.row_tracking`).
    of_group = replace(
        file,
        first_row_id=base.file.first_row_id,
        write_cols=some.names,
        min_sequence_number=0,
        max_sequence_number=0,
    )
    return CommitMessage(
        partition=base.partition,
        bucket=base.bucket,
        total_buckets=base.total_buckets,
        new_files=(of_group,),
    )
