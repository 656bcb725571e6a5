"""VARIANT columns: Java reads what is written here, plain, by keys and after compaction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lakes import ENV
from sql_sessions import Sql

from oracle import Oracle
from paimon_core.table.open import open_table
from paimon_core.table.sink.write_session import write_rows
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import AtomicType, TypeRoot

OBJECT = {"value": bytes([0x02, 1, 0, 0, 2, 0x0C, 1]), "metadata": bytes([1, 1, 0, 1]) + b"a"}
TEXT = {"value": bytes([3 << 2 | 1]) + b"abc", "metadata": bytes([1, 0, 0])}
VARIANT = arrow_type(AtomicType(kind=TypeRoot.VARIANT))


@pytest.mark.parametrize(
    "options",
    [{"bucket": "-1"}, {"bucket": "1", "write-only": "true"}],
    ids=["append", "keys"],
)
def test_java_reads_variants(oracle: Oracle, tmp_path: Path, options: dict[str, str]) -> None:
    oracle.defaults(warehouse=tmp_path, database="default", table="t")
    keys = ["k"] if options["bucket"] == "1" else []
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "VARIANT"}]
    oracle.one("create_database")
    oracle.one("create_table", columns=columns, primary_keys=keys, options=options)
    table = open_table(str(tmp_path), "default.t")
    for ids, values in (([1, 2], [OBJECT, None]), ([3, 4], [TEXT, OBJECT])):
        rows = pa.table({"k": pa.array(ids, pa.int32()), "v": pa.array(values, VARIANT)})
        write_rows(table, rows, env=ENV)
    expected = [["+I", 1, '{"a":1}'], ["+I", 2, None], ["+I", 3, '"abc"'], ["+I", 4, '{"a":1}']]
    assert oracle.rows() == expected
    Sql(tmp_path)("CALL sys.compact(table => 't', options => 'compaction.min.file-num=2')")
    assert oracle.one("snapshots")["snapshots"][-1]["commitKind"] == "COMPACT"
    assert oracle.rows() == expected
    oracle.one("compact")
    assert oracle.rows() == expected
    if keys:
        Sql(tmp_path)("CALL sys.rescale('t', 2)")
        assert oracle.rows() == expected
