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
from paimon_core.snapshot.changelog import ChangelogStore
from paimon_core.snapshot.snapshot import Snapshot

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
        Path(table.paths.manifest(first)).unlink(missing_ok=True)
        raise CorruptTable("a manifest of a snapshot is missing, which expired right then")

    monkeypatch.setattr(release, "find_garbage", meets_another_expiry)
    report = known_holes.run(lake.warehouse, "expire_snapshots", retain_max=2, retain_min=2)
    monkeypatch.undo()
    assert isinstance(report.error, CorruptTable)
    assert table.changelogs.ids() == [2]
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    report = known_holes.run(lake.warehouse, "expire_snapshots", retain_max=2, retain_min=2)
    assert report.error is None


def test_a_changelog_comes_right_before_its_snapshot_goes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expiry of changelogs after a kill would delete files that snapshots still need."""
    lake.create(options=CHANGELOGS)
    lake.fill(6)
    table, at_once = lake.table(), lake.table().io.parallelism
    both: list[int] = []
    put = ChangelogStore.put

    def watched(store: ChangelogStore, changelog: Snapshot) -> None:
        put(store, changelog)
        both.append(len(set(table.changelogs.ids()) & set(table.snapshots.ids())))

    monkeypatch.setattr(ChangelogStore, "put", watched)
    report = known_holes.run(lake.warehouse, "expire_snapshots", retain_max=1, retain_min=1)
    assert report.error is None
    assert len(both) == 5
    assert max(both) <= at_once < 5
    assert table.changelogs.ids() == [1, 2, 3, 4, 5]
    hint = Path(table.root) / "changelog" / "LATEST"
    assert hint.read_text() == "5"
