"""Every snapshot of Java's tables of the other merge engines, merged: the rows that Java reads."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from paimon_core.lsm.chosen_engine import merge_engine_of
from paimon_core.lsm.tree.interval_partition import interval_partition
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.read.section import SectionReader
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.json_columns import batch_to_json_rows

NAMES = [
    "aggregation",
    "aggregation_retract",
    "first_row",
    "partial_update",
    "partial_update_delete",
    "sequence_group",
    "sequence_group_agg",
    "sequence_group_delete",
]


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_java_s(golden: Callable[..., Any], name: str, version: str) -> None:
    copy = golden(name, version)
    table = open_table(str(copy.warehouse), "db.t")
    engine = merge_engine_of(table.schema).engine
    compared = 0
    for read, expected in copy.expected["reads"].items():
        if not read.startswith("snapshot-"):
            continue
        snapshot = table.snapshots.get(int(read.removeprefix("snapshot-")))
        buckets: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
        for entry in scan_files(table, snapshot):
            if name == "first_row" and entry.file.level == 0:
                continue  # a batch read waits for compaction
            buckets[entry.partition, entry.bucket].append(entry.file)
        rows = []
        for (partition, bucket), files in buckets.items():
            reader = SectionReader(
                table=table, partition=partition, bucket=bucket, read_type=table.schema.row_type
            )
            for section in interval_partition(files, table.schema.key_type):
                for batch in reader.merged(section, engine, drop_deletes=True):
                    values = batch.select(list(table.schema.names))
                    rows += [
                        ["+I", *row] for row in batch_to_json_rows(values, table.schema.row_type)
                    ]
        wanted = [["+I", *row[1:]] for row in expected["rows"]]
        assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, wanted)), read
        compared += 1
    assert compared >= 3
