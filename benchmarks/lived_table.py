"""Tables with a long life behind them, made of metadata by our own commits; data files are stubs.

A commit appends some files to a day and bucket; every `compact_every` commits a compaction
replaces what the last ones appended by one file.  That is what expiry, the orphan job and
partition expiry see of a table: they never look into data files.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table, open_table_at
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type

TABLE = "db.t"
CONTENT = b"not really a data file\n"
KEY = (parse_type("BIGINT NOT NULL"),)
DAY = (parse_type("STRING"),)
VALUES = tuple(parse_type(t) for t in ("BIGINT", "BIGINT", "STRING", "STRING"))


class Hasty(LocalFileIO):
    """Local files without waiting for the disk."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        self.overwrite(path, data)
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        target = Path(path)
        try:
            target.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What happened to a table."""

    snapshots: int
    files_a_commit: int = 1
    days: int = 1
    days_a_commit: int = 1
    compact_every: int = 10
    """0: never."""
    data_files: bool = True
    """Whether there are stubs for the data files; planning needs none."""


def live(warehouse: Path, life: Life) -> FileStoreTable:
    """The table, with that life behind it."""
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db", if_not_exists=True)
    columns = [
        Column("id", "BIGINT NOT NULL"),
        Column("dt", "STRING NOT NULL"),
        Column("n", "BIGINT"),
        Column("s", "STRING"),
    ]
    env = system_environment()
    schema = create_schema(
        columns,
        now_millis=env.now_millis(),
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        # Manifests of 1 MB: with 8 MB most of the time would go into merging them.
        options={"bucket": "1", "write-only": "true", "manifest.target-file-size": "1 mb"},
    )
    catalog.create_table(TABLE, schema)
    root = open_table(str(warehouse), TABLE).root
    table = open_table_at(Hasty(), root, TABLE)
    for kind, entries in itertools.islice(_commits(table, life), life.snapshots):
        changes = ManifestChanges(tuple(entries))
        commit_changes(
            table,
            lambda _, changes=changes: changes,  # type: ignore[misc]  # bound at once
            CommitRequest(user=env.new_uuid(), kind=kind, check=False),
            env=env,
        )
    return open_table(str(warehouse), TABLE)


def _commits(table: FileStoreTable, life: Life) -> Iterator[tuple[CommitKind, list[ManifestEntry]]]:
    days = [encode_row((_day(i),), DAY) for i in range(life.days)]
    recent: dict[bytes, list[ManifestEntry]] = {}
    turn = itertools.cycle(range(life.days))
    for number in itertools.count(1):
        if life.compact_every and number % life.compact_every == 0:
            entries = [e.as_delete() for found in recent.values() for e in found]
            entries += [_add(table, life, day, 5) for day in recent]
            recent = {}
            yield CommitKind.COMPACT, entries
            continue
        entries = []
        for day in itertools.islice(turn, life.days_a_commit):
            made = [_add(table, life, days[day], 0) for _ in range(life.files_a_commit)]
            recent.setdefault(days[day], []).extend(made)
            entries += made
        yield CommitKind.APPEND, entries


def _day(number: int) -> str:
    return f"{2000 + number // 336:04}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"


_numbers = itertools.count()


def _add(table: FileStoreTable, life: Life, day: bytes, level: int) -> ManifestEntry:
    n = next(_numbers)
    low, high = encode_row((n,), KEY), encode_row((n + 9,), KEY)
    values = SimpleStats(
        encode_row((n, n, "2000-01-01", f"s{n}"), VALUES),
        encode_row((n + 9, n + 9, "2000-01-01", f"t{n}"), VALUES),
        (0, 0, 0, 3),
    )
    file = DataFileMeta(
        file_name=f"data-{os.urandom(16).hex()}-{n}.parquet",
        file_size=len(CONTENT),
        row_count=10,
        min_key=low,
        max_key=high,
        key_stats=SimpleStats(low, high, (0,)),
        value_stats=values,
        min_sequence_number=n * 10,
        max_sequence_number=n * 10 + 9,
        level=level,
        creation_time=1_700_000_000_000 + n,
        delete_row_count=0,
        file_source=FileSource.COMPACT if level else FileSource.APPEND,
    )
    if life.data_files:
        path = Path(table.paths.data_file(day, 0, file))
        try:
            path.write_bytes(CONTENT)
        except FileNotFoundError:
            path.parent.mkdir(parents=True)
            path.write_bytes(CONTENT)
    return ManifestEntry(FileKind.ADD, day, 0, 1, file)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    made = live(Path(request["warehouse"]), Life(**request["life"])).latest_or_not_found()
    print(json.dumps({"snapshots": made.id, "rows": made.total_record_count}))
