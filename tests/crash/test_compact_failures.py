"""Compaction with every single file operation failing once: before or after it took effect.

Whatever fails, the table reads the same, nothing dangles, and a second run finishes the job.  With
`dead` every later call fails too, as after a kill: nothing gets cleaned up.  Without it, the run
may clean up after itself, and then must not have deleted anything that is in use.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failing_io import FailingFileIO, Trigger, When
from lakes import Lake
from replay import run_step
from row_deletes import delete_rows

import maintenance.runner
from maintenance.jobs.compact.definition import COMPACT
from maintenance.jobs.verify.check import check_table
from maintenance.jobs.verify.findings import Severity
from maintenance.report import Report
from maintenance.runner import RunRequest, run_table
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at

TABLES = (
    *("dedup_write_only", "append_unaware", "append_bucketed"),
    *("append_vectors", "key_vectors", "changelog"),
)
STRATEGY = {"key_vectors": "minor"}
"""How a table is to be compacted, if not in full."""


def prepared(name: str, golden: Callable[..., Any], place: Path) -> Path:
    """A warehouse with the table in it, not to be changed."""
    if name == "changelog":
        lake = Lake(place)
        lake.primary_key(changelog__producer="lookup", merge__engine="partial-update")
        lake.fill(2)
        compact(place)
        lake.append({"k": [1, 50], "v": ["new", "newer"]})
        return place
    if name == "key_vectors":
        # The second compaction marks rows of the first one's file, and so does the third.
        lake = Lake(place)
        told = {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}
        lake.primary_key(**told)
        lake.append({"k": list(range(500)), "v": [str(i * 7919 % 10007) for i in range(500)]})
        compact(place)
        lake.append({"k": list(range(0, 100, 3)), "v": ["a"] * 34})
        compact(place, "minor")
        lake.append({"k": [0, 1, 2, 3, 600], "v": ["b"] * 5})
        return place
    if name != "append_vectors":
        warehouse: Path = golden(name).warehouse
        return warehouse
    # One file is large, so its vector has to be written anew.
    lake = Lake(place)
    lake.log(**{"deletion-vectors.enabled": "true"}, target__file__size="4 kb")
    noise = [f"{i * 7919 % 10007:05d}{i * 104729 % 99991:05d}" for i in range(500)]
    lake.append({"k": list(range(500)), "v": noise})
    for i in range(2):
        lake.append({"k": [1000 + i, 2000 + i], "v": ["a", "b"]})
    delete_rows(lake.table(), {7, 1000, 2001})
    return place


def compact(warehouse: Path, strategy: str = "full") -> Report:
    return run_table(
        RunRequest(
            job=COMPACT,
            warehouse=str(warehouse),
            table="db.t",
            arguments=COMPACT.read_arguments(
                {"strategy": strategy, "options": {"compaction.min.file-num": "2"}}
            ),
            force=True,
        )
    )


def rows(warehouse: Path) -> list[str]:
    result = run_step({"op": "read", "warehouse": str(warehouse), "database": "db", "table": "t"})
    assert "error" not in result, result
    # A row that hid nothing reads as +I once its bucket is merged, in Java too.
    return sorted(str(row[1:]) for row in result["rows"])


def told(warehouse: Path) -> list[str]:
    """All changes that a stream sees."""
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    result = run_step({"op": "stream_read", "from": 1, **at})
    if "error" in result:  # the stream begins where Java's expiry left the table
        return []
    return sorted(str(row) for plan in result["plans"] for row in plan["rows"])


def assert_no_errors(warehouse: Path) -> None:
    found = check_table(open_table(str(warehouse), "db.t")).findings
    assert [f for f in found if f.severity is Severity.ERROR] == []


def with_failing_io(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        plain = open_table(warehouse, name)
        return open_table_at(
            FailingFileIO(trigger), plain.root, name, dynamic_options=options["dynamic_options"]
        )

    monkeypatch.setattr(maintenance.runner, "open_table", opened)


@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", TABLES)
def test_every_failure_leaves_the_table_whole(
    name: str,
    when: When,
    dead: bool,  # noqa: FBT001 - a parameter of the test
    golden: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pristine = prepared(name, golden, tmp_path / "pristine")
    strategy = STRATEGY.get(name, "full")
    counted = Trigger()
    first = tmp_path / "counted"
    shutil.copytree(pristine, first)
    before = rows(first)
    with monkeypatch.context() as patch:
        with_failing_io(patch, counted)
        assert compact(first, strategy).error is None
    # With deletion vectors, rows that are not compacted yet are not read.
    expected = rows(first)
    assert (expected == before) == (name != "key_vectors")
    changes = told(first)
    assert changes or name != "changelog"
    assert counted.count > 4, "the compaction changed hardly anything"
    for k in range(counted.count):
        warehouse = tmp_path / f"fail-{k}"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, dead=dead)
        with monkeypatch.context() as patch:
            with_failing_io(patch, trigger)
            compact(warehouse, strategy)
        assert trigger.fired
        assert rows(warehouse) in (before, expected), f"call {k} failed {when} it took effect"
        assert_no_errors(warehouse)
        again = compact(warehouse, strategy)
        assert again.error is None, again.error
        assert rows(warehouse) == expected
        assert told(warehouse) == changes
        assert_no_errors(warehouse)
        shutil.rmtree(warehouse)
