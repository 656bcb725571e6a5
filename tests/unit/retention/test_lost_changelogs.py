"""An expiry keeps changelogs whose files another expiry deletes at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import known_holes
import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import CorruptTable
from paimon_core.reachability import release

CHANGELOGS = {
    "bucket": "1",
    "write-only": "true",
    "changelog-producer": "input",
    "changelog.num-retained.min": "9",
    "changelog.num-retained.max": "99",
}


def test_none_stays_without_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stop every job that deletes, although the expiry itself met another missing file."""
    lake.create(options=CHANGELOGS)
    lake.fill(4)
    table = lake.table()
    first = str(table.snapshots.get(1).changelog_manifest_list)

    def meets_another_expiry(*_: Any) -> None:
        Path(table.paths.manifest(first)).unlink()
        raise CorruptTable("a manifest of a snapshot is missing, which expired right then")

    monkeypatch.setattr(release, "find_garbage", meets_another_expiry)
    report = known_holes.run(lake.warehouse, "expire_snapshots", retain_max=2, retain_min=2)
    monkeypatch.undo()
    assert isinstance(report.error, CorruptTable)
    assert table.changelogs.ids() == [2]
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    report = known_holes.run(lake.warehouse, "expire_snapshots", retain_max=2, retain_min=2)
    assert report.error is None
