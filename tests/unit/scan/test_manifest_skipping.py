"""Conditions on partitions leave whole manifests unread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.manifest.data_file import SimpleStats
from paimon_core.predicate import And, Leaf, Op, Or, Predicate
from paimon_core.scan import manifests
from paimon_core.scan.prune import column_stats, prune_by_statistics
from paimon_core.scan.scan import scan_files
from paimon_core.table.sink.write_session import write_rows
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type


def equal(day: str) -> Leaf:
    return Leaf(Op.EQ, "dt", (day,))


@pytest.mark.parametrize(
    ("predicate", "read", "files"),
    [
        (None, 4, 4),
        (equal("day1"), 1, 1),
        (equal("nope"), 0, 0),
        (And((equal("day2"), Leaf(Op.EQ, "k", (2,)))), 1, 1),
        (And((equal("day2"), Leaf(Op.EQ, "k", (1,)))), 1, 0),
        (Or((equal("day0"), equal("day3"))), 2, 2),
        (Leaf(Op.GE, "dt", ("day2",)), 2, 2),
        (Or((equal("day0"), Leaf(Op.EQ, "k", (3,)))), 4, 2),
        (Leaf(Op.IS_NULL, "dt"), 0, 0),
    ],
)
def test_manifests_of_other_partitions_are_not_read(
    predicate: Predicate | None,
    read: int,
    files: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key(partitioned=True)
    for i in range(4):
        lake.append({"k": [i], "v": [f"v{i}"], "dt": [f"day{i}"]})
    seen: list[str] = []
    plain = manifests.read_sized_manifest
    monkeypatch.setattr(
        manifests, "read_sized_manifest", lambda io, path: seen.append(path) or plain(io, path)
    )
    table = lake.table()
    found = scan_files(table, table.latest_or_not_found(), predicate=predicate)
    assert (len(seen), len(found)) == (read, files)


def test_nan_beside_other_partitions_hides_none(tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    schema = create_schema(
        [Column("k", "INT"), Column("p", "DOUBLE")],
        now_millis=ENV.now_millis(),
        partition_keys=["p"],
        options={"bucket": "-1"},
    )
    catalog.create_table("db.t", schema)
    table = catalog.get_table("db.t")
    rows = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "p": [1.0, float("nan"), 2.0]})
    write_rows(table, rows, env=ENV)
    latest = table.latest_or_not_found()
    everything = scan_files(table, latest)
    assert len(everything) == 3
    for entry in everything:
        assert scan_files(table, latest, partitions=[entry.partition]) == [entry]


def test_statistics_of_files_with_row_ids_are_read(tmp_path: Path) -> None:
    """Files that Spark rewrote with their rows' ids tell statistics of these too."""
    lake = Lake(tmp_path)
    lake.log()
    lake.append({"k": [1, 5], "v": ["a", "b"]})
    table = lake.table()
    [entry] = scan_files(table, table.latest_or_not_found())
    types = [parse_type(t) for t in ("INT", "BIGINT", "BIGINT")]
    stats = SimpleStats(encode_row((1, 7, 3), types), encode_row((5, 8, 3), types), (0, 0, 0))
    names = ("k", "_ROW_ID", "_SEQUENCE_NUMBER")
    file = replace(entry.file, write_cols=("v", *names), value_stats_cols=names, value_stats=stats)
    assert column_stats(file, table.schema)["k"] == (1, 5, 0)
    entry = replace(entry, file=file)
    for k, kept in ((5, [entry]), (6, [])):
        assert prune_by_statistics(table, [entry], Leaf(Op.EQ, "k", (k,))) == kept
