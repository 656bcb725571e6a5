"""Lists that begin like earlier ones are decoded as if each were read alone."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.avro_codec import SeenRecords
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list

IO = LocalFileIO()


def test_random_lists_are_read_as_alone(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(1)
    table = lake.table()
    snapshot = table.latest_or_not_found()
    (meta,) = read_manifest_list(IO, table.paths.manifest(snapshot.delta_manifest_list))
    chance = random.Random(5)
    metas = [replace(meta, file_name=f"manifest-{i}-0", file_size=i) for i in range(900)]
    seen: SeenRecords[ManifestFileMeta] = SeenRecords()
    now: list[ManifestFileMeta] = []
    shared = 0
    for number in range(60):
        # A commit appends, now and then some manifests are merged into one, anywhere.
        now += chance.sample(metas, chance.choice([0, 1, 1, 2, 60]))
        if number % 7 == 6:
            start = chance.randrange(len(now))
            now[start : start + chance.randrange(40)] = chance.sample(metas, 1)
        name, _ = write_manifest_list(
            IO, table.paths, now, options=table.options, new_uuid=lambda: str(chance.random())
        )
        before = {id(m) for _, _, made, _ in seen._blocks for m in made}
        read = read_manifest_list(IO, table.paths.manifest(name), seen)
        assert read == now
        shared += sum(id(m) in before for m in read)
    assert shared > 3_000


def test_damage_after_known_records_is_found(lake: Lake, tmp_path: Path) -> None:
    lake.primary_key(manifest_compression="null")
    lake.fill(1)
    table = lake.table()
    snapshot = table.latest_or_not_found()
    (meta,) = read_manifest_list(IO, table.paths.manifest(snapshot.delta_manifest_list))
    metas = [replace(meta, file_name=f"manifest-{i}-0") for i in range(10)]
    seen: SeenRecords[ManifestFileMeta] = SeenRecords()
    name, _ = write_manifest_list(
        IO, table.paths, metas, options=table.options, new_uuid=lambda: "whole"
    )
    content = Path(table.paths.manifest(name)).read_bytes()
    assert read_manifest_list(IO, table.paths.manifest(name), seen) == metas
    # The last name is damaged; everything before it was seen.
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content.replace(b"manifest-9-0", b"manifest/9-0"))
    for records in (None, seen):
        with pytest.raises(CorruptTable):
            read_manifest_list(IO, str(damaged), records)
