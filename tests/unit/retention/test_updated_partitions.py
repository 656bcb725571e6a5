"""Partitions that expire by their last update, beside a writer that updates them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from command_line import read_rows
from failing_io import FailingFileIO, Injected, Trigger
from lakes import ENV, Lake

from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.retention.partitions import (
    PartitionExpiry,
    PartitionRule,
    apply_partitions,
    plan_partitions,
    recheck_partitions,
)

LATER = 10 * 86_400_000
RULE = PartitionRule(
    time=86_400_000, strategy="update-time", pattern=None, formatter=None, most=sys.maxsize
)


@dataclass(slots=True)
class Registry:
    """The partitions that a catalog keeps."""

    kept: list[dict[str, str]] = field(default_factory=list)

    def add(self, specs: Sequence[Mapping[str, str]]) -> None:
        self.kept += [dict(s) for s in specs if dict(s) not in self.kept]

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        self.kept = [s for s in self.kept if s not in specs]

    def specs(self) -> list[dict[str, str]]:
        return [dict(s) for s in self.kept]

    def mark_done(self, specs: Sequence[Mapping[str, str]]) -> None:
        raise NotImplementedError

    def is_entry(self, servers: Sequence[tuple[str, int]], database: str, table: str) -> bool:
        raise NotImplementedError


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.log(partitioned=True)
    lake.append({"k": [1, 2], "v": ["a", "b"], "dt": ["day0", "day1"]})
    return lake


def expiry(table: FileStoreTable) -> PartitionExpiry:
    now = ENV.local_millis() + LATER
    return plan_partitions(table, table.snapshots.latest(), RULE, local_millis=now).work


def registered(lake: Lake) -> tuple[FileStoreTable, Registry]:
    registry = Registry([{"dt": "day0"}, {"dt": "day1"}])
    table = lake.table(metastore_partitioned__table="true")
    return replace(table, partition_registry=registry), registry


def apply(table: FileStoreTable, work: PartitionExpiry) -> None:
    apply_partitions(table, work, user_of=lambda n: f"u{n}", env=ENV)


@pytest.mark.parametrize("batch_size", [0, 1])
def test_rows_that_come_after_the_recheck_stay(batch_size: int, lake: Lake) -> None:
    table, registry = registered(lake)
    work = replace(recheck_partitions(table, expiry(table)), batch_size=batch_size)
    assert len(work.going) == 2
    lake.append({"k": [3], "v": ["new"], "dt": ["day1"]})
    with pytest.raises(CommitConflict, match=r"dt=day1 .* received files since the plan"):
        apply(table, work)
    rows = [r[1:] for r in read_rows(lake.warehouse)]
    assert [3, "new", "day1"] in rows
    assert [2, "b", "day1"] in rows
    left = {row[2] for row in rows}
    assert {s["dt"] for s in registry.kept} == left
    assert left == ({"day0", "day1"} if batch_size == 0 else {"day1"})


def test_nothing_beside_it(lake: Lake) -> None:
    table, registry = registered(lake)
    apply(table, expiry(table))
    assert read_rows(lake.warehouse) == []
    assert registry.kept == []


def test_a_disk_that_fails_leaves_the_catalog_as_it_was(lake: Lake) -> None:
    """At every single change until the commit: the error is one of the operating system."""
    table, registry = registered(lake)
    work = expiry(table)
    for k in itertools.count():
        trigger = Trigger(at=k)
        failing = replace(table, io=FailingFileIO(trigger))
        failing = replace(failing, snapshots=replace(table.snapshots, io=failing.io))
        try:
            apply(failing, work)
        except Injected:
            assert {s["dt"] for s in registry.kept} == {"day0", "day1"}
        else:
            break
    assert k > 1
    assert registry.kept == []


def test_a_file_without_a_creation_time_is_not_old(lake: Lake) -> None:
    table = lake.table()
    for path in (Path(table.root) / "manifest").glob("manifest-*"):
        if path.name.startswith("manifest-list"):
            continue
        entries = [
            replace(e, file=replace(e.file, creation_time=None))
            for e in read_manifest(table.io, str(path))
        ]
        (made,) = write_manifests(
            table.io,
            table.paths,
            entries,
            options=table.options,
            partition_type=table.schema.partition_type,
            new_uuid=ENV.new_uuid,
        )
        Path(table.paths.manifest(made.file_name)).replace(path)
    assert expiry(lake.table()).going == ()
