"""Slices of a bucket whose files have many pages: the same rows, and each page decoded about once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.compaction import slices as slices_module
from paimon_core.compaction.due import BucketFiles, compact_bucket, units_due
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactUnit, KeyRange
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.parquet import reader
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files

ROWS = 60_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGES_FROM", 0)
    monkeypatch.setattr(slices_module, "SAMPLED_KEYS", 200)


def write(lake: Lake, seed: int, rows: int = ROWS) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.choice(4 * ROWS, size=rows, replace=False)
    lake.append({"k": keys.tolist(), "v": [f"{seed}-{k}" for k in keys]})


def bucket_files(table: FileStoreTable) -> BucketFiles:
    snapshot = table.latest_or_not_found()
    entries = list(scan_files(table, snapshot))
    bucket = entries[0].partition, entries[0].bucket
    return BucketFiles(
        partition=bucket[0],
        bucket=bucket[1],
        total_buckets=entries[0].total_buckets,
        files=tuple(e.file for e in entries),
        vector_files=tuple(vector_files(table, snapshot).get(bucket, ())),
    )


def rows_of(table: FileStoreTable) -> Any:
    rows = pa.Table.from_batches(read_table(table, table.latest_or_not_found()))
    return rows.sort_by("k").to_pydict()


def compact(table: FileStoreTable, *, full: bool, parts: int = 1) -> list[CompactUnit]:
    files = bucket_files(table)
    units = units_due(table, files, full=full, local_millis=ENV.local_millis())
    size = max(1, sum(u.rewritten_bytes for u in units) // parts)
    units = [
        CompactUnit.from_bytes(s.to_bytes())
        for u in units
        for s in slice_unit(table, u, slice_bytes=size)
    ]
    result = compact_bucket(table, units, files, env=ENV)
    commit(table, result.to_messages(), user=ENV.new_uuid(), env=ENV)
    return units


def test_slices_decode_their_part_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    for seed in range(3):
        write(lake, seed)
    table = lake.table()
    before = rows_of(table)
    decoded: list[int] = []
    read_pages = reader.read_pages

    def counted(*arguments: Any) -> Any:
        found = read_pages(*arguments)
        if found is not None and len(arguments[1]) > 2:  # not only keys
            decoded.append(len(arguments[2]))
        return found

    monkeypatch.setattr(reader, "read_pages", counted)
    units = compact(table, full=True, parts=5)
    assert len(units) >= 4
    assert rows_of(table) == before
    # Neighbours share the rows between two sampled keys.
    assert 3 * ROWS <= sum(decoded) < 3 * ROWS * 1.1


def test_slices_of_files_with_deletion_vectors(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create(options={"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"})
    write(lake, 1)
    table = lake.table()
    compact(table, full=True)
    write(lake, 2, ROWS // 3)
    compact(table, full=False)
    assert bucket_files(table).vector_files, "the minor compaction marks rows of the large file"
    before = rows_of(table)
    units = compact(table, full=True, parts=4)
    assert len(units) >= 3
    assert rows_of(table) == before


def test_ranges_hold_every_key_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    for seed in range(2):
        write(lake, seed)
    table = lake.table()
    (unit,) = units_due(table, bucket_files(table), full=True, local_millis=ENV.local_millis())
    ranges = slices_module.key_ranges(table, [unit], 6, slices_module.samples_of(table, [unit]))
    assert (ranges[0].low, ranges[-1].high) == (None, None)
    assert [r.high for r in ranges[:-1]] == [r.low for r in ranges[1:]]
    for file in unit.rewritten_files:
        windows = [r.rows[file.file_name] for r in ranges]
        assert (windows[0].start, windows[-1].stop) == (0, file.row_count)
        # The last row of a window may have the key at which the next one begins.
        assert all(0 <= a.stop - b.start < 2 * ROWS // 100 for a, b in pairwise(windows))


def test_a_range_without_windows_means_all_rows() -> None:
    assert KeyRange(b"a", None).rows == {}


def test_a_unit_without_a_sample_of_each_file_is_not_cut(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    for seed in range(2):
        write(lake, seed)
    table = lake.table()
    (unit,) = units_due(table, bucket_files(table), full=True, local_millis=ENV.local_millis())
    samples = dict(slices_module.samples_of(table, [unit]))
    assert len(slice_unit(table, unit, slice_bytes=200_000, samples=samples)) > 1
    samples.popitem()
    assert slice_unit(table, unit, slice_bytes=200_000, samples=samples) == [unit]


def test_pages_are_looked_for_only_where_samples_allow_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices_module, "LEAST_BYTES", 100_000)
    lake = Lake(tmp_path)
    lake.primary_key()
    keys = np.arange(2 * ROWS)
    lake.append({"k": keys[::2].tolist(), "v": ["even"] * ROWS})
    # The odd keys of the first half: those of the second half are alone in the other file.
    lake.append({"k": keys[1:ROWS:2].tolist(), "v": ["odd"] * (ROWS // 2)})
    table = lake.table()
    (unit,) = units_due(table, bucket_files(table), full=True, local_millis=ENV.local_millis())
    ranges = slices_module.key_ranges(table, [unit], 6, slices_module.samples_of(table, [unit]))
    found = [r.may_copy for r in ranges]
    assert not found[0]
    assert found[-1]
    assert found == sorted(found)


def test_few_samples_rule_nothing_out(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    for seed in range(2):
        write(lake, seed, 1000)
    table = lake.table()
    (unit,) = units_due(table, bucket_files(table), full=True, local_millis=ENV.local_millis())
    requests = slices_module.sample_requests([unit])
    coarse = {
        r.file.file_name: slices_module.sample_keys(table, replace(r, stride=10**9))
        for r in requests
    }
    assert all(r.may_copy for r in slices_module.key_ranges(table, [unit], 2, coarse))
