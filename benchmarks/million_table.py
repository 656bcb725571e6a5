"""Makes the metadata of a table: up to a million files, 100,000 partitions, 10,000 snapshots.

A day has 100 partitions (one for each shop) of ten live files, and ten commits: nine append files,
the tenth is a compaction.  It rewrites all files of its day, or, for the share `due` of the days,
only two of each partition, so that these buckets have enough sorted runs for the next compaction.
So a million files take 1,000 days, 100,000 partitions and 10,000 snapshots; 10,000 files take 10
days, 1,000 partitions and 100 snapshots.

Manifests and lists come from the library's own encoders.  As commits do, the generator merges
manifests: 30 new ones into one, and 20 of these into a large one.

Data files are absent by default, because planning never opens them.  `--data sparse` makes them
with their size but without content, for jobs that list them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.avro.schema import file_schema
from paimon_core.manifest.avro_codec import RecordWriter
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_core.manifest.entries.encoding import encode_entry
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.manifest_list import write_manifest_list
from paimon_core.manifest.partition_stats import partition_stats
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.table.open import open_table
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type

TABLE: Final = "db.t"
SHOPS: Final = 100
COMMITS: Final = 10
FILES: Final = 10
FILES_OF_A_DAY: Final = SHOPS * FILES
COLUMNS: Final = {
    "id": "BIGINT NOT NULL",
    "dt": "STRING NOT NULL",
    "shop": "INT NOT NULL",
    **{f"n{i}": "BIGINT" for i in range(4)},
    **{f"s{i}": "STRING" for i in range(3)},
}
KEY: Final = (parse_type("BIGINT NOT NULL"),)
VALUES: Final = tuple(parse_type(t) for t in COLUMNS.values())
PARTITION: Final = (VALUES[1], VALUES[2])
FIRST_FIELD: Final = 12
"""The position of the first field in a stored row of fewer than 57 fields."""
DAY_MILLIS: Final = 86_400_000
SMALL, LARGE = 1 << 20, 1 << 28
MIDDLE_COMMITS, LARGE_COMMITS = 30, 600
_DELETE: Final = b"\x02"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of live files, the share of days with buckets to compact, and the data files."""

    files: int
    due: float = 0.1
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """An encoded entry (ADD), whether it is deleted, and its partition."""

    data: bytes
    deletes: bool
    partition: bytes
    level: int

    def encoded(self) -> bytes:
        """The entry: a deletion differs only in the kind, the second byte."""
        return self.data[:1] + _DELETE + self.data[2:] if self.deletes else self.data


def make(warehouse: str, size: Size) -> FileStoreTable:
    """The table with its whole history."""
    catalog = FileSystemCatalog(warehouse)
    catalog.create_database("db", if_not_exists=True)
    schema = create_schema(
        [Column(name, sql) for name, sql in COLUMNS.items()],
        now_millis=0,
        partition_keys=["dt", "shop"],
        primary_keys=["id", "dt", "shop"],
        options={"bucket": "1", "write-only": "true"},
    )
    catalog.create_table(TABLE, schema)
    table = open_table(warehouse, TABLE)
    for folder in (table.paths.snapshot_dir, table.paths.manifest_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    _Writer(table, size).write()
    return open_table(warehouse, TABLE)


class _Writer:
    def __init__(self, table: FileStoreTable, size: Size) -> None:
        self.table = table
        self.size = size
        self.days = max(1, size.files // FILES_OF_A_DAY)
        self.random = np.random.default_rng(7)
        self.now = int(time.time() * 1000)
        self.number = 0
        self.rows = 0
        self.id = 0

    def write(self) -> None:
        """Write all commits, oldest first; merge the base manifests as commits do."""
        large: list[ManifestFileMeta] = []
        middle: list[tuple[ManifestFileMeta, list[Change]]] = []
        small: list[tuple[ManifestFileMeta, list[Change]]] = []
        for changes in self.commits():
            base = [*large, *(m for m, _ in middle), *(m for m, _ in small)]
            delta = self.manifest(changes)
            self.snapshot(base, delta, compact=any(c.deletes for c in changes))
            small.append((delta, changes))
            if len(small) == MIDDLE_COMMITS:
                merged = _merged(c for _, found in small for c in found)
                middle.append((self.manifest(merged), merged))
                small = []
            if len(middle) == LARGE_COMMITS // MIDDLE_COMMITS:
                large.append(self.manifest(_merged(c for _, found in middle for c in found)))
                middle = []

    def commits(self) -> Iterator[list[Change]]:
        every = round(1 / self.size.due) if self.size.due else 0
        for day in range(self.days):
            found = self.day(day, is_due=bool(every) and day % every == every - 1)
            yield from found

    def day(self, day: int, *, is_due: bool) -> list[list[Change]]:
        """The commits of a day."""
        then = self.now - (self.days - day) * DAY_MILLIS
        text = dt.datetime.fromtimestamp(then / 1000, dt.UTC).strftime("%Y-%m-%d")
        commits: list[list[Change]] = [[] for _ in range(COMMITS)]
        for shop in range(SHOPS):
            partition = encode_row([text, shop], PARTITION)
            template = encode_row([0, text, shop, 1, 2, 3, None, "aaaaaaaaaaaa", "b", None], VALUES)
            add = self.adder(partition, template, then)
            appended = [add(0, i) for i in range(FILES)]
            commits[0] += appended[:2]
            for number in range(1, COMMITS - 1):
                commits[number].append(appended[number + 1])
            gone = appended[:2] if is_due else appended
            commits[-1] += [Change(c.data, True, c.partition, c.level) for c in gone]
            commits[-1] += [add(5, i) for i in range(len(gone))]
        return commits

    def adder(self, partition: bytes, values: bytes, then: int) -> Callable[[int, int], Change]:
        """Return a function that makes a file at a level of the partition; `place` orders keys."""
        key = encode_row([0], KEY)
        table, sparse = self.table, self.size.sparse

        def add(level: int, place: int) -> Change:
            self.number += 1
            low = place * 1000 if level else 0
            high = low + 999 if level else 9999
            size = LARGE if level else SMALL + self.number % 1000
            file = DataFileMeta(
                file_name=f"data-{uuid.UUID(bytes=self.random.bytes(16))}-0.parquet",
                file_size=size,
                row_count=1000,
                min_key=_with(key, low),
                max_key=_with(key, high),
                key_stats=SimpleStats(_with(key, low), _with(key, high), (0,)),
                value_stats=SimpleStats(_with(values, low), _with(values, high), (0,) * 10),
                min_sequence_number=self.number * 1000,
                max_sequence_number=self.number * 1000 + 999,
                level=level,
                creation_time=then + place * 1000,
                delete_row_count=0,
                file_source=FileSource.COMPACT if level else FileSource.APPEND,
            )
            if sparse:
                _sparse_file(table.paths.data_file(partition, 0, file), size)
            entry = ManifestEntry(FileKind.ADD, partition, 0, 1, file)
            return Change(encode_entry(entry), False, partition, level)

        return add

    def manifest(self, changes: list[Change]) -> ManifestFileMeta:
        writer = RecordWriter(_SCHEMA, codec="zstandard", level=1)
        for change in changes:
            writer.add(change.encoded())
        content = writer.finish()
        name = f"manifest-{uuid.UUID(bytes=self.random.bytes(16))}-0"
        Path(self.table.paths.manifest(name)).write_bytes(content)
        deleted = sum(c.deletes for c in changes)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(content),
            num_added_files=len(changes) - deleted,
            num_deleted_files=deleted,
            partition_stats=partition_stats(
                (c.partition for c in changes), self.table.schema.partition_type
            ),
            schema_id=0,
            min_bucket=0,
            max_bucket=0,
            min_level=min(c.level for c in changes),
            max_level=max(c.level for c in changes),
        )

    def snapshot(
        self, base: list[ManifestFileMeta], delta: ManifestFileMeta, *, compact: bool
    ) -> None:
        self.id += 1
        commits = self.days * COMMITS
        rows = (delta.num_added_files - delta.num_deleted_files) * 1000
        self.rows += rows
        base_name, base_size = self.list(base)
        delta_name, delta_size = self.list([delta])
        snapshot = Snapshot(
            id=self.id,
            schema_id=0,
            base_manifest_list=base_name,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_name,
            delta_manifest_list_size=delta_size,
            commit_user="benchmark",
            commit_identifier=self.id,
            commit_kind=CommitKind.COMPACT if compact else CommitKind.APPEND,
            time_millis=self.now - (commits - self.id) * (DAY_MILLIS // COMMITS),
            total_record_count=self.rows,
            delta_record_count=rows,
        )
        path = Path(self.table.paths.snapshot(self.id))
        path.write_text(snapshot_to_json(snapshot))
        if self.id == 1:
            (path.parent / "EARLIEST").write_text("1")
        if self.id == commits:
            (path.parent / "LATEST").write_text(str(self.id))

    def list(self, manifests: list[ManifestFileMeta]) -> tuple[str, int]:
        table = self.table
        return write_manifest_list(
            table.io,
            table.paths,
            manifests,
            options=table.options,
            new_uuid=lambda: str(uuid.UUID(bytes=self.random.bytes(16))),
        )


_SCHEMA: Final = file_schema(MANIFEST_ENTRY)


def _with(row: bytes, value: int) -> bytes:
    return row[:FIRST_FIELD] + struct.pack("<q", value) + row[FIRST_FIELD + 8 :]


def _merged(changes: Iterator[Change]) -> list[Change]:
    """The changes without pairs of ADD and DELETE; the encoded ADD is the identity."""
    left: dict[bytes, Change] = {}
    for change in changes:
        if change.deletes and change.data in left:
            del left[change.data]
        else:
            left[change.data] = change
    return list(left.values())


def _sparse_file(path: str, size: int) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.ftruncate(descriptor, size)
    os.close(descriptor)


def main() -> int:
    """Make the table in a new warehouse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("warehouse")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--due", type=float, default=0.1)
    parser.add_argument("--data", choices=("none", "sparse"), default="none")
    wanted = parser.parse_args()
    started = time.perf_counter()
    size = Size(files=wanted.files, due=wanted.due, sparse=wanted.data == "sparse")
    latest = make(wanted.warehouse, size).latest_or_not_found()
    print(f"snapshot {latest.id}, {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
