"""Data files and schemas that do not belong together, each of them sound.

A backup that was restored in part, or a copy into the wrong folder, leaves such tables.  No job may make
the rows of another file, or the rows as another schema reads them, those of the table.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake


def data_files(lake: Lake) -> list[Path]:
    return sorted(Path(lake.table().root).rglob("bucket-*/*"))


def content(lake: Lake) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in Path(lake.table().root).rglob("*") if p.is_file()}


def check_refused(lake: Lake, named: str) -> None:
    """Neither a read nor a compaction does anything but to name the file, and what is there stays."""
    before = content(lake)
    read = caretaker("read", "db.t", "-w", lake.warehouse)
    assert read.code == 7, read.out
    assert named in read.err
    ran = caretaker(
        "run", "compact", "db.t", "-w", lake.warehouse, "--strategy", "full", "--engine", "local"
    )
    assert ran.code == 7, (ran.out, ran.err)
    assert named in ran.err
    assert content(lake) == before


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", ["keys", "log"])
def test_a_data_file_in_the_place_of_another(file_format: str, keyed: str, lake: Lake) -> None:
    """Both have as many rows, so that only their sizes differ."""
    made = lake.primary_key if keyed == "keys" else lake.log
    made(file_format=file_format)
    lake.append({"k": [1, 2, 3], "v": ["a", "b", "c"]})
    (first,) = data_files(lake)
    assert first.suffix == f".{file_format}"
    lake.append({"k": [1, 2, 3], "v": ["a", "a longer text", "c" * 99]})
    (second,) = {*data_files(lake)} - {first}
    lake.fill(4)
    shutil.copy(second, first)
    check_refused(lake, first.name)


@pytest.mark.parametrize(
    ("lost", "named"), [("primaryKeys", "data-"), ("partitionKeys", "manifest-")]
)
def test_a_schema_that_lost_its_keys(lost: str, named: str, lake: Lake) -> None:
    """With dynamic buckets, such a table is one that may be compacted in another way."""
    lake.primary_key(buckets=-1, partitioned=lost == "partitionKeys")
    lake.fill(6)
    schema = Path(lake.table().root) / "schema" / "schema-0"
    told = json.loads(schema.read_text())
    schema.write_text(json.dumps({**told, lost: []}))
    check_refused(lake, named)
