from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_core.errors import NotFound
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.snapshot.changelog import ChangelogStore
from paimon_core.snapshot.snapshot_json import snapshot_to_json

GOLDEN = Path(__file__).parents[2] / "golden"


def _store(root: Path) -> ChangelogStore:
    return ChangelogStore(LocalFileIO(), TablePaths(root=str(root)), "db.t")


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_changelogs(version: str) -> None:
    kept = 0
    for table in sorted((GOLDEN / version).iterdir()):
        expected = json.loads((table / "expected.json").read_text())["changelogs"]
        store = _store(table / "warehouse/db.db/t")
        found = [json.loads(snapshot_to_json(s)) for s in store.all()]
        expected.sort(key=lambda changelog: changelog["id"])  # Java lists them in any order
        assert found == expected
        if expected:
            kept += 1
            assert store.earliest_id() == expected[0]["id"]
            assert store.latest_id() == expected[-1]["id"]
    assert kept


def test_changelogs_are_kept_replaced_and_deleted(tmp_path: Path) -> None:
    source = _store(GOLDEN / "1.4.2/changelog_decoupled/warehouse/db.db/t")
    store = _store(tmp_path)
    assert store.all() == []
    assert store.latest_id() is None
    for changelog in source.all():
        store.put(changelog)
        store.put(changelog)
    assert store.all() == source.all()
    store.write_earliest_hint(store.ids()[0])
    store.write_latest_hint(store.ids()[-1])
    assert store.hints() == (source.earliest_id(), source.latest_id())
    for i in store.ids():
        assert store.delete(i)
    store.delete_hints()
    assert not store.exists(1)
    with pytest.raises(NotFound, match="changelog 1 of table"):
        store.get(1)
    assert list((tmp_path / "changelog").iterdir()) == []
