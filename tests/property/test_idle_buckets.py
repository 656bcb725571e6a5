"""A bucket that counts as idle has no compaction due, whatever its files are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.compaction.due import BucketFiles, units_due
from paimon_core.compaction.idle import columns_needed, idle_buckets
from paimon_core.ddl.create import Column, create_schema
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import EMPTY_ROW, DataFileMeta, FileKind, ManifestEntry
from paimon_core.manifest.entries.columns import Partitions, columns_of
from paimon_core.table.open import open_table
from tests.lsm_files import a_file, lsm_files

TREES = {
    "default": {},
    "lookup": {"changelog-producer": "lookup"},
    "trigger": {"num-sorted-run.compaction-trigger": "2", "num-levels": "4"},
    "interval": {"compaction.optimization-interval": "1 h"},
    "total size": {"compaction.total-size-threshold": "5 kb"},
    "incremental": {"compaction.incremental-size-threshold": "1 kb"},
    "force": {"compaction.force-rewrite-all-files": "true"},
    "up": {"compaction.force-up-level-0": "true"},
}
HEAPS = {
    "unaware": {"bucket": "-1"},
    "few": {"bucket": "-1", "compaction.min.file-num": "2"},
    "buckets": {"bucket": "2", "bucket-key": "k"},
}
RANGES = {
    "pairs": {"compaction.min.file-num": "2"},
    "five": {},
    "cheap": {"compaction.min.file-num": "3", "source.split.open-file-cost": "1"},
}
SIZES = st.sampled_from((1, 400, 900, 1000, 3000, 10_000))


def _table(folder: Path, options: dict[str, str], *, keys: list[str]) -> FileStoreTable:
    catalog = FileSystemCatalog(str(folder))
    catalog.create_database("db", if_not_exists=True)
    chosen = {"bucket": "1", "target-file-size": "1000", "source.split.open-file-cost": "100"}
    schema = create_schema(
        [Column("k", "INT NOT NULL")],
        now_millis=0,
        primary_keys=keys,
        options={**chosen, **options},
    )
    catalog.create_table("db.t", schema)
    return open_table(str(folder), "db.t")


def _idle(table: FileStoreTable, buckets: list[list[DataFileMeta]], *, full: bool) -> list[bool]:
    """Whether each bucket counts as idle; one without files does."""
    entries = [
        ManifestEntry(FileKind.ADD, bytes(12), number, 3, file)
        for number, files in enumerate(buckets)
        for file in files
    ]
    live = columns_of(entries, Partitions(), columns_needed(table))
    _, numbers, bucket_of = live.group()
    idle = idle_buckets(table, live, bucket_of, numbers, full=full)
    known = dict(zip(numbers.tolist(), idle.tolist(), strict=True))
    return [known.get(number, True) for number in range(len(buckets))]


def _check(table: FileStoreTable, buckets: list[list[DataFileMeta]], *, full: bool) -> None:
    partition = bytes(12)
    for number, is_idle in enumerate(_idle(table, buckets, full=full)):
        files = BucketFiles(
            partition=partition, bucket=number, total_buckets=3, files=tuple(buckets[number])
        )
        due = units_due(table, files, full=full, local_millis=10**13)
        assert not (is_idle and due)


@pytest.mark.parametrize("options", TREES.values(), ids=TREES)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lsm_files(sizes=SIZES, max_level_0=4), max_size=3), st.booleans())
def test_primary_key_buckets(
    tmp_path: Path,
    options: dict[str, str],
    buckets: list[list[DataFileMeta]],
    full: bool,  # noqa: FBT001 - by hypothesis
) -> None:
    folder = tmp_path / "lake"
    table = open_table(str(folder), "db.t") if folder.exists() else None
    _check(table or _table(folder, options, keys=["k"]), buckets, full=full)


@pytest.mark.parametrize("options", HEAPS.values(), ids=HEAPS)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lsm_files(sizes=SIZES, top_level=0), max_size=3), st.booleans())
def test_append_buckets(
    tmp_path: Path,
    options: dict[str, str],
    buckets: list[list[DataFileMeta]],
    full: bool,  # noqa: FBT001 - by hypothesis
) -> None:
    folder = tmp_path / "lake"
    table = open_table(str(folder), "db.t") if folder.exists() else None
    _check(table or _table(folder, options, keys=[]), buckets, full=full)


@st.composite
def ranges_of_rows(draw: st.DrawFn) -> list[DataFileMeta]:
    """Files in the order of their row ids: with gaps or without, some with the rows of another."""
    files: list[DataFileMeta] = []
    end = 0
    for number in range(draw(st.integers(0, 12))):
        first = end + draw(st.sampled_from((0, 0, 0, 0, 3)))
        file = replace(
            a_file(0, draw(st.integers(0, 3)), size=draw(SIZES), name=f"data-{number}.parquet"),
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            first_row_id=first,
        )
        files.append(file)
        end = first + file.row_count
        if not draw(st.integers(0, 7)):
            files.append(replace(file, file_name=f"data-{number}-k.parquet", write_cols=("k",)))
    return draw(st.permutations(files))


@pytest.mark.parametrize("options", RANGES.values(), ids=RANGES)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ranges_of_rows(), max_size=3))
def test_ranges_of_rows(
    tmp_path: Path, options: dict[str, str], buckets: list[list[DataFileMeta]]
) -> None:
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    folder = tmp_path / "lake"
    table = open_table(str(folder), "db.t") if folder.exists() else None
    table = table or _table(folder, {"bucket": "-1", **evolving, **options}, keys=[])
    _check(table, buckets, full=True)


def test_large_neighbours_are_idle(tmp_path: Path) -> None:
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    few = {"bucket": "-1", "compaction.min.file-num": "2", **evolving}
    table = _table(tmp_path / "lake", few, keys=[])

    def bucket(*sizes: int, gap: int = 0) -> list[DataFileMeta]:
        return [
            replace(a_file(0, 9, size=size, name=f"{i}"), first_row_id=(10 + gap) * i)
            for i, size in enumerate(sizes)
        ]

    found = [bucket(2000, 1001, 3000), bucket(10, 10, gap=1), bucket(5, 900, 5), bucket(1001, 5)]
    assert _idle(table, found, full=True) == [True, True, False, True]


def test_settled_buckets_are_idle(tmp_path: Path) -> None:
    """The test above would also pass if no bucket were ever idle."""
    table = _table(tmp_path / "lake", {}, keys=["k"])
    settled = [a_file(0, 9, level=5), a_file(10, 19, level=5)]
    waiting = [a_file(0, 9, sequence=i) for i in range(5)]
    for full in (False, True):
        assert _idle(table, [settled, waiting], full=full) == [True, False]
