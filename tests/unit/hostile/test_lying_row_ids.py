"""Snapshots and files that lie about row ids: no row hides another, and no raw error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker, read_rows
from evolving_tables import EVOLVING, groups_of
from lakes import ENV, Lake

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileKind
from paimon_core.snapshot.snapshot import CommitKind
from paimon_maintenance.job.exit_codes import ExitCode


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Row ids 0 to 7; those of each day have a gap."""
    lake.create(primary_key=False, partitioned=True, options=EVOLVING)
    for i, day in enumerate("abab"):
        lake.append({"k": [i, 10 + i], "v": ["x", "y"], "dt": [day] * 2})
    return lake


def _run(lake: Lake, job: str, *words: object) -> Ran:
    local = ("--engine", "local") if job == "compact" else ()
    return caretaker("run", job, "db.t", "-w", lake.warehouse, *local, *words)


def _say(lake: Lake, next_row_id: int | None) -> None:
    """Change the next row id of the newest snapshot."""
    path = Path(lake.table().paths.snapshot(lake.table().latest_or_not_found().id))
    told: dict[str, Any] = json.loads(path.read_text())
    del told["nextRowId"]
    path.write_text(json.dumps(told | ({} if next_row_id is None else {"nextRowId": next_row_id})))


@pytest.mark.parametrize("next_row_id", [None, -1, 0, 7])
def test_no_row_gets_the_id_of_another(lake: Lake, next_row_id: int | None) -> None:
    _say(lake, next_row_id)
    rows = read_rows(lake.warehouse)
    with pytest.raises(CorruptTable, match="says that new rows have ids from"):
        lake.append({"k": [100, 101], "v": ["p", "q"], "dt": ["a", "a"]})
    for words in ("--dry-run",), ():
        ran = _run(lake, "reassign_row_id", *words)
        assert ran.code == ExitCode.CORRUPT_TABLE, ran.err
        assert "db.t" in ran.err
    _run(lake, "compact")
    assert read_rows(lake.warehouse) == rows
    ran = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.CORRUPT_TABLE
    assert "wrong_next_row_id" in ran.out


@pytest.mark.parametrize(("first", "found"), [(0, False), (1, True), (3, True), (8, False)])
def test_files_that_share_some_of_their_row_ids_are_found(
    lake: Lake, first: int, *, found: bool
) -> None:
    """Of the partition `a`, whose files have the row ids 0, 1, 4 and 5."""
    table = lake.table()
    entry = groups_of(table)[0][0]
    file = replace(entry.file, first_row_id=first, file_name="data-other-0.parquet")
    Path(table.paths.data_file(entry.partition, 0, file)).write_bytes(
        Path(table.paths.data_file(entry.partition, 0, entry.file)).read_bytes()
    )
    request = CommitRequest(user="liar", kind=CommitKind.APPEND, check=False)
    commit_changes(table, lambda _: ManifestChanges((replace(entry, file=file),)), request, env=ENV)
    ran = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert ("shared_row_ids" in ran.out) == found, ran.out
    assert (ran.code == ExitCode.CORRUPT_TABLE) == (found or first == 8)


def test_ids_beyond_64_bits_are_refused(lake: Lake) -> None:
    _say(lake, 2**63 - 1)
    with pytest.raises(CorruptTable, match=r"new rows of table db\.t .* 64 bits"):
        lake.append({"k": [100], "v": ["p"], "dt": ["a"]})
    assert len(read_rows(lake.warehouse)) == 8


def test_negative_row_ids_are_named(lake: Lake) -> None:
    table = lake.table()
    entry = groups_of(table)[0][0]
    moved = replace(entry, file=replace(entry.file, first_row_id=-5))
    changes = ManifestChanges((replace(entry, kind=FileKind.DELETE), moved))
    request = CommitRequest(user="liar", kind=CommitKind.OVERWRITE, check=False)
    commit_changes(table, lambda _: changes, request, env=ENV)
    for words in (["read"], ["health"], ["inspect"], ["run", "reassign_row_id"]):
        ran = caretaker(*words, "db.t", "-w", lake.warehouse)
        assert ran.code in (ExitCode.SUCCESS, ExitCode.CORRUPT_TABLE), (words, ran.err)
        if words == ["read"]:
            assert ran.code == ExitCode.CORRUPT_TABLE
        if ran.code:
            assert entry.file.file_name in ran.err, words
    assert _run(lake, "compact").code == ExitCode.CORRUPT_TABLE
