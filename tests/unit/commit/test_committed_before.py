"""What a writer that starts again finds of its own commits, while snapshots go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakes import ENV, Lake

from paimon_core.commit.committer import commit, filter_committed
from paimon_core.snapshot.store import SnapshotStore


def test_a_rollback_during_the_search_hides_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.log()
    table = lake.table()
    for identifier, user in ((1, "stream"), (2, "stream"), (7, "another")):
        commit(table, [], user=user, env=ENV, identifier=identifier, ignore_empty=False)
    listed = SnapshotStore.ids

    def before_a_rollback(store: SnapshotStore, *rest: Any) -> list[int]:
        ids = list(listed(store, *rest))
        store.io.delete(store.paths.snapshot(3))
        return ids

    monkeypatch.setattr(SnapshotStore, "ids", before_a_rollback)
    assert filter_committed(table, [1, 2, 3], user="stream") == [3]
