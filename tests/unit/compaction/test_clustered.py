"""`pk-clustering-override`: each key has one live row, in files sorted by other columns."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import ENV

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.compaction import clustered_rows
from paimon_core.compaction.clustered_pick import pick_clustered
from paimon_core.compaction.unit import CompactUnit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import CommitConflict, SchemaError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.key_order import stored_key
from paimon_core.manifest.data_file import DataFileMeta, FileSource
from paimon_core.read.incremental import read_diff
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.table.open import open_table
from paimon_core.table.sink.compact_table import buckets_of, compact_buckets, compact_table
from paimon_core.types.binary_row import encode_row
from paimon_core.types.sql import parse_type
from paimon_core.write import external_sort
from paimon_core.write.row_writer import RowWriter

ARROW = {
    "a": pa.int32(),
    "b": pa.string(),
    "c": pa.float64(),
    "d": pa.string(),
    "e": pa.decimal128(20, 2),
}
COLUMNS = [
    Column("a", "INT NOT NULL"),
    Column("b", "STRING NOT NULL"),
    Column("c", "DOUBLE"),
    Column("d", "STRING"),
    Column("e", "DECIMAL(20, 2)"),
]
OPTIONS = {
    "bucket": "2",
    "pk-clustering-override": "true",
    "clustering.columns": "c",
    "deletion-vectors.enabled": "true",
    "write-only": "true",
}
FLOATS = [None, -1.5, -0.0, 0.0, 2.25, float("inf"), float("nan")]


def _create(warehouse: Path, keys: Sequence[str] = ("a",), **options: str) -> FileStoreTable:
    catalog = FileSystemCatalog(str(warehouse))
    catalog.create_database("db", if_not_exists=True)
    told = OPTIONS | {k.replace("_", "-"): v for k, v in options.items()}
    schema = create_schema(COLUMNS, now_millis=1, primary_keys=list(keys), options=told)
    catalog.create_table("db.t", schema)
    return open_table(str(warehouse), "db.t")


def _write(table: FileStoreTable, rows: list[dict[str, Any]], kinds: list[int]) -> None:
    writer = RowWriter(table, env=ENV)
    columns = {n: pa.array([r[n] for r in rows], t) for n, t in ARROW.items()}
    writer.write(pa.table(columns), np.array(kinds, np.int8))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def _rows(table: FileStoreTable) -> list[str]:
    latest = table.latest_or_not_found()
    return sorted(
        str([row[n] for n in ARROW])
        for batch in read_table(table, latest)
        for row in batch.to_pylist()
    )


def _check_files(table: FileStoreTable, columns: tuple[str, ...]) -> list[DataFileMeta]:
    """The files above level 0 are in the order of their columns, and their bounds say so."""
    row_type = table.schema.row_type.project(columns)
    found = []
    for entry in scan_files(table, table.latest_or_not_found()):
        file = entry.file
        if file.level == 0:
            continue
        found.append(file)
        assert file.delete_row_count == 0
        assert file.file_source is FileSource.COMPACT
        assert stored_key(file.min_key, row_type) <= stored_key(file.max_key, row_type)
    return found


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_rows_are_those_of_a_model(
    seed: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = data.draw(st.sampled_from([["a"], ["b"], ["a", "b"], ["b", "a"]]))
    columns = data.draw(st.sampled_from([("c",), ("d", "c"), ("e",), ("d",), ("c", "a")]))
    first_row = data.draw(st.booleans())
    options = {
        "clustering.columns": ",".join(columns),
        "file.format": data.draw(st.sampled_from(["parquet", "parquet", "orc", "avro"])),
        "target-file-size": data.draw(st.sampled_from(["128 mb", "3 kb"])),
        "merge-engine": "first-row" if first_row else "deduplicate",
        "bucket": data.draw(st.sampled_from(["1", "2", "-1"])),
        "deletion-vectors.enabled": "false" if first_row else "true",
    }
    if options["bucket"] == "-1":
        options["dynamic-bucket.target-row-num"] = "30"
    table = _create(tmp_path_factory.mktemp("lake"), keys, **options)
    dice = random.Random(seed)
    model: dict[tuple[Any, ...], dict[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustered_rows, "CHUNK_ROWS", dice.choice([1, 7, 1_000_000]))
        patch.setattr(clustered_rows, "_KEYS_AT_ONCE", dice.choice([3, 1_000_000]))
        for _ in range(6):
            rows: dict[tuple[Any, ...], tuple[dict[str, Any], int]] = {}
            for _ in range(dice.choice([1, 20, 60])):
                row = {
                    "a": dice.randrange(40),
                    "b": f"key {dice.randrange(3)} of many" + "é" * dice.randrange(2),
                    "c": dice.choice(FLOATS),
                    "d": dice.choice([None, "", "long " * 9 + str(dice.randrange(5)), "é"]),
                    "e": dice.choice([None, dice.randrange(-(10**6), 10**6) * 10**10]),
                }
                key = tuple(row[k] for k in keys)
                gone = not first_row and key in model and dice.random() < 0.3
                rows[key] = (model[key] if gone else row, 3 if gone else 0)
            _write(table, [r for r, _ in rows.values()], [k for _, k in rows.values()])
            for key, (row, kind) in rows.items():
                if kind:
                    model.pop(key, None)
                elif first_row:
                    model.setdefault(key, row)
                else:
                    model[key] = row
            if dice.random() < 0.6:
                full = dice.random() < 0.4
                compact_table(table, full=full, env=ENV)
                expected = pa.Table.from_pylist(
                    list(model.values()), schema=pa.schema(ARROW.items())
                )
                assert _rows(table) == sorted(
                    str([r[n] for n in ARROW]) for r in expected.to_pylist()
                )
                files = _check_files(table, columns)
                if full:
                    assert not vector_files(table, table.latest_or_not_found())
                    assert sum(f.row_count for f in files) == len(model)
    compact_table(table, full=True, env=ENV)
    assert compact_table(table, full=True, env=ENV) == ()


def test_more_rows_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _create(tmp_path, bucket="1")
    whole = external_sort.sorted_rows
    monkeypatch.setattr(
        "paimon_core.compaction.clustered_rows.sorted_rows",
        lambda *args, **told: whole(*args, memory_bytes=20_000, **told),
    )
    for commits in range(2):
        rows = [
            {"a": n, "b": "", "c": float(n * 7919 % 5003), "d": str(commits), "e": None}
            for n in range(commits * 1000, commits * 1000 + 3000)
        ]
        _write(table, rows, [0] * len(rows))
        compact_table(table, full=False, env=ENV)
    compact_table(table, full=True, env=ENV)
    (file,) = _check_files(table, ("c",))
    shown = [r for b in read_table(table, table.latest_or_not_found()) for r in b.to_pylist()]
    assert [r["a"] for r in shown] == sorted(range(4000), key=lambda n: (n * 7919 % 5003, n))
    assert {r["a"] for r in shown if r["d"] == "1"} == set(range(1000, 4000))
    assert file.row_count == 4000


def test_files_of_one_value_are_not_merged_again(tmp_path: Path) -> None:
    table = _create(tmp_path, bucket="1", **{"target-file-size": "3 kb"})
    for commits in range(2):
        keys = range(commits, 9000, commits + 1)
        _write(
            table,
            [{"a": n, "b": "", "c": float(n % 2), "d": str(n), "e": None} for n in keys],
            [0] * len(keys),
        )
    assert compact_table(table, full=True, env=ENV)
    files = _check_files(table, ("c",))
    assert len(files) > 3
    for full in (True, False):
        assert compact_table(table, full=full, env=ENV) == ()


@pytest.mark.parametrize("full", [False, True])
def test_rows_that_are_replaced_meanwhile_are_not_lost(full: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A merge of compacted files does not name the new files that another compaction takes."""
    table = _create(tmp_path, bucket="1")

    def row(a: int, d: str) -> dict[str, Any]:
        return {"a": a, "b": "", "c": float(a), "d": d, "e": None}

    for keys in (range(5), range(3, 9)):
        _write(table, [row(a, "old") for a in keys], [0] * len(keys))
        compact_table(table, full=False, env=ENV)
    slow = compact_buckets(table, buckets_of(table), full=full, env=ENV)
    assert slow[0].before
    _write(table, [row(4, "new")], [0])
    assert compact_table(table, full=False, env=ENV)
    with pytest.raises(CommitConflict):
        commit(table, [m for r in slow for m in r.to_messages()], user="u", env=ENV)
    assert _rows(table) == sorted(
        str(list(row(a, "new" if a == 4 else "old").values())) for a in range(9)
    )


def test_a_unit_survives_its_bytes(tmp_path: Path) -> None:
    table = _create(tmp_path, bucket="1")
    files = [_file(n, level=min(n, 1), low=n, high=n + 2) for n in range(5)]
    for full in (False, True):
        unit = _pick(table, files, full=full)
        assert unit is not None
        assert CompactUnit.from_bytes(unit.to_bytes()) == unit


MB = 1024**2


@pytest.mark.parametrize(
    ("files", "full", "groups"),  # level, least and greatest value, megabytes
    [
        ([], False, None),
        ([], True, None),
        ([(1, 0, 9, 200)], True, None),
        # Overlapping files are merged, and small ones with their neighbors.
        ([(1, 0, 5, 100), (1, 4, 9, 100)], False, [{0, 1}]),
        ([(1, 0, 5, 100), (1, 5, 5, 100), (1, 5, 9, 100)], False, None),
        ([(1, 0, 5, 100), (1, 5, 5, 100), (1, 5, 9, 100)], True, None),
        ([(1, 0, 4, 100), (1, 5, 9, 100)], False, None),
        ([(1, 0, 4, 10), (1, 5, 9, 10)], False, [{0, 1}]),
        ([(1, 0, 4, 10), (1, 5, 9, 100), (1, 10, 11, 10)], False, None),
        (
            [(1, 0, 4, 100), (1, 3, 5, 1), (1, 6, 7, 100), (1, 8, 9, 1), (1, 9, 9, 1)],
            False,
            [{0, 1}, {3, 4}],
        ),
        # New rows get files of their own, or are part of everything.
        ([(0, 0, 9, 1), (1, 0, 4, 100), (1, 5, 9, 100)], False, []),
        ([(0, 0, 9, 1), (1, 0, 4, 100), (1, 5, 9, 100)], True, [{1, 2}]),
        ([(0, 0, 9, 1)], True, []),
    ],
)
def test_what_is_due(
    files: list[tuple[int, int, int, int]],
    full: bool,  # noqa: FBT001
    groups: list[set[int]] | None,
    tmp_path: Path,
) -> None:
    table = _create(tmp_path)
    made = [
        replace(_file(number, level=level, low=low, high=high), file_size=size * MB)
        for number, (level, low, high, size) in enumerate(files)
    ]
    unit = _pick(table, made, full=full)
    if groups is None:
        assert unit is None
        return
    assert unit is not None
    assert unit.clustered is not None
    assert [{made.index(f) for f in group} for group in unit.clustered.groups] == groups
    new = {f.file_name for f in made if f.level == 0}
    assert {f.file_name for f in unit.rewritten_files} == new | {
        made[n].file_name for group in groups for n in group
    }


def test_a_full_compaction_drops_vectors_and_deletes(tmp_path: Path) -> None:
    table = _create(tmp_path)
    files = [
        replace(_file(n, level=1, low=2 * n, high=2 * n + 1), file_size=100 * MB) for n in range(3)
    ]
    assert _pick(table, files, full=True) is None
    unit = _pick(table, files, full=True, vectors={files[1].file_name})
    assert unit is not None
    assert unit.rewritten_files == (files[1],)
    assert _pick(table, files, full=False, vectors={files[1].file_name}) is None
    unit = _pick(table, [files[0], replace(files[2], delete_row_count=1)], full=True)
    assert unit is not None
    assert [f.file_name for f in unit.rewritten_files] == [files[2].file_name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clustering.columns": ""}, "needs clustering.columns"),
        ({"clustering.columns": "zz"}, "'zz'"),
        ({"deletion-vectors.enabled": "false"}, "needs deletion-vectors.enabled=true"),
        ({"merge-engine": "partial-update"}, "merge-engine=partial-update"),
        ({"changelog-producer": "lookup"}, "changelog-producer=lookup"),
        ({"sequence.field": "e"}, "sequence.field"),
        ({"record-level.expire-time": "1 d"}, "record-level.expire-time"),
    ],
)
def test_what_java_refuses_is_refused(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as refused:
        _create(tmp_path, **options)
    assert said in str(refused.value)


def _pick(
    table: FileStoreTable,
    files: list[DataFileMeta],
    *,
    full: bool,
    vectors: Collection[str] = (),
) -> CompactUnit | None:
    return pick_clustered(
        files,
        table.schema,
        schema_of=table.schema_of,
        partition=b"",
        bucket=0,
        total_buckets=1,
        full=full,
        with_deletion_vectors=vectors,
    )


def _file(number: int, *, level: int, low: int, high: int) -> DataFileMeta:
    types = [parse_type("INT NOT NULL" if level == 0 else "DOUBLE")]

    def bound(value: int) -> bytes:
        return encode_row([value if level == 0 else float(value)], types)

    return DataFileMeta(
        file_name=f"data-{number}.parquet",
        file_size=1,
        row_count=1,
        min_key=bound(low),
        max_key=bound(high),
        level=level,
        delete_row_count=0,
    )


def test_what_must_be_merged_is_refused(tmp_path: Path) -> None:
    table = _create(tmp_path, bucket="1")
    row = {"a": 1, "b": "", "c": 1.0, "d": "", "e": None}
    for _ in range(2):
        _write(table, [row], [0])
        compact_table(table, full=True, env=ENV)
    first, last = (table.snapshots.get(n) for n in (2, 4))
    with pytest.raises(UnsupportedFeature, match="scan-mode=delta"):
        list(read_diff(table, first, last))
    _write(table, [row], [0])
    merging = open_table(
        str(tmp_path), "db.t", dynamic_options={"deletion-vectors.merge-on-read": "true"}
    )
    with pytest.raises(UnsupportedFeature, match="compact the table fully"):
        _rows(merging)
    compact_table(table, full=True, env=ENV)
    assert _rows(merging) == _rows(table)
