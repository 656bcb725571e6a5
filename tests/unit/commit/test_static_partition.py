"""Which stored partitions the values of a static partition mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.overwrite import static_partition_test
from paimon_core.ddl.create import Column, create_schema
from paimon_core.table.open import open_table
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type

NAN = float("nan")


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_each_zero_and_nan_is_a_partition(kind: str, tmp_path: Path) -> None:
    catalog = FileSystemCatalog(str(tmp_path))
    catalog.create_database("db")
    schema = create_schema(
        [Column("p", kind), Column("k", "INT")], now_millis=0, partition_keys=["p"]
    )
    catalog.create_table("db.t", schema)
    table = open_table(str(tmp_path), "db.t")
    values = [0.0, -0.0, NAN, 1.5, None]
    rows = [encode_row([v], [parse_type(kind)]) for v in values]
    for place, value in enumerate(values):
        test = static_partition_test(table, {"p": value})
        assert test is not None
        assert [test(row) for row in rows] == [i == place for i in range(len(values))]
