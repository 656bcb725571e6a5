"""Small JSON files that no snapshot names: whatever they hold, the error names them, or nobody minds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.catalog.hive.migrate import _check_notes, _write_note
from paimon_core.errors import CorruptTable
from paimon_core.io import read_retry
from paimon_maintenance.storage.lease import leases_of
from paimon_spark.sql.dml import load_history

DEEP = '{"x":' * 50_000 + "1" + "}" * 50_000
ODD = {"deep": DEEP, "infinite": '{"%s": Infinity}', "huge": '{"%s": 1e400}', "empty": ""}
RAW = ("Errno", "report this bug", "Traceback")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


@pytest.fixture
def root(lake: Lake) -> Path:
    lake.primary_key(partitioned=True)
    lake.append({"k": [1], "v": ["a"], "dt": ["1"]})
    return lake.warehouse / "db.db" / "t"


def ends(lake: Lake, *words: object, code: int, names: str = "") -> None:
    ran = caretaker("run", *words, "db.t", "-w", lake.warehouse, "--force")
    assert ran.code == code, (ran.code, ran.err)
    assert names in ran.err
    assert not any(raw in ran.err for raw in RAW), ran.err


def put(path: Path, content: str, field: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content.replace("%s", field))


@pytest.mark.parametrize("odd", ODD)
def test_statistics_that_a_commit_carries_on(lake: Lake, root: Path, odd: str) -> None:
    ends(lake, "analyze", "--engine", "local", code=0)
    (path,) = (root / "statistics").iterdir()
    put(path, ODD[odd], "schemaId")
    with pytest.raises(CorruptTable, match=path.name):
        lake.append({"k": [2], "v": ["b"], "dt": ["1"]})


@pytest.mark.parametrize("odd", ODD)
def test_the_mark_of_a_partition(lake: Lake, root: Path, odd: str) -> None:
    put(root / "dt=1" / "_SUCCESS", ODD[odd], "creationTime")
    ends(lake, "mark_partition_done", "--partitions", "dt=1", code=0)
    assert '"creationTime": 1' in (root / "dt=1" / "_SUCCESS").read_text()


def test_a_folder_in_the_place_of_a_mark(lake: Lake, root: Path) -> None:
    (root / "dt=1" / "_SUCCESS").mkdir(parents=True)
    ends(lake, "mark_partition_done", "--partitions", "dt=1", code=7, names="_SUCCESS")


def test_a_folder_in_the_place_of_a_consumer_that_moves(lake: Lake, root: Path) -> None:
    (root / "consumer" / "consumer-c").mkdir(parents=True)
    words = ("reset_consumer", "--consumer-id", "c", "--next-snapshot-id", 1)
    ends(lake, *words, code=7, names="consumer-c")


@pytest.mark.parametrize("odd", ODD)
def test_a_lease(lake: Lake, root: Path, odd: str) -> None:
    whole = '{"job": "j", "run_id": "r", "host": "h", "process": "p", "since_millis": 1, "%s": '
    path = root / "caretaker" / "leases" / "odd.json"
    put(path, ODD[odd].replace('{"%s": ', whole), "pid")
    (found,) = leases_of(lake.table())
    assert found.holder is None
    assert not found.stale


READS: dict[str, tuple[str, Callable[[Lake], object]]] = {
    "base": ("note", lambda lake: _check_notes(lake.table(), "source")),
    "pid": ("load", lambda lake: list(load_history._others(own_load(lake)))),
}


def own_load(lake: Lake) -> load_history.Announcement:
    own = load_history.Announcement(lake.table(), "own", base=1, files=[])
    put(Path(own.path), "{}", "")
    return own


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("field", READS)
def test_what_an_interrupted_statement_left(lake: Lake, root: Path, field: str, odd: str) -> None:
    kind, read = READS[field]
    path = Path(_write_note(lake.table(), "source", "user"))
    if kind == "load":
        path = root / "caretaker" / "copy-into" / "theirs.json"
    whole = '{"branch": "main", "base": 1, "files": [], "process": {"%s": '
    content = ODD[odd].replace('{"%s": ', whole) + "}" if kind == "load" else ODD[odd]
    put(path, content, field)
    with pytest.raises(CorruptTable, match=path.name):
        read(lake)


def test_a_record_of_a_loaded_file(lake: Lake, root: Path) -> None:
    put(root / "copy-into" / "history" / "load-x-1", DEEP, "")
    assert load_history.history(lake.table()) == set()
