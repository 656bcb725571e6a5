"""Planning a read of a table with many files: seconds and CPU seconds from name to files.

    python benchmarks/scan_plan.py                         10,000 files in 100 manifests
    python benchmarks/scan_plan.py --files 100000 --manifests 1000

All plans run in one process, and each opens the table again: only the operating system caches
files.  Target: 10,000 files in 100 manifests in one second.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_core.manifest.manifest_file import write_manifests
from paimon_core.manifest.manifest_list import write_manifest_list
from paimon_core.predicate import Predicate, parse_where
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.table.open import open_table
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type

TARGET_SECONDS = 1.0
TARGET_FILES = 10_000
DAYS = 100
COLUMNS = {
    "id": "BIGINT NOT NULL",
    "dt": "STRING NOT NULL",
    **{f"n{i}": "BIGINT" for i in range(4)},
    **{f"s{i}": "STRING" for i in range(4)},
}
KEY = (parse_type("BIGINT NOT NULL"),)
VALUES = tuple(parse_type(t) for t in COLUMNS.values())


def main() -> int:
    """0 if the whole table is planned as fast as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=TARGET_FILES)
    parser.add_argument("--manifests", type=int, default=100)
    parser.add_argument("--times", type=int, default=3)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as warehouse:
        size = _make(warehouse, wanted.files, wanted.manifests)
        print(f"{wanted.files} files in {wanted.manifests} manifests, {size / 1e6:.1f} MB")
        row_type = open_table(warehouse, "db.t").schema.row_type
        seconds = _least("everything", warehouse, None, wanted.times)
        for condition in ("dt = 'day007'", "id = 123456", "n1 > 1000000", "s1 = 'x' AND id < 5000"):
            _least(condition, warehouse, parse_where(condition, row_type), wanted.times)
    target = TARGET_SECONDS * wanted.files / TARGET_FILES
    print(f"target {target:.2f} s: {'reached' if seconds <= target else 'MISSED'}")
    return int(seconds > target)


def _least(what: str, warehouse: str, predicate: Predicate | None, times: int) -> float:
    best, best_cpu, found = float("inf"), float("inf"), 0
    for _ in range(times):
        started, cpu = time.perf_counter(), time.process_time()
        table = open_table(warehouse, "db.t")
        found = len(scan_files(table, table.latest_or_not_found(), predicate=predicate))
        best = min(best, time.perf_counter() - started)
        best_cpu = min(best_cpu, time.process_time() - cpu)
    print(f"{what:26} {best:5.2f} s  {best_cpu:5.2f} CPU s  {found} files")
    return best


def _make(warehouse: str, files: int, manifests: int) -> int:
    """Write the metadata of a table without its data; how many bytes."""
    catalog = FileSystemCatalog(warehouse)
    catalog.create_database("db", if_not_exists=True)
    schema = create_schema(
        [Column(name, sql) for name, sql in COLUMNS.items()],
        now_millis=0,
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options={"bucket": "16"},
    )
    catalog.create_table("db.t", schema)
    table = open_table(warehouse, "db.t")
    chance = random.Random(7)
    each = -(-files // manifests)
    metas = []
    for start in range(0, files, each):
        part = [_entry(chance, i, files) for i in range(start, min(start + each, files))]
        metas += write_manifests(
            table.io,
            table.paths,
            part,
            options=table.options,
            partition_type=table.schema.partition_type,
            new_uuid=_uuid,
        )
    base, base_size = _list(table, metas)
    delta, delta_size = _list(table, [])
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        commit_user="benchmark",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=0,
    )
    table.snapshots.try_commit(snapshot)
    return sum(m.file_size for m in metas)


def _list(table: FileStoreTable, metas: list[ManifestFileMeta]) -> tuple[str, int]:
    return write_manifest_list(table.io, table.paths, metas, options=table.options, new_uuid=_uuid)


def _entry(chance: random.Random, number: int, files: int) -> ManifestEntry:
    """A file of one bucket of one day; files of a day stand in few manifests."""
    low = number * 1000
    key, last = encode_row([low], KEY), encode_row([low + 999], KEY)
    day = f"day{number * DAYS // files:03}"
    text = f"{chance.randrange(2**60):x}"
    least = encode_row([low, day, 1, 2, 3, None, text, text, "short", None], VALUES)
    most = encode_row([low + 999, day, 1000, 2000, 3000, None, text, text, "short", None], VALUES)
    return ManifestEntry(
        FileKind.ADD,
        encode_row([day], (VALUES[1],)),
        number % 16,
        16,
        DataFileMeta(
            file_name=f"data-{uuid.UUID(int=chance.getrandbits(128))}-0.parquet",
            file_size=chance.randrange(2**28),
            row_count=1000,
            min_key=key,
            max_key=last,
            key_stats=SimpleStats(key, last, (0,)),
            value_stats=SimpleStats(least, most, (0,) * len(VALUES)),
            min_sequence_number=low,
            max_sequence_number=low + 999,
            level=5,
            creation_time=1_700_000_000_000 + number,
            delete_row_count=0,
            file_source=FileSource.COMPACT,
        ),
    )


def _uuid() -> str:
    return str(uuid.uuid4())


if __name__ == "__main__":
    sys.exit(main())
