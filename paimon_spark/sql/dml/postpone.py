"""Batch writes to tables with bucket = -2, whose rows go to real buckets at once.

Java: `PaimonSparkWriter` under `postpone.batch-write-fixed-bucket` (default true), `PostponeUtils`.
Rows of a partition that has real buckets keep their number; a new partition gets as many as the
query has tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.message import CommitMessage
from paimon_core.commit.overwrite import overwrite as commit_overwrite
from paimon_core.environment import Environment
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import parse_bool
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_core.table.after_commit import AfterCommit
from paimon_core.table.write_session import commit_write, new_writer
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.binary_row import decode_row
from paimon_core.write.incoming_rows import Kinds

_FIXED: Final = "postpone.batch-write-fixed-bucket"
_MOST: Final = "postpone.batch-write-fixed-bucket.max-parallelism"


def writes_to_buckets(table: FileStoreTable) -> bool:
    """Whether a batch write to the table puts rows into real buckets."""
    return table.bucket_mode is BucketMode.POSTPONE and parse_bool(
        table.options.get(_FIXED, "true")
    )


def write_to_buckets(
    table: FileStoreTable,
    rows: pa.Table,
    kinds: Kinds | None,
    *,
    tasks: int,
    env: Environment,
    partition: Mapping[str, object] | None = None,
) -> None:
    """Commit the rows; `partition` makes it an overwrite.  `tasks` are those of the query."""
    user, after = env.new_uuid(), AfterCommit(table, env=env, of_engine=True)
    buckets = max(1, min(tasks, int(table.options.get(_MOST, "2048"))))
    messages: list[CommitMessage] = []
    for number, places in _by_buckets(table, rows, buckets).items():
        options = {"bucket": str(number), "write-only": "true"}
        fixed = replace(table, schema=table.schema.with_options(options))
        writer = new_writer(fixed, env=env, user=user, overwrite=partition is not None)
        writer.write(rows.take(pa.array(places)), None if kinds is None else kinds[places])
        messages += writer.prepare_commit()
    if partition is None:
        commit_write(table, messages, env=env, user=user, after=after)
    else:
        commit_overwrite(table, messages, user=user, env=env, partition=partition)
        after.run(user=user, identifier=BATCH_COMMIT_IDENTIFIER, messages=messages)


def _by_buckets(
    table: FileStoreTable, rows: pa.Table, default: int
) -> Mapping[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Number of buckets -> the positions of the rows in partitions with this number."""
    keys = list(table.schema.partition_keys)
    known = _known(table)
    if not keys:
        return {known.get((), default): np.arange(rows.num_rows, dtype=np.int64)}
    found: dict[int, list[int]] = defaultdict(list)
    columns = [
        rows.column(k).to_pylist() if k in rows.schema.names else [None] * rows.num_rows
        for k in keys
    ]
    for place, values in enumerate(zip(*columns, strict=True)):
        found[known.get(values, default)].append(place)
    return {number: np.array(places, np.int64) for number, places in found.items()}


def _known(table: FileStoreTable) -> dict[tuple[Any, ...], int]:
    """The number of buckets of each partition that has real ones."""
    latest = table.snapshots.latest()
    if latest is None:
        return {}
    fields = table.schema.partition_type.fields
    types = table.schema.partition_type.types
    numbers = {e.partition: e.total_buckets for e in scan_files(table, latest) if e.bucket >= 0}
    found: dict[tuple[Any, ...], int] = {}
    for partition, number in numbers.items():
        values = decode_row(partition, types)
        arrays = [
            column_from_internal([v], f.type.with_nullable(True))
            for v, f in zip(values, fields, strict=True)
        ]
        found[tuple(a.to_pylist()[0] for a in arrays)] = number
    return found
