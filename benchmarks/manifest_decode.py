"""Manifests of many entries: CPU seconds to write, read, read in part, and with fastavro alone.

    python benchmarks/manifest_decode.py                  10,000 entries
    python benchmarks/manifest_decode.py --entries 100000 the size of a plan's worst case

Entries have what those of a primary-key table have: names with UUIDs, keys of one BIGINT,
statistics over ten columns, half of them in `_VALUE_STATS_COLS`.  To reach: 100,000 entries read in
3 s.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from paimon_core.format.avro.container import Container
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.avro_codec import read_records
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.options import Options
from paimon_core.paths import TablePaths
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

T = TypeVar("T")
TARGET = (100_000, 3.0)
PARTITIONS = RowType(fields=(DataField(id=0, name="dt", type=parse_type("STRING")),))
KEY = (parse_type("BIGINT NOT NULL"),)
VALUES = (parse_type("BIGINT"),) * 5 + (parse_type("STRING"),) * 5


def main() -> int:
    """0 if reading is as fast as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    count = parser.parse_args().entries
    chance = random.Random(7)
    entries = [_entry(chance, i) for i in range(count)]
    io = LocalFileIO()
    with tempfile.TemporaryDirectory() as folder:
        paths = TablePaths(root=folder)
        options = Options()
        metas, _ = _timed(
            "written",
            count,
            lambda: write_manifests(
                io,
                paths,
                entries,
                options=options,
                partition_type=PARTITIONS,
                new_uuid=lambda: str(uuid.uuid4()),
            ),
        )
        files = [paths.manifest(m.file_name) for m in metas]
        print(f"{'':24} {len(files)} manifests, {sum(m.file_size for m in metas) / 1e6:.1f} MB")
        found, seconds = _timed(
            "read", count, lambda: [e for f in files for e in read_manifest(io, f)]
        )
        assert found == entries
        day = entries[0].partition
        _timed(
            "read, one day of thirty",
            count,
            lambda: [
                e for f in files for e in read_manifest(io, f, keep=lambda p, _b, _l: p == day)
            ],
        )
        _timed("as dicts, by fastavro", count, lambda: [_dicts(f) for f in files])
    wanted = TARGET[1] * count / TARGET[0]
    reached = seconds < wanted
    print(f"target {wanted:.2f} s: {'reached' if reached else 'MISSED'}")
    return int(not reached)


def _timed(what: str, count: int, work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    result = work()
    seconds = time.process_time() - started
    print(f"{what:24} {seconds:.2f} s, {seconds / count * 1e6:.1f} us an entry")
    return result, seconds


def _dicts(path: str) -> list[dict[str, object]]:
    with open(path, "rb") as f:  # noqa: PTH123 - a path as text
        return list(read_records(Container(f)))


def _entry(chance: random.Random, number: int) -> ManifestEntry:
    low = chance.randrange(2**40)
    key = encode_row([low], KEY)
    last = encode_row([low + 10**6], KEY)
    text = f"{chance.randrange(2**60):x}"
    values = encode_row([low, 1, 2, 3, None, text, text, "short", None, text], VALUES)
    return ManifestEntry(
        FileKind.ADD,
        encode_row([f"2024-01-{number % 30 + 1:02}"], PARTITIONS.types),
        number % 16,
        16,
        DataFileMeta(
            file_name=f"data-{uuid.UUID(int=chance.getrandbits(128))}-0.parquet",
            file_size=chance.randrange(2**28),
            row_count=10**6,
            min_key=key,
            max_key=last,
            key_stats=SimpleStats(key, last, (0,)),
            value_stats=SimpleStats(values, values, (0,) * 10),
            min_sequence_number=low,
            max_sequence_number=low + 10**6,
            level=number % 6,
            creation_time=1_700_000_000_000 + number,
            delete_row_count=0,
            file_source=FileSource.APPEND,
            value_stats_cols=tuple(f"column_{i}" for i in range(10)) if number % 2 else None,
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
