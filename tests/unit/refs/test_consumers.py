from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from paimon_core.errors import CorruptTable, InvalidArgument, NotFound
from paimon_core.io import read_retry
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.refs.consumers import ConsumerStore

GOLDEN = Path(__file__).parents[2] / "golden"


def _store(root: Path) -> ConsumerStore:
    return ConsumerStore(LocalFileIO(), TablePaths(root=str(root)), "db.t")


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_consumers(version: str) -> None:
    seen = 0
    for table in sorted((GOLDEN / version).iterdir()):
        expected = json.loads((table / "expected.json").read_text())["consumers"]
        found = _store(table / "warehouse/db.db/t").all()
        assert {c.id: c.next_snapshot for c in found} == expected
        seen += len(found)
    assert seen


def test_consumers_are_set_moved_and_deleted(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.all() == []
    assert store.min_next_snapshot() is None
    store.set("job b", 7)
    store.set("job-a", 5)
    assert (tmp_path / "consumer" / "consumer-job-a").read_text() == '{\n  "nextSnapshot" : 5\n}'
    assert [(c.id, c.next_snapshot) for c in store.all()] == [("job b", 7), ("job-a", 5)]
    assert store.min_next_snapshot() == 5
    store.set("job-a", 9)
    assert store.get("job-a").next_snapshot == 9
    assert store.delete("job-a")
    assert not store.delete("job-a")
    with pytest.raises(NotFound, match="job-a"):
        store.get("job-a")


def test_a_consumer_knows_when_it_was_last_written(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.set("c", 1)
    os.utime(tmp_path / "consumer" / "consumer-c", (1_700_000_000, 1_700_000_000))
    assert store.get("c").modified_millis == 1_700_000_000_000
    assert store.all() == [store.get("c")]
    store.set("c", 2)
    assert store.get("c").modified_millis > 1_700_000_000_000


def test_a_branch_has_consumers_of_its_own(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.of_branch("b1").set("c", 3)
    assert store.all() == []
    assert store.of_branch("b1").min_next_snapshot() == 3


@pytest.mark.parametrize("text", ["", "{}", '{"nextSnapshot" : "x"}', '{"nextSnapshot" : true}'])
def test_a_broken_consumer_is_an_error_and_not_no_consumer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Taken for none, it would free the snapshots that it holds."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())
    store = _store(tmp_path)
    store.set("good", 3)
    (tmp_path / "consumer" / "consumer-bad").write_text(text)
    with pytest.raises(CorruptTable) as broken:
        store.min_next_snapshot()
    assert broken.value.file == str(tmp_path / "consumer" / "consumer-bad")


@pytest.mark.parametrize("name", ["", " ", "a/b"])
def test_names_that_cannot_be_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        _store(tmp_path).set(name, 1)
