"""What the health says of a partition from columns is what it says of the files as objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.compaction.due import BucketFiles
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.manifest.entries.columns import Partitions, columns_of
from paimon_core.table.open import open_table
from paimon_core.types.binary_row import decode_row, encode_row
from paimon_maintenance.health import groups, layout
from tests.lsm_files import a_file
from tests.property.test_idle_buckets import ranges_of_rows

ENV = system_environment()
OPTIONS = {
    "all move": {},
    "short ones move": {"data-evolution.reassign.skip-contiguous-row-count": "4"},
    "few": {"compaction.min.file-num": "2"},
}


def evolving_table(warehouse: Path, options: dict[str, str]) -> FileStoreTable:
    if not warehouse.exists():
        catalog = FileSystemCatalog(str(warehouse))
        catalog.create_database("db")
        evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        sizes = {"target-file-size": "1000", "source.split.open-file-cost": "100"}
        schema = create_schema(
            [Column("k", "INT NOT NULL"), Column("p", "INT NOT NULL")],
            now_millis=0,
            partition_keys=["p"],
            options={"bucket": "-1", **evolving, **sizes, **options},
        )
        catalog.create_table("db.t", schema)
    return open_table(str(warehouse), "db.t")


def test_some_are_quiet_and_have_gaps(tmp_path: Path) -> None:
    """The test below would also pass if none were."""
    table = evolving_table(tmp_path / "lake", OPTIONS["all move"])

    files = [
        replace(a_file(0, 9, size=size, name=str(i)), first_row_id=15 * i)
        for i, size in enumerate((700, 200, 1500))
    ]
    ((_, found),) = outline(table, [files]).quiet
    assert (found.files, found.ideal_files, found.gap_files) == (3, 4, 1)


def test_what_moves_follows_a_long_range_at_the_end(tmp_path: Path) -> None:
    table = evolving_table(tmp_path / "lake", OPTIONS["short ones move"])
    files = [
        replace(a_file(1, rows, size=300, name=str(i)), first_row_id=10 * i)
        for i, rows in enumerate((2, 2, 5))
    ]
    ((_, found),) = outline(table, [files]).quiet
    assert (found.ideal_files, found.gap_files) == (3, 2)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ranges_of_rows(), min_size=1, max_size=3))
def test_it_is_the_same(
    tmp_path: Path, options: dict[str, str], partitions: list[list[DataFileMeta]]
) -> None:
    table = evolving_table(tmp_path / "lake", options)
    found = outline(table, partitions)
    for code, quiet in found.quiet:
        row = found.partitions.rows[code]
        (number,) = decode_row(row, table.schema.partition_type.types)
        files = BucketFiles(
            partition=row, bucket=0, total_buckets=-1, files=tuple(partitions[number])
        )
        assert quiet == layout._bucket(table, files, ENV, compactable=True)


def outline(table: FileStoreTable, partitions: list[list[DataFileMeta]]) -> layout.Outline:
    types = table.schema.partition_type.types
    entries = [
        ManifestEntry(FileKind.ADD, encode_row([number], types), 0, -1, file)
        for number, files in enumerate(partitions)
        for file in files
    ]
    live = columns_of(entries, Partitions(), (*groups.COLUMNS, "first_row_id"))
    return layout.outline_of(table, live, {}, ENV)
