"""Options that a table holds and nobody can read are named, wherever they are met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from lakes import ENV, Lake

from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.stream import newest_compacted
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import write_rows
from paimon_maintenance.health.inspect import inspect_table


def write(table: FileStoreTable) -> None:
    write_rows(table, pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}), env=ENV)


def inspect(table: FileStoreTable) -> None:
    inspect_table(table, ENV)


@pytest.mark.parametrize(
    ("key", "value", "act"),
    [
        ("data-evolution.enabled", "yes", write),
        ("parquet.compression.codec.zstd.level", "best", write),
        ("full-compaction.delta-commits", "0", newest_compacted),
        ("full-compaction.delta-commits", "some", newest_compacted),
        ("snapshot.num-retained.max", "many", inspect),
        ("snapshot.time-retained", "long", inspect),
        ("target-file-size", "big", inspect),
        ("data-file.prefix", "folder/", write),
    ],
)
def test_an_option_that_cannot_be_read_is_named(
    key: str, value: str, act: Callable[[FileStoreTable], object], tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    lake.primary_key()
    with pytest.raises(InvalidArgument, match=key) as caught:
        act(open_table(str(tmp_path), "db.t", dynamic_options={key: value}))
    assert caught.value.next_step
