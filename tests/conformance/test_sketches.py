"""Unions of DataSketches are byte for byte those of Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasketches as ds
import pytest
from replay import rows_of, run_step

from oracle import Oracle
from paimon_core.errors import CorruptTable
from paimon_core.lsm.aggregates.sketches import HllSketch, ThetaSketch
from paimon_core.read.table_read import read_table
from paimon_core.table.open import open_table

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "h", "type": "BYTES"},
    {"name": "t", "type": "BYTES"},
]
OPTIONS = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.h.aggregate-function": "hll_sketch",
    "fields.t.aggregate-function": "theta_sketch",
}
SIZES = (None, 0, 1, 2, 7, 8, 30, 200, 3000, 20000)
KINDS = (ds.tgt_hll_type.HLL_4, ds.tgt_hll_type.HLL_6, ds.tgt_hll_type.HLL_8)
EMPTY_THETA = "01030300001ecc93"
ONE = "01030300001acc93e56b61eec8804420"


def hll(items: range, number: int) -> str:
    sketch = ds.hll_sketch(12, KINDS[number % 3])
    for item in items:
        sketch.update(item)
    return (sketch.serialize_updatable() if number % 4 == 0 else sketch.serialize_compact()).hex()


def theta(items: range, number: int) -> str:
    sketch = ds.update_theta_sketch(12)
    for item in items:
        sketch.update(item)
    return sketch.compact(number % 5 != 0).serialize().hex()


def rows(turn: int) -> list[list[Any]]:
    """A pair of sizes a key; sets of one key overlap in part."""
    found = []
    for key in range(len(SIZES) ** 2):
        size = SIZES[key // len(SIZES)] if turn == 0 else SIZES[key % len(SIZES)]
        first = (0, key % 7 * 3, 15_000)[turn]
        items = None if size is None else range(first, first + size)
        sketches = (hll, theta)
        found.append([key, *(None if items is None else f(items, key + turn) for f in sketches)])
    return found


def test_unions_are_javas(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    create = {"columns": COLUMNS, "primary_keys": ["k"], "options": OPTIONS}
    writes = [{"op": "write", "rows": rows(turn), "compact": False} for turn in range(3)]
    oracle([{"op": "create_database"}, {"op": "create_table", **create}, *writes])
    wanted = oracle.rows()
    assert read(tmp_path) == sorted(wanted)
    run_step({"op": "compact", "warehouse": str(tmp_path), "database": "db", "table": "t"})
    assert oracle.rows() == wanted
    # Java goes on with what we joined.
    oracle([{"op": "write", "rows": rows(1), "compact": True}])
    assert read(tmp_path) == sorted(oracle.rows())


def read(warehouse: Path) -> list[list[Any]]:
    table = open_table(str(warehouse), "db.t")
    return sorted(
        rows_of(read_table(table, table.snapshots.latest()), table.schema.row_type, bits=False)
    )


def test_what_java_answers() -> None:
    empty, one = bytes.fromhex(EMPTY_THETA), bytes.fromhex(ONE)
    assert ThetaSketch().add(one, empty).hex() == ONE.replace("1acc", "3acc")
    assert ThetaSketch().add(empty, empty).hex() == EMPTY_THETA.replace("cc93", "0000")
    assert ThetaSketch().add(None, one) == one
    assert HllSketch().add(one, None) == one


@pytest.mark.parametrize("function", [HllSketch, ThetaSketch])
def test_what_is_no_sketch_is_told(function: Any) -> None:
    with pytest.raises(CorruptTable, match="is not a sketch"):
        function().add(b"no sketch", b"at all")
    with pytest.raises(CorruptTable, match="cannot retract"):
        function().retract(b"", b"")


def test_sketches_that_made_the_library_end_the_process() -> None:
    sound = bytes.fromhex(hll(range(3000), 0))
    assert HllSketch().add(sound, sound)
    high = bytearray(sound)
    high[40] |= 15  # a register whose value is behind all others, where there is none
    many = bytearray(bytes.fromhex(hll(range(5), 1)))
    many[6] = 200  # coupons of a list for eight
    table = bytearray(bytes.fromhex(hll(range(30), 0)))
    table[8] -= 1  # one less than the set has
    for value in (bytes(high), bytes(many) + bytes(1000), bytes(table)):
        for pair in ((value, sound), (sound, value)):
            with pytest.raises(CorruptTable, match="is not a sketch"):
                HllSketch().add(*pair)
