"""Compaction of append tables with deletion vectors: deleted rows are removed, other rows stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker, read_rows
from lakes import Lake
from row_deletes import delete_rows

from paimon_core.read.table_read import deletion_vectors
from paimon_core.scan.vectors import vector_files
from paimon_maintenance.jobs.compact import execute

SMALL_FILES = {"target__file__size": "4 kb", "source_split_open__file__cost": "1 b"}


def keys(lake: Lake) -> list[int]:
    return sorted(row[1] for row in read_rows(lake.warehouse))


def compact(lake: Lake, *more: str, code: int = 0) -> Ran:
    command = ("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local", "--json")
    ran = caretaker(*command, *more)
    assert ran.code == code, (ran.code, ran.err, ran.out)
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    return ran


def cardinalities(lake: Lake) -> list[int]:
    table = lake.table()
    return sorted(map(len, deletion_vectors(table, table.latest_or_not_found()).values()))


def names(lake: Lake) -> set[str]:
    files = caretaker("files", "db.t", "-w", lake.warehouse, "--json").json["files"]
    return {f["file"] for f in files}


def index_files(lake: Lake) -> list[Any]:
    table = lake.table()
    found = vector_files(table, table.latest_or_not_found())
    return [f for files in found.values() for f in files]


@pytest.mark.parametrize("bitmap64", ["false", "true"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_deleted_rows_are_not_copied(lake: Lake, partitioned: bool, bitmap64: str) -> None:  # noqa: FBT001
    lake.log(
        partitioned=partitioned,
        **{"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bitmap64},
    )
    for i in range(5):
        rows: dict[str, list[Any]] = {"k": [i * 10 + j for j in range(10)], "v": ["x"] * 10}
        if partitioned:
            rows["dt"] = [f"day{j % 2}" for j in range(10)]
        lake.append(rows)
    assert delete_rows(lake.table(), {3, 4, 17}) == 3
    assert delete_rows(lake.table(), {5, 17, 44}) == 2
    left = sorted(set(range(50)) - {3, 4, 5, 17, 44})
    assert keys(lake) == left
    ran = compact(lake)
    assert ran.json["after"]["rows"] == len(left)
    assert keys(lake) == left
    assert index_files(lake) == []
    compact(lake, code=3)


def test_small_and_much_deleted_files_are_rewritten_the_vectors_of_others_stay(lake: Lake) -> None:
    lake.log(**{"deletion-vectors.enabled": "true"}, **SMALL_FILES)
    noise = [f"{i * 7919 % 10007:05d}{i * 104729 % 99991:05d}" for i in range(1500)]
    for start in (0, 500, 1000):  # each larger than 70 % of the target
        lake.append({"k": list(range(start, start + 500)), "v": noise[start : start + 500]})
    lake.append({"k": [2000, 2001], "v": ["a", "b"]})
    gone = {0, 1, *range(500, 700), 2001}
    assert delete_rows(lake.table(), gone) == len(gone)
    assert (len(index_files(lake)), cardinalities(lake)) == (1, [1, 2, 200])
    before = names(lake)
    compact(lake)
    # The last two: one is small, of the other more than 20 % is deleted.
    assert len(before - names(lake)) == 2
    assert cardinalities(lake) == [2]
    assert keys(lake) == sorted({*range(1500), 2000, 2001} - gone)
    compact(lake, code=3)


def test_index_files_are_rolled(lake: Lake) -> None:
    lake.log(
        **{
            "deletion-vectors.enabled": "true",
            "deletion__vector.index__file.target__size": "1 b",
        },
        **SMALL_FILES,
    )
    noise = [f"{i * 7919 % 10007:05d}{i * 104729 % 99991:05d}" for i in range(1500)]
    for start in (0, 500, 1000):
        lake.append({"k": list(range(start, start + 500)), "v": noise[start : start + 500]})
    delete_rows(lake.table(), {1, 501, 1001})
    assert len(index_files(lake)) == 3
    assert keys(lake) == sorted(set(range(1500)) - {1, 501, 1001})


@pytest.mark.parametrize("strategy", ["full", "minor"])
def test_buckets_of_append_tables(lake: Lake, strategy: str) -> None:
    lake.create(
        primary_key=False,
        options={
            "bucket": "2",
            "bucket-key": "k",
            "write-only": "true",
            "deletion-vectors.enabled": "true",
            "compaction.min.file-num": "2",
        },
    )
    for i in range(4):
        lake.append({"k": [i * 10 + j for j in range(10)], "v": ["x"] * 10})
    gone = {1, 2, 3, 25, 39}
    assert delete_rows(lake.table(), gone) == 5
    assert len(index_files(lake)) == 2
    compact(lake, "--strategy", strategy)
    assert keys(lake) == sorted(set(range(40)) - gone)
    assert index_files(lake) == []
    compact(lake, code=3)


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_rows_deleted_meanwhile_stay_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    """The first attempt would bring them back: it conflicts, and the bucket is planned again."""
    options = {"bucket": bucket, "write-only": "true", "deletion-vectors.enabled": "true"}
    if bucket == "1":
        options["bucket-key"] = "k"
    lake.create(primary_key=False, options=options)
    for i in range(6):
        lake.append({"k": [i * 2, i * 2 + 1], "v": ["x", "y"]})
    delete_rows(lake.table(), {2})
    real, todo = execute.commit_messages, [{4}, {5}]

    def commit(*args: Any, **kwargs: Any) -> Any:
        if todo:
            # First a file without a vector gets one, then a vector is replaced.
            assert delete_rows(lake.table(), todo.pop(0))
        return real(*args, **kwargs)

    monkeypatch.setattr(execute, "commit_messages", commit)
    ran = compact(lake)
    assert not todo
    assert ran.json["attempts"] == 3
    assert keys(lake) == sorted(set(range(12)) - {2, 4, 5})
    assert index_files(lake) == []
    referenced = lake.referenced()
    assert lake.on_disk() == referenced
    root = Path(lake.table().root)
    table = lake.table()
    named = {
        f.file_name
        for s in table.snapshots.all()
        for files in vector_files(table, s).values()
        for f in files
    }
    assert {p.name for p in (root / "index").iterdir()} == named
