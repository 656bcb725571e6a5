"""INTs of more than 32 bits, which Avro can hold: the file is corrupt, as for Java."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.manifest.index_manifest import read_index_manifest, write_index_manifest
from paimon_core.manifest.manifest_file import read_manifest, write_manifests
from paimon_core.manifest.manifest_list import read_manifest_list

WIDE = (2**31, -(2**31) - 1, 2**63 - 1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "w")
    lake.primary_key()
    lake.fill(2)
    return lake


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("field", ["bucket", "total_buckets", "level"])
def test_of_an_entry(lake: Lake, field: str, wide: int) -> None:
    table = lake.table()

    def widened(entry: ManifestEntry) -> ManifestEntry:
        if field == "level":
            return replace(entry, file=replace(entry.file, level=wide))
        return replace(entry, **{field: wide})

    snapshot = table.latest_or_not_found()
    (listed,) = read_manifest_list(table.io, table.paths.manifest(snapshot.delta_manifest_list))
    path = table.paths.manifest(listed.file_name)
    (made,) = write_manifests(
        table.io,
        table.paths,
        [widened(e) for e in read_manifest(table.io, path)],
        options=table.options,
        partition_type=table.schema.partition_type,
        new_uuid=lambda: str(uuid4()),
    )
    Path(table.paths.manifest(made.file_name)).replace(path)
    with pytest.raises(CorruptTable, match=f"_{field.upper()} {wide} does not fit into 32 bits"):
        read_manifest(table.io, path)
    for job in ("compact_manifest", "compact", "rescale"):
        more = ["--bucket-num", 2] if job == "rescale" else []
        assert caretaker("run", job, "db.t", "-w", lake.warehouse, *more).code == 7


@pytest.mark.parametrize("wide", WIDE)
def test_of_an_index_manifest(lake: Lake, wide: int) -> None:
    table = lake.table()
    file = IndexFileMeta(index_type="HASH", file_name="index-1", file_size=4, row_count=1)
    entry = IndexManifestEntry(FileKind.ADD, EMPTY_ROW, wide, file)
    name = write_index_manifest(
        table.io, table.paths, [entry], options=table.options, new_uuid=lambda: str(uuid4())
    )
    with pytest.raises(CorruptTable, match=f"_BUCKET {wide} does not fit"):
        read_index_manifest(table.io, table.paths.manifest(name))
    path = Path(table.root) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": name}))
    expiry = ("--retain-max", 1, "--retain-min", 1)
    assert caretaker("run", "expire_snapshots", "db.t", "-w", lake.warehouse, *expiry).code == 0
