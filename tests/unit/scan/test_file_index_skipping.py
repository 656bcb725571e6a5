"""File indexes skip files and never lose a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import ENV
from long_run import examples

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import change_from_object
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import And, Leaf, Op, Or, Predicate, evaluate
from paimon_core.read import data_file
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter

KINDS = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
TYPES = {"a": ("INT", pa.int32()), "b": ("BIGINT", pa.int64()), "s": ("STRING", pa.string())}
COLUMNS = {"bsi": "a,b"}
NO_STATISTICS = {"metadata.stats-mode": "none"}
"""So that nothing but the index can skip."""

Row = tuple[int | None, int | None, str | None]


def make(
    warehouse: Path, kind: str, *, name: str, threshold: str, primary_key: bool = False
) -> FileStoreTable:
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db", if_not_exists=True)
    columns = [Column("k", "INT NOT NULL"), *(Column(n, sql) for n, (sql, _) in TYPES.items())]
    options = {
        f"file-index.{kind}.columns": COLUMNS.get(kind, "a,b,s"),
        "file-index.in-manifest-threshold": threshold,
        "bucket": "1" if primary_key else "-1",
        "write-only": "true",
        **NO_STATISTICS,
    }
    if kind == "bloom-filter":
        options |= {f"file-index.{kind}.{n}.items": "100" for n in TYPES}
    schema = create_schema(
        columns, now_millis=0, primary_keys=["k"] if primary_key else [], options=options
    )
    catalog.create_table(f"db.{name}", schema)
    return open_table(str(warehouse), f"db.{name}")


def append(table: FileStoreTable, keys: list[int], rows: list[Row]) -> None:
    writer = RowWriter(table, env=ENV)
    columns: dict[str, Any] = {"k": pa.array(keys, pa.int32())}
    for i, (name, (_, arrow)) in enumerate(TYPES.items()):
        columns[name] = pa.array([r[i] for r in rows], arrow)
    writer.write(pa.table(columns))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def read(table: FileStoreTable, predicate: Predicate | None) -> list[dict[str, Any]]:
    batches = list(read_table(table, table.latest_or_not_found(), predicate=predicate))
    rows = [r for b in batches for r in b.to_pylist()]
    return sorted(rows, key=lambda r: r["k"])


def filtered(table: FileStoreTable, predicate: Predicate) -> list[dict[str, Any]]:
    batches = read_table(table, table.latest_or_not_found())
    rows = [r for b in batches for r in b.filter(evaluate(predicate, b)).to_pylist()]
    return sorted(rows, key=lambda r: r["k"])


small = st.none() | st.integers(-4, 4)
texts = st.none() | st.sampled_from(["", "a", "b", "ab", "zzzzzzzzzzzzzzzzzzzz"])
rows = st.tuples(small, small, texts)
leaves = st.one_of(
    st.builds(
        lambda op, f, v: Leaf(op, f, (v,)),
        st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]),
        st.sampled_from(["a", "b"]),
        st.integers(-5, 5),
    ),
    st.builds(
        lambda op, v: Leaf(op, "s", (v,)),
        st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.GE, Op.STARTS_WITH]),
        st.sampled_from(["", "a", "ab", "q"]),
    ),
    st.builds(
        lambda op, f, v: Leaf(op, f, tuple(v)),
        st.sampled_from([Op.IN, Op.NOT_IN]),
        st.sampled_from(["a", "b"]),
        st.lists(st.integers(-5, 5), min_size=1, max_size=3),
    ),
    st.builds(Leaf, st.sampled_from([Op.IS_NULL, Op.IS_NOT_NULL]), st.sampled_from(["a", "s"])),
)
predicates = st.recursive(
    leaves,
    lambda p: (
        st.builds(lambda c: And(tuple(c)), st.lists(p, min_size=1, max_size=3))
        | st.builds(lambda c: Or(tuple(c)), st.lists(p, min_size=1, max_size=3))
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("primary_key", [False, True])
@settings(max_examples=examples(25))
@given(
    files=st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=3),
    kind=st.sampled_from(KINDS),
    threshold=st.sampled_from(["0 b", "1 mb"]),
    asked=st.lists(predicates, min_size=1, max_size=4),
    same_keys=st.booleans(),
)
def test_no_row_is_lost(
    files: list[list[Row]],
    kind: str,
    threshold: str,
    asked: list[Predicate],
    tmp_path_factory: pytest.TempPathFactory,
    *,
    same_keys: bool,
    primary_key: bool,
) -> None:
    warehouse = tmp_path_factory.mktemp("lake")
    table = make(warehouse, kind, name="t", threshold=threshold, primary_key=primary_key)
    for i, content in enumerate(files):
        first = 0 if same_keys else i * 10
        append(table, list(range(first, first + len(content))), content)
    for predicate in asked:
        assert read(table, predicate) == filtered(table, predicate), predicate


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_skipped(
    kind: str, threshold: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, kind, name="t", threshold=threshold)
    for i in range(5):
        append(table, [i, i + 10], [(i, i, f"s{i}"), (i + 100, i + 100, f"t{i}")])
    opened: list[str] = []
    plain = data_file.read_batches

    def counting(io: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        opened.append(path)
        return plain(io, path, *args, **kwargs)

    monkeypatch.setattr(data_file, "read_batches", counting)
    wanted = Leaf(Op.EQ, "a", (103,))
    planned = scan_files(table, table.latest_or_not_found(), predicate=wanted)
    assert len(planned) == (5 if threshold == "0 b" else 1)
    assert [r["k"] for r in read(table, wanted)] == [13]
    assert len(opened) == 1
    assert read(table, Leaf(Op.EQ, "a", (50,))) == []
    assert len(opened) == 1
    unread = open_table(str(tmp_path), "db.t", dynamic_options={"file-index.read.enabled": "false"})
    assert [r["k"] for r in read(unread, wanted)] == [13]
    assert len(opened) == 6


def test_a_merged_bucket_is_kept_whole(tmp_path: Path) -> None:
    table = make(tmp_path, "bitmap", name="t", threshold="1 mb", primary_key=True)
    append(table, [1, 2], [(1, 1, "old"), (2, 2, "x")])
    append(table, [1, 3], [(9, 9, "new"), (3, 3, "y")])
    latest = table.latest_or_not_found()
    # Key 1 was 1 and is 9: the file with 1 alone would bring the old row back.
    assert len(scan_files(table, latest, predicate=Leaf(Op.EQ, "a", (1,)))) == 2
    assert read(table, Leaf(Op.EQ, "a", (1,))) == []
    assert scan_files(table, latest, predicate=Leaf(Op.EQ, "a", (50,))) == []


def test_renamed_columns_are_found_and_retyped_ones_remain(tmp_path: Path) -> None:
    table = make(tmp_path, "bitmap", name="t", threshold="1 mb")
    append(table, [1], [(1, 1, "x")])
    append(table, [2], [(2, 2, "y")])
    FileSystemCatalog(str(tmp_path)).alter_table(
        "db.t",
        [
            change_from_object({"change": "rename_column", "name": "s", "to": "text"}),
            change_from_object({"change": "update_type", "name": "a", "type": "BIGINT"}),
            change_from_object({"change": "add_column", "name": "s", "type": "STRING"}),
        ],
        now_millis=0,
    )
    table = table.refreshed()
    latest = table.latest_or_not_found()

    def planned(predicate: Predicate) -> int:
        return len(scan_files(table, latest, predicate=predicate))

    assert planned(Leaf(Op.EQ, "text", ("x",))) == 1
    assert planned(Leaf(Op.EQ, "a", (1,))) == 2
    assert planned(Leaf(Op.EQ, "s", ("x",))) == 0  # added later: null in all of these files
    assert planned(And((Leaf(Op.EQ, "a", (7,)), Leaf(Op.EQ, "text", ("y",))))) == 1
    assert planned(Or((Leaf(Op.EQ, "a", (7,)), Leaf(Op.EQ, "text", ("q",))))) == 2
    assert [r["k"] for r in read(table, Leaf(Op.EQ, "a", (1,)))] == [1]


def test_a_lost_index_file_loses_nothing(tmp_path: Path) -> None:
    table = make(tmp_path, "bloom-filter", name="t", threshold="0 b")
    append(table, [1], [(1, 1, "x")])
    (index,) = Path(table.root).rglob("*.index")
    index.unlink()
    assert [r["k"] for r in read(table, Leaf(Op.EQ, "a", (1,)))] == [1]
