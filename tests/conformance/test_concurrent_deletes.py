"""Rows of append tables are deleted while compaction runs: none comes back, no other one goes."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from command_line import caretaker, read_rows
from lakes import Lake
from row_deletes import delete_rows

from paimon_core.errors import CommitConflict

FILES = 12
ROWS = 10


@pytest.mark.parametrize("buckets", ["-1", "2"])
def test_deletes_beside_compactions(tmp_path: Path, buckets: str) -> None:
    lake = Lake(tmp_path)
    options = {
        "bucket": buckets,
        "write-only": "true",
        "deletion-vectors.enabled": "true",
        "compaction.min.file-num": "2",
        "commit.max-retries": "1000",
    }
    if buckets != "-1":
        options["bucket-key"] = "k"
    lake.create(primary_key=False, options=options)
    lake.append({"k": [-1], "v": ["first"]})
    chance = random.Random(buckets)
    gone: set[int] = set()
    errors: list[BaseException] = []
    conflicts = 0

    def change() -> None:
        nonlocal conflicts
        try:
            for number in range(FILES):
                keys = list(range(number * ROWS, (number + 1) * ROWS))
                lake.append({"k": keys, "v": ["x"] * ROWS})
                there = sorted(set(range(keys[-1] + 1)) - gone)
                victims = chance.sample(there, min(4, len(there)))
                # One that conflicts is tried again, as Spark's user would.
                while True:
                    try:
                        assert delete_rows(lake.table(), victims) == len(victims)
                        break
                    except CommitConflict:
                        conflicts += 1
                gone.update(victims)
        except BaseException as e:  # noqa: BLE001 - told by the test
            errors.append(e)

    changing = threading.Thread(target=change)
    changing.start()
    compacted = 0
    command = ("run", "compact", "db.t", "-w", tmp_path, "--engine", "local", "--json")
    while changing.is_alive():
        ran = caretaker(*command)
        # A compaction that loses time after time gives up: that is no damage.
        assert ran.code in (0, 3) or ran.json["error"]["type"] == "CommitConflict", ran.out
        compacted += ran.code == 0
    changing.join()
    assert errors == []
    assert compacted
    left = sorted({-1, *range(FILES * ROWS)} - gone)
    assert sorted(row[1] for row in read_rows(tmp_path)) == left
    assert caretaker(*command).code in (0, 3)
    assert sorted(row[1] for row in read_rows(tmp_path)) == left
    assert caretaker("verify", "db.t", "-w", tmp_path).code == 0
