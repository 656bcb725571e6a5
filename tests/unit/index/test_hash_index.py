"""Hash indexes that Java wrote, and ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paimon_core.errors import CorruptTable
from paimon_core.index.hash_index import HASH_INDEX, read_hash_index, write_hash_index
from paimon_core.io.local import LocalFileIO
from paimon_core.read.data_file import read_data_file
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write.route import key_hashes

IO = LocalFileIO()


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_java_s_index_holds_the_hashes_of_the_keys(
    version: str, golden: Callable[..., Any]
) -> None:
    table = open_table(str(golden("dynamic_bucket", version).warehouse), "db.t")
    latest = table.latest_or_not_found()
    entries = table.index_entries(latest)
    assert {e.index_file.index_type for e in entries} == {HASH_INDEX}
    seen: dict[int, set[int]] = {}
    for entry in scan_files(table, latest):
        for batch in read_data_file(
            table.io,
            table.paths.data_file(entry.partition, entry.bucket, entry.file),
            entry.file,
            file_schema=table.schema,
            read_type=table.schema.row_type,
            key_value=True,
        ):
            seen.setdefault(entry.bucket, set()).update(key_hashes(table, batch).tolist())
    for entry in entries:
        path = table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
        hashes = read_hash_index(table.io, path, entry.index_file).tolist()
        assert len(set(hashes)) == len(hashes) == entry.index_file.row_count
        assert seen[entry.bucket] <= set(hashes)  # compaction drops deleted keys from files alone


def test_round_trip_and_damage(tmp_path: Path) -> None:
    path = str(tmp_path / "index-0")
    hashes = np.array([1, -(2**31), 2**31 - 1, -7], np.int32)
    meta = write_hash_index(IO, path, hashes)
    assert (meta.file_name, meta.file_size, meta.row_count) == ("index-0", 16, 4)
    assert read_hash_index(IO, path, meta).tolist() == hashes.tolist()
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    with pytest.raises(CorruptTable, match="4 hashes has 15 bytes"):
        read_hash_index(IO, path, meta)
    Path(path).unlink()
    with pytest.raises(
        CorruptTable, match=r"a hash index file is missing.*if its snapshot expired"
    ):
        read_hash_index(IO, path, meta)
