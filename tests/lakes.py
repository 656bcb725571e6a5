"""Small tables for tests, made and written by Caretaker itself.

lake = Lake(tmp_path)
lake.primary_key("db.t", buckets=2)
lake.append("db.t", {"k": [1, 2], "v": ["a", "b"]})
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter

ENV = system_environment()
TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}


class Lake:
    """A warehouse; tables have columns k INT, v STRING and, if partitioned, dt STRING."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self._catalog = FileSystemCatalog(str(warehouse))

    def create(
        self,
        name: str = "db.t",
        *,
        primary_key: bool = True,
        partitioned: bool = False,
        options: Mapping[str, str],
    ) -> None:
        self._catalog.create_database(name.split(".", maxsplit=1)[0], if_not_exists=True)
        columns = [Column("k", "INT NOT NULL"), Column("v", "STRING")]
        if partitioned:
            columns.append(Column("dt", "STRING NOT NULL"))
        keys = ["k", "dt"] if partitioned else ["k"]
        schema = create_schema(
            columns,
            now_millis=ENV.now_millis(),
            partition_keys=["dt"] if partitioned else [],
            primary_keys=keys if primary_key else [],
            options=options,
        )
        self._catalog.create_table(name, schema)

    def primary_key(
        self, name: str = "db.t", *, buckets: int = 1, partitioned: bool = False, **options: str
    ) -> None:
        told = {"bucket": str(buckets), "write-only": "true", **_dashed(options)}
        self.create(name, partitioned=partitioned, options=told)

    def log(self, name: str = "db.t", *, partitioned: bool = False, **options: str) -> None:
        """An append table with bucket=-1."""
        told = {"bucket": "-1", "write-only": "true", **_dashed(options)}
        self.create(name, primary_key=False, partitioned=partitioned, options=told)

    def from_the_future(self, name: str) -> None:
        """A table that no version of ours knows: its merge engine is not invented yet."""
        self.primary_key(name)
        self.change_options(name, "merge-engine", "telepathy")

    def change_options(self, name: str, key: str, value: str) -> None:
        """Give the table an option in its schema's file, whatever we think of it."""
        schema = Path(self.table(name).root) / "schema" / "schema-0"
        told = f'"{key}" : "{value}",'
        schema.write_text(schema.read_text().replace('"options" : {', f'"options" : {{ {told}', 1))

    def table(self, name: str = "db.t", **options: str) -> FileStoreTable:
        return open_table(str(self.warehouse), name, dynamic_options=_dashed(options))

    def append(self, rows: Mapping[str, Sequence[Any]], name: str = "db.t") -> None:
        """One commit of these rows."""
        table = self.table(name)
        writer = RowWriter(table, env=ENV)
        writer.write(
            pa.table(
                {k: pa.array(v, pa.int32() if k == "k" else pa.string()) for k, v in rows.items()}
            )
        )
        commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)

    def fill(self, commits: int = 3, *, rows: int = 10, name: str = "db.t") -> None:
        """Some commits of the same keys, each with new values, to two days if partitioned."""
        partitioned = bool(self.table(name).schema.partition_keys)
        numbers = itertools.count()
        for _ in range(commits):
            data: dict[str, list[Any]] = {
                "k": list(range(rows)),
                "v": [f"v{next(numbers)}" for _ in range(rows)],
            }
            if partitioned:
                data["dt"] = [f"day{i % 2}" for i in range(rows)]
            self.append(data, name)

    def referenced(self, name: str = "db.t") -> set[str]:
        """Names of the data files that any snapshot needs."""
        table = self.table(name)
        return {e.file.file_name for s in table.snapshots.all() for e in scan_files(table, s)}

    def on_disk(self, name: str = "db.t") -> set[str]:
        """Names of the data files that there are."""
        return {p.name for p in Path(self.table(name).root).rglob("bucket-*/*")}


def _dashed(options: Mapping[str, str]) -> dict[str, str]:
    """`target__file__size` means target-file-size, and one underscore a dot."""
    return {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}


def append_to_branch(lake: Lake, branch: str) -> None:
    """One commit of ten rows to a branch of db.t that has the columns k and v."""
    table = open_table(str(lake.warehouse), "db.t", branch=branch)
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array(range(10), pa.int32()), "v": ["branch"] * 10}))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def age_all(folder: Path) -> None:
    """Make all files below the folder look old, so that jobs that decide by age see them."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
