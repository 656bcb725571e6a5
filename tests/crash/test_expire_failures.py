"""Expiry, deletion and rollback with every single file operation failing once: before or after it took effect.

Whatever fails, what is left reads the same and nothing dangles; a second run finishes the job and
leaves no file that nobody needs.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers, assert_whole
from failing_io import FailingFileIO, Trigger, When
from replay import run_step

import maintenance.runner
from maintenance.registry import job_named
from maintenance.report import Report
from maintenance.runner import RunRequest, run_table
from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table, open_table_at

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
]


def run_job(warehouse: Path, name: str, arguments: dict[str, object]) -> Report:
    job = job_named(name)
    return run_table(
        RunRequest(
            job=job,
            warehouse=str(warehouse),
            table="db.t",
            arguments=job.read_arguments(arguments),
            force=True,
        )
    )


def do(warehouse: Path, op: str, **fields: Any) -> dict[str, Any]:
    result = run_step(
        {"op": op, "warehouse": str(warehouse), "database": "db", "table": "t", **fields}
    )
    assert "error" not in result, result
    return result


def with_failing_io(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: Any) -> FileStoreTable:
        plain = open_table(warehouse, name)
        return open_table_at(
            FailingFileIO(trigger), plain.root, name, dynamic_options=options["dynamic_options"]
        )

    monkeypatch.setattr(maintenance.runner, "open_table", opened)


def build(warehouse: Path, **options: str) -> None:
    do(
        warehouse,
        "create_table",
        columns=COLUMNS,
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true", **options},
    )
    for i in range(3):
        do(warehouse, "write", rows=[[i, "x"], [i + 1, "y"]])
    do(warehouse, "compact", full=True)
    do(warehouse, "create_tag", name="kept", snapshot=2)
    do(warehouse, "write", rows=[[7, "z"]])


EXPIRED = {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}
# Steps before, options of the table, arguments, whether the tag stays.
JOBS: dict[str, tuple[list[dict[str, Any]], dict[str, str], dict[str, object], bool]] = {
    "expire_snapshots": ([], {}, {"retain_max": 1, "retain_min": 1}, True),
    "delete_tag": ([EXPIRED], {}, {"tag": ["kept"]}, False),
    "expire_changelogs": (
        [EXPIRED],
        {"changelog.num-retained.min": "9", "changelog.num-retained.max": "9"},
        {"retain_max": 2, "retain_min": 1},
        True,
    ),
    "rollback": ([], {}, {"snapshot": 3}, True),
    "delete_branch": (
        [
            {"op": "create_branch", "name": "b", "tag": "kept"},
            {"op": "write", "branch": "b", "rows": [[8, "b"]]},
            {"op": "write", "branch": "b", "rows": [[9, "b"]]},
        ],
        {},
        {"branch_name": "b"},
        True,
    ),
    "fast_forward": (
        [
            {"op": "create_branch", "name": "b", "tag": "kept"},
            {"op": "write", "branch": "b", "rows": [[8, "b"]]},
            {"op": "write", "branch": "b", "rows": [[9, "b"]]},
        ],
        {},
        {"branch_name": "b"},
        True,
    ),
}


@pytest.mark.crash
@pytest.mark.parametrize("dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", JOBS)
def test_every_failure_leaves_a_table_that_a_second_run_cleans(
    name: str,
    when: When,
    dead: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    steps, options, arguments, keeps_tag = JOBS[name]
    pristine = tmp_path / "pristine"
    build(pristine, **options)
    for step in steps:
        do(pristine, **step)
    tagged = do(pristine, "read", tag="kept")["rows"]
    counted = Trigger()
    first = tmp_path / "counted"
    shutil.copytree(pristine, first)
    with monkeypatch.context() as patch:
        with_failing_io(patch, counted)
        assert run_job(first, name, arguments).error is None
    assert_no_leftovers(first)
    expected = do(first, "read")["rows"]
    before = do(pristine, "read")["rows"]
    assert (before == expected) == (name not in ("rollback", "fast_forward"))
    assert counted.count > 5, "hardly anything was changed"
    for k in range(counted.count):
        warehouse = tmp_path / f"fail-{k}"
        shutil.copytree(pristine, warehouse)
        trigger = Trigger(at=k, when=when, dead=dead)
        with monkeypatch.context() as patch:
            with_failing_io(patch, trigger)
            run_job(warehouse, name, arguments)
        assert trigger.fired
        assert_whole(warehouse)
        if before == expected:
            assert do(warehouse, "read")["rows"] == expected, f"call {k} failed {when}"
        again = run_job(warehouse, name, arguments)
        # A tag or branch that is gone, files and all, cannot be deleted once more.
        assert again.error is None or isinstance(again.error, NotFound), again.error
        assert_no_leftovers(warehouse)
        assert do(warehouse, "read")["rows"] == expected
        if keeps_tag:
            assert do(warehouse, "read", tag="kept")["rows"] == tagged
        assert do(warehouse, "snapshots") == do(first, "snapshots")
        shutil.rmtree(warehouse)
