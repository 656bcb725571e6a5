"""Replaying postponed rows with every file operation failing once: all of them move, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failing_io import FailingFileIO, Trigger, When
from replay import run_step

import maintenance.runner
from maintenance.jobs.compact.definition import COMPACT
from maintenance.jobs.verify.check import check_table
from maintenance.jobs.verify.findings import Severity
from maintenance.report import Report
from maintenance.runner import RunRequest, run_table
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at


def compact(warehouse: Path) -> Report:
    return run_table(
        RunRequest(
            job=COMPACT,
            warehouse=str(warehouse),
            table="db.t",
            arguments=COMPACT.read_arguments({"strategy": "full"}),
            force=True,
        )
    )


def state(warehouse: Path) -> tuple[list[str], int]:
    """(values that readers see, files that wait)."""
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    read, files = run_step({"op": "read", **at}), run_step({"op": "files", **at})
    assert "error" not in read, read
    rows = sorted(str(row[1:]) for row in read["rows"])
    return rows, sum(f["bucket"] == -2 for f in files["files"])


def with_failing_io(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        plain = open_table(warehouse, name)
        return open_table_at(
            FailingFileIO(trigger), plain.root, name, dynamic_options=options["dynamic_options"]
        )

    monkeypatch.setattr(maintenance.runner, "open_table", opened)


@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_all_rows_move_or_none(
    when: When,
    dead: bool,  # noqa: FBT001 - a parameter of the test
    golden: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pristine = golden("postpone").warehouse
    before = state(pristine)
    assert before[1] == 2
    counted = Trigger()
    first = tmp_path / "counted"
    shutil.copytree(pristine, first)
    with monkeypatch.context() as patch:
        with_failing_io(patch, counted)
        assert compact(first).error is None
    after = state(first)
    assert after[1] == 0
    assert after[0] != before[0]
    for k in range(int(dead), counted.count, 2):
        warehouse = tmp_path / f"fail-{k}"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, dead=dead)
        with monkeypatch.context() as patch:
            with_failing_io(patch, trigger)
            compact(warehouse)
        assert trigger.fired
        assert state(warehouse) in (before, after), f"call {k} failed {when} it took effect"
        again = compact(warehouse)
        assert again.error is None, again.error
        assert state(warehouse) == after
        findings = check_table(open_table(str(warehouse), "db.t")).findings
        assert [f for f in findings if f.severity is Severity.ERROR] == []
        shutil.rmtree(warehouse)
