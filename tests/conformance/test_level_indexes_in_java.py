"""Indexes of primary keys, of 2.0: Java and we write and compact in turns, and Java uses ours."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import caretaker, compact, in_order
from disk import on_disk, referenced
from replay import run_step

from oracle import Oracle
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.global_index.bitmap import write_bitmap
from paimon_core.index.global_index.btree import write_btree
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.global_index.sorted_file import Codec
from paimon_core.index.primary_key import Sources, has_sources, is_indexed, sources_of
from paimon_core.manifest.data_file import IndexFileMeta
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.types.sql import parse_type
from paimon_maintenance.job.exit_codes import ExitCode

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "DECIMAL(20, 2)"},
]
OPTIONS = {
    "bucket": "2",
    "deletion-vectors.enabled": "true",
    "pk-btree.index.columns": "v,n",
    "fields.v.pk-btree.index.options": '{"block-size": "1 kb", "btree-index.compression": "zstd"}',
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "3",
}
FILTERS: dict[str, tuple[dict[str, Any], Callable[[Any, Any], bool]]] = {
    "equal": ({"field": "v", "op": "=", "value": "w4"}, lambda v, n: v == "w4"),
    "null": ({"field": "v", "op": "isNull"}, lambda v, n: v is None),
    "greater": ({"field": "n", "op": ">", "value": "5.00"}, lambda v, n: n and float(n) > 5),
}


def _level_indexes(table: FileStoreTable) -> list[tuple[int, object, IndexFileMeta]]:
    return [
        (e.bucket, (e.index_file.global_index or {})["_INDEX_FIELD_ID"], e.index_file)
        for e in table.index_entries(table.latest_or_not_found())
        if has_sources(e.index_file)
    ]


def _check_coverage(table: FileStoreTable) -> None:
    """Each level of each bucket has one index file for each column, and there are no others."""
    levels: dict[tuple[int, int], list[Any]] = {}
    for entry in scan_files(table, table.latest_or_not_found()):
        if is_indexed(entry.file):
            levels.setdefault((entry.bucket, entry.file.level), []).append(entry.file)
    wanted = {
        (bucket, field, Sources.of(level, files))
        for (bucket, level), files in levels.items()
        for field in (1, 2)
    }
    found = [(bucket, field, sources_of(file)) for bucket, field, file in _level_indexes(table)]
    assert set(found) == wanted
    assert len(found) == len(wanted)


KINDS = {
    "btree": {},
    "bitmap": {
        "pk-btree.index.columns": "",
        "pk-bitmap.index.columns": "n,v",
        "bitmap-index.dictionary-block-size": "64",
        "fields.n.pk-bitmap.index.options": '{"compression": "zstd"}',
    },
    "both": {"pk-btree.index.columns": "n", "pk-bitmap.index.columns": "v"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_taking_turns(kind: str, seed: int, oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    options = {k: v for k, v in (OPTIONS | KINDS[kind]).items() if v}
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    java = oracle_2_0_0.defaults(**at)
    java.one("create_database")
    if seed:
        java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    else:
        made = {"columns": COLUMNS, "primary_keys": ["k"], "options": options}
        assert "error" not in run_step({"op": "create_table", **at, **made})
    dice = random.Random(seed)
    written: dict[int, list[Any]] = {}
    for turn in range(10):
        rows: list[Any] = []
        for k in dice.sample(range(60), 25):
            row = [k, dice.choice([None, f"w{dice.randrange(9)}"]), f"{dice.randrange(10)}.50"]
            if k in written and dice.random() < 0.3:
                rows.append({"kind": "-D", "values": written.pop(k)})
            else:
                written[k] = row
                rows.append(row)
        if turn % 2:
            java.one("write", rows=rows)
        else:
            assert "error" not in run_step({"op": "write", **at, "rows": rows})
        if turn in (4, 7):
            java.one("compact", full=turn == 7, dynamic={"write-only": "false"})
        else:
            compact(tmp_path, "full" if turn % 4 == 3 else "minor")
        _check_coverage(open_table(str(tmp_path), "db.t"))
        # A minor compaction may leave new rows where queries do not see them.
        seen = {row[1]: row[2:] for row in java.rows()}
        assert {row[1]: row[2:] for row in run_step({"op": "read", **at})["rows"]} == seen
        if turn % 4 == 3:
            assert seen == {k: row[1:] for k, row in written.items()}
        for name, (condition, matches) in FILTERS.items():
            found = java.one("read", filter=condition)["rows"]
            expected = [["+I", k, v, n] for k, (v, n) in seen.items() if matches(v, n)]
            assert in_order(found) == in_order(expected), (turn, name)
    for words in (("run", "rescale", "db.t", "--bucket-num", 3), ("verify", "db.t", "--deep")):
        ran = caretaker(*words[:3], "-w", tmp_path, *words[3:])
        assert ran.code == ExitCode.SUCCESS, ran.err
    assert not _level_indexes(open_table(str(tmp_path), "db.t"))  # no file has source COMPACT
    assert {row[1]: row[2:] for row in java.rows()} == {k: row[1:] for k, row in written.items()}
    words = ("--retain-max", 1, "--retain-min", 1)
    ran = caretaker("run", "expire_snapshots", "db.t", "-w", tmp_path, *words)
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert on_disk(tmp_path / "db.db" / "t") == referenced(tmp_path)


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_java_looks_rows_up_in_our_index(kind: str, oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    """If the index file says so, Java does not find a row."""
    java = oracle_2_0_0.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    options[f"pk-{kind}.index.columns"] = "v"
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    java.one("write", rows=[[1, "a", None], [2, "b", None]])
    java.one("write", rows=[[3, "a", None]])
    compact(tmp_path, "full")
    asked = {"field": "v", "op": "=", "value": "a"}
    assert [row[1] for row in java.one("read", filter=asked)["rows"]] == [1, 3]
    table = open_table(str(tmp_path), "db.t")
    ((_, _, file),) = _level_indexes(table)
    lie, keys = pa.array(["a", "b", "b"], pa.large_string()), KeyType(parse_type("STRING"), "v")
    path = table.paths.index_file(b"", 0, file)
    Path(path).unlink()
    numbers, codec = np.arange(3), Codec("none", 1)
    write = {"btree": write_btree, "bitmap": write_bitmap}[kind]
    written = write(
        *(table.io, path, lie, numbers, keys, keys.order(lie)), block_size=1024, codec=codec
    )
    assert written.rows == file.row_count
    assert [row[1] for row in java.one("read", filter=asked)["rows"]] == [1]


def test_two_compactions_at_once(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    """The second one of them must not leave two index files for a level."""
    from paimon_core.commit.committer import commit
    from paimon_core.environment import system_environment
    from paimon_core.errors import CommitConflict
    from paimon_core.table.sink.compact_table import buckets_of, compact_buckets

    java = oracle_2_0_0.defaults(warehouse=str(tmp_path), database="db", table="t")
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, primary_keys=["k"], options=OPTIONS)
    env = system_environment()
    for number in range(3):
        java.one("write", rows=[[k, f"{number}", None] for k in range(number, number + 9)])
        table = open_table(str(tmp_path), "db.t")
        slow = compact_buckets(table, buckets_of(table), full=True, env=env)
        compact(tmp_path, "full")
        with pytest.raises(CommitConflict):
            commit(table, [m for r in slow for m in r.to_messages()], user="u", env=env)
        _check_coverage(table)


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_index_files_are_those_of_java(kind: str, oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    options |= {f"pk-{kind}.index.columns": "v,n", "bitmap-index.dictionary-block-size": "200"}
    oracle_2_0_0.defaults(warehouse=str(tmp_path), database="db", table="t")
    oracle_2_0_0.one("create_database")
    oracle_2_0_0.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    dice = random.Random(kind)
    for _ in range(2):
        rows = [
            [k, dice.choice([None, "", f"é{dice.randrange(70)}"]), f"{dice.randrange(10**9)}.25"]
            for k in dice.sample(range(400), 300)
        ]
        oracle_2_0_0.one("write", rows=rows)
    shutil.copytree(tmp_path / "db.db", tmp_path / "java.db")
    compact(tmp_path, "full")
    oracle_2_0_0.one("compact", full=True, database="java", dynamic={"write-only": "false"})
    found = []
    for name in ("db.t", "java.t"):
        table = open_table(str(tmp_path), name)
        found.append(
            {
                field: (
                    Path(table.paths.index_file(b"", 0, file)).read_bytes(),
                    file.row_count,
                    (file.global_index or {})["_INDEX_META"],
                )
                for _, field, file in _level_indexes(table)
            }
        )
    assert set(found[0]) == {1, 2}
    if kind == "btree":  # Java's B-trees have the rows of a key in any order
        ours, theirs = (f.pop(1) for f in found)
        assert (len(ours[0]), *ours[1:]) == (len(theirs[0]), *theirs[1:])
    assert found[0] == found[1]
