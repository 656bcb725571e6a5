"""Global indexes: every matching row is found, whatever the values; damage has a name."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evolving_tables import EVOLVING, update_columns
from hypothesis import given
from hypothesis import strategies as st
from lakes import ENV, Lake
from sql_sessions import Sql
from type_strategies import R, atomic_types, values

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.index.global_index.btree import BtreeReader, IndexMeta, write_btree
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.global_index.records import (
    fixed,
    joined,
    read_varint,
    read_varints,
    varints,
)
from paimon_core.index.global_index.sorted_file import Codec
from paimon_core.io.local import LocalFileIO
from paimon_core.predicate.columns import evaluate
from paimon_core.predicate.nodes import And, Leaf, Op, Or
from paimon_core.read.data_evolution import rows_of_group
from paimon_core.read.table_read import read_table
from paimon_core.scan.global_index import MatchingRows, RowRange, matching_rows, merged, without
from paimon_core.table.global_index import (
    build_part,
    commit_index,
    indexed_field,
    unindexed_parts,
)
from paimon_core.table.open import open_table
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import DataType
from paimon_core.types.sql import parse_type

IO = LocalFileIO()
GOLDEN = Path(__file__).parents[2] / "golden" / "newer" / "kinds" / "global_index"
WITHOUT_KEYS = (R.BINARY, R.VARBINARY)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_numbers_of_variable_length(numbers):
    records = varints(np.array(numbers, np.int64))
    data = records.data.tobytes()
    assert read_varints(data).tolist() == numbers
    at, found = 0, []
    for _ in numbers:
        number, at = read_varint(data, at)
        found.append(number)
    assert (found, at) == (numbers, len(data))
    both = joined((fixed(np.array(numbers, np.int64)), records))
    one = (n.to_bytes(8, "little") for n in numbers)
    ends = np.cumsum(records.lengths).tolist()
    parts = itertools.pairwise([0, *ends])
    assert both.data.tobytes() == b"".join(
        a + data[i:j] for a, (i, j) in zip(one, parts, strict=True)
    )


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\xff" * 9 + b"\x01", b""])
def test_numbers_that_do_not_end(data):
    with pytest.raises(IndexError):
        read_varints(data)


def _written(path: Path, data_type: DataType, rows: list[Any], block_size: int, codec: str) -> Any:
    keys = KeyType(data_type, "c")
    ids = np.arange(len(rows)) * 3
    column = column_from_internal(rows, data_type)
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    written = write_btree(
        IO,
        str(path),
        column,
        ids,
        keys,
        keys.order(column),
        block_size=block_size,
        codec=Codec(codec),
    )
    assert written.size == path.stat().st_size
    assert written.rows == len(rows)
    assert IndexMeta.decode(written.meta.encode()) == written.meta
    return keys, written.meta


@given(
    st.data(),
    atomic_types().filter(lambda t: t.kind not in WITHOUT_KEYS),
    st.sampled_from([1, 40, 4096]),
    st.sampled_from(["none", "zstd"]),
)
def test_every_key_has_its_rows(tmp_path_factory, data, data_type, block_size, codec):
    rows = data.draw(st.lists(values(data_type), min_size=1, max_size=30))
    path = tmp_path_factory.mktemp("index") / "f"
    keys, meta = _written(path, data_type, rows, block_size, codec)
    present = [v for v in rows if v is not None]
    bounds = {i: keys.bounds(v) for i, v in enumerate(rows) if v is not None}
    with BtreeReader(IO, str(path), keys) as index:
        assert index.null_rows().tolist() == [i * 3 for i, v in enumerate(rows) if v is None]
        assert meta.has_nulls == (None in rows)
        if not present:
            return
        assert meta.first_key is not None
        assert keys.decode(meta.first_key) <= keys.decode(meta.last_key)
        for low, high in itertools.product([None, *list(bounds.values())[:4]], repeat=2):
            least = None if low is None else low[0]
            most = None if high is None else high[1]
            found = index.rows_between(least, most)
            expected = [
                i * 3
                for i, (a, b) in bounds.items()
                if (least is None or b >= least) and (most is None or a <= most)
            ]
            if found is not None:
                assert set(found.tolist()) == set(expected)


@given(st.lists(st.none() | st.integers(0, 9), min_size=1), st.integers(1, 12))
def test_keys_are_divided_among_files(rows, files):
    whole = KeyType(parse_type("INT"), "c").order(pa.array(rows, pa.int32()))
    parts = list(whole.split(files))
    assert 1 <= len(parts) <= files
    assert np.concatenate([p.rows for p in parts]).tolist() == whole.rows.tolist()
    assert parts[0].nulls.tolist() == whole.nulls.tolist()
    assert not any(len(p.nulls) for p in parts[1:])
    keys = [{rows[r] for r in p.rows.tolist()} for p in parts]
    assert sum(map(len, keys)) == len(whole.starts) == len(set().union(*keys))
    for part in parts:
        firsts = [rows[r] for r in part.rows[part.starts].tolist()]
        assert firsts == sorted({rows[r] for r in part.rows.tolist()})


@pytest.mark.parametrize("name", ["VARBINARY(9)", "BYTES", "ARRAY<INT>", "ROW<a INT>"])
def test_types_that_java_does_not_index(name):
    with pytest.raises(InvalidArgument, match="cannot have a global index"):
        KeyType(parse_type(name), "c")


def test_no_digit_of_a_wide_decimal_is_lost():
    number = 12345678901234567890123456789012345678
    keys = KeyType(parse_type("DECIMAL(38, 4)"), "c")
    assert keys.bounds(Decimal(f"{number}E-4")) == (number, number)
    assert keys.bounds(Decimal(f"{number}E-5")) is None


def test_the_metadata_of_paimon_1_4():
    old = b"\1\0\0\0a\1\0\0\0z\1"
    assert IndexMeta.decode(old) == IndexMeta(b"a", b"z", has_nulls=True)
    assert IndexMeta.decode(b"\0\0\0\0\0\0\0\0\1") == IndexMeta(None, None, has_nulls=True)
    assert IndexMeta.decode(IndexMeta(b"", b"", has_nulls=False).encode()).first_key == b""


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_damage_is_found(tmp_path, codec):
    path = tmp_path / "f"
    text = parse_type("STRING")
    keys, _ = _written(path, text, [None, *(f"name {i % 50}" for i in range(500))], 512, codec)
    whole = path.read_bytes()

    def look_up(data: bytes) -> object:
        path.write_bytes(data)
        with BtreeReader(IO, str(path), keys) as index:
            return index.rows_between(b"name 7", b"name 7"), index.null_rows()

    look_up(whole)
    for size in (0, 20, 51, len(whole) - 1):
        with pytest.raises(CorruptTable):
            look_up(whole[:size])
    found = 0
    for at in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[at] ^= 0x55
        try:
            look_up(bytes(broken))
        except CorruptTable:
            found += 1
    assert found > 20  # not all blocks are read


def test_ranges_without_others():
    covered = [RowRange(5, 6), RowRange(0, 1), RowRange(4, 5), RowRange(20, 30)]
    covered = merged(covered)
    assert covered == [RowRange(0, 1), RowRange(4, 6), RowRange(20, 30)]
    left = list(without(RowRange(1, 25), covered))
    assert left == [RowRange(2, 3), RowRange(7, 19)]
    assert list(without(RowRange(0, 1), covered)) == []


# --- tables -------------------------------------------------------------------------------------

KEYS: list[list[int | None]] = [[1, 2, 3], [3, 3, None], [10, -10, 10], [None, None]]


def _lake(tmp_path: Path, **options: str) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create(primary_key=False, options={**EVOLVING, "write-only": "true", **options})
    for i, keys in enumerate(KEYS):
        texts = [None if k is None else f"t{k}" for k in keys]
        lake.append({"k": [100 * i + n for n in range(len(keys))], "v": texts})
    return lake


def _build(lake: Lake, column: str) -> int:
    table = lake.table()
    field = indexed_field(table, column, "btree")
    parts = unindexed_parts(table, table.latest_or_not_found(), field)
    built = [(p, build_part(table, p, field, ENV.new_uuid)) for p in parts]
    commit_index(table, built, user=ENV.new_uuid(), env=ENV)
    return sum(len(files) for _, files in built)


def _conditions() -> list[Any]:
    texts = ["t1", "t3", "t10", "t-10", "t", "u"]
    leaves = [
        *(Leaf(op, "v", (t,)) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE) for t in texts),
        *(Leaf(op, "v", (t,)) for op in (Op.STARTS_WITH, Op.ENDS_WITH) for t in ("t1", "", "0")),
        *(Leaf(Op.LIKE, "v", (t,)) for t in ("t1%", "%0", "t_", r"t\%", "t10")),
        Leaf(Op.IN, "v", ("t1", None, "t10")),
        Leaf(Op.NOT_IN, "v", ("t1", "t3")),
        Leaf(Op.BETWEEN, "v", ("t1", "t2")),
        Leaf(Op.EQ, "v", (None,)),
        Leaf(Op.IS_NULL, "v"),
        Leaf(Op.IS_NOT_NULL, "v"),
        *(Leaf(Op.EQ, "k", (k,)) for k in (0, 101, 7)),
        Leaf(Op.GE, "k", (200,)),
    ]
    pairs = list(itertools.islice(itertools.combinations(leaves, 2), 0, None, 17))
    return [*leaves, *map(And, pairs), *map(Or, pairs), And(()), Or(())]


@pytest.mark.parametrize("per_file", ["1", "2", "4", "1000"])
def test_no_matching_row_is_ever_ruled_out(tmp_path, per_file):
    lake = _lake(tmp_path, **{"sorted-index.records-per-range": per_file})
    assert _build(lake, "v") == {"1": 7, "2": 4, "4": 2, "1000": 1}[per_file]
    lake.append({"k": [400, 401], "v": ["t1", "t99"]})  # no index covers these
    _check(lake)
    assert _build(lake, "k") > 0
    _check(lake)


def _check(lake: Lake) -> None:
    table = lake.table()
    snapshot = table.latest_or_not_found()
    every = pa.Table.from_batches(read_table(table, snapshot))
    groups = [RowRange(*r) for r in ((0, 2), (3, 5), (6, 8), (9, 10), (11, 12))]
    ruled_out = 0
    for condition in _conditions():
        matching = np.flatnonzero(np.asarray(evaluate(condition, every)))
        rows = MatchingRows(table, snapshot, condition)
        for group in groups:
            inside = (matching >= group.first) & (matching <= group.last)
            none = rows.none_in(group)
            assert not (none and inside.any()), (condition, group)
            ruled_out += none
        found = [b.num_rows for b in read_table(table, snapshot, predicate=condition)]
        assert sum(found) == len(matching), condition
    assert ruled_out > len(groups) * 10


def test_a_type_that_changed_hides_the_index(tmp_path):
    lake = _lake(tmp_path)
    _build(lake, "k")
    Sql(lake.warehouse)("ALTER TABLE db.t ALTER COLUMN k TYPE BIGINT")
    table = lake.table()
    asked = Leaf(Op.EQ, "k", (7,))
    assert matching_rows(table, table.latest_or_not_found(), asked) is None
    with pytest.raises(InvalidArgument, match="older than the type"):
        unindexed_parts(table, table.latest_or_not_found(), indexed_field(table, "k", "btree"))


def test_an_index_that_updates_leave_behind_is_not_used(tmp_path):
    lake = _lake(tmp_path, **{"global-index.column-update-action": "IGNORE"})
    _build(lake, "v")
    table = lake.table()
    part = unindexed_parts(table, table.latest_or_not_found(), indexed_field(table, "k", "btree"))
    (group, *_) = part[0].groups
    assert rows_of_group(group) == RowRange(0, 2)
    update_columns(table, group, v=["new", "t2", "t3"])
    table = lake.table()
    asked = Leaf(Op.EQ, "v", ("new",))
    rows = list(read_table(table, table.latest_or_not_found(), predicate=asked))
    assert sum(b.num_rows for b in rows) == 1


def test_a_missing_index_file_hides_no_rows(tmp_path):
    """Also where others of the same range are there."""
    lake = _lake(tmp_path, **{"sorted-index.records-per-range": "1"})
    _build(lake, "v")
    table = lake.table()
    for file in sorted(Path(table.paths.index_dir).iterdir()):
        rest = file.rename(tmp_path / file.name)
        for value, count in (("t1", 1), ("t2", 1), ("t3", 3), ("t10", 2), ("t-10", 1)):
            asked = Leaf(Op.EQ, "v", (value,))
            rows = read_table(table, table.latest_or_not_found(), predicate=asked)
            assert sum(b.num_rows for b in rows) == count
        rest.rename(file)


def test_the_files_lie_in_the_index_folder_whatever_the_option_says(tmp_path):
    lake = _lake(tmp_path)
    _build(lake, "v")
    table = lake.table()
    (entry, *_) = table.index_entries(table.latest_or_not_found())
    paths = replace(table.paths, index_beside_data=True)
    assert Path(paths.index_file(entry.partition, 0, entry.index_file)).exists()


def test_the_file_is_byte_for_byte_javas(tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(GOLDEN / "warehouse", lake)
    table = open_table(str(lake), "db.t")
    snapshot = table.latest_or_not_found()
    (entry,) = table.index_entries(snapshot)
    java = Path(table.paths.index_file(entry.partition, 0, entry.index_file)).read_bytes()
    column = pa.Table.from_batches(read_table(table, snapshot, columns=["k"]))["k"]
    field = indexed_field(table, "k", "btree")
    path, keys, values = tmp_path / "ours", KeyType(field.type, "k"), column.combine_chunks()
    written = write_btree(
        IO, str(path), values, np.arange(len(values)), keys, keys.order(values),
        block_size=64 * 1024, codec=Codec(),
    )  # fmt: skip
    assert path.read_bytes() == java
    assert written.meta.encode() == entry.index_file.global_index["_INDEX_META"]
    assert written.rows == entry.index_file.row_count
