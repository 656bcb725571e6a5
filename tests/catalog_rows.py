"""Commits through a catalog's table handles, for tests that run beside Java clients."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from paimon_core.catalog.catalog import Catalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.schema.table_schema import TableSchema
from paimon_core.write.row_writer import RowWriter

RETRIES = {"commit.max-retries": "1000"}
COLUMNS = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
"""The columns of `schema`, for the oracle's `create_table`."""


def schema(**options: str) -> TableSchema:
    """An append table (id BIGINT, v STRING)."""
    columns = [Column("id", "BIGINT"), Column("v", "STRING")]
    return create_schema(columns, now_millis=1, options=RETRIES | options)


def append(table: FileStoreTable, ids: Iterable[int], text: str = "ours") -> int:
    """Commits one row for each id; the snapshot's id."""
    env = system_environment()
    wanted = list(ids)
    writer = RowWriter(table, env=env)
    writer.write(
        pa.table({"id": pa.array(wanted, pa.int64()), "v": pa.array([text] * len(wanted))})
    )
    (made,) = commit(table, writer.prepare_commit(), user=env.new_uuid(), env=env)
    return made.id


def row_count(catalog: Catalog, name: str) -> int | None:
    """The rows of the newest snapshot; None without one."""
    latest = catalog.get_table(name).snapshots.latest()
    return None if latest is None else latest.total_record_count


def append_one_by_one(catalog: Catalog, name: str, ids: Iterable[int]) -> None:
    """One commit for each id, each through a handle of its own."""
    for i in ids:
        append(catalog.get_table(name), [i])
