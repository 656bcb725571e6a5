"""Orphans whose names are not UTF-8 or hold control characters: deleted, moved aside, put back, told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import caretaker
from disk import assert_whole
from lakes import Lake

from paimon_maintenance.history.store import SqlHistory

FOLDERS = (b"dt=day0/bucket-0", b"dt=\xff/bucket-0", b"a:b=c/bucket-0", b"dt=a\nb/bucket-1")
NAMES = (
    b"data-\xff\xfe-0.parquet",
    b"data-a\nb-0.parquet",
    b"data-%2F%25-0.parquet",
    b"data-\x1b[31m-0.parquet",
    b"data-a:b-0.parquet",
    b"data-\xed\xa0\x80-0.orc",
    b"data-\\ud800-0.orc",
    b".a:b.tmp",
)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(partitioned=True)
    lake.fill(2)
    return lake


def litter(lake: Lake) -> set[bytes]:
    """Old files of these names in each folder, and a temporary one above them."""
    root = os.fsencode(lake.table().root)
    made = {root + b"/" + folder + b"/" + name for folder in FOLDERS for name in NAMES}
    made.add(root + b"/dt=day0/.x:y.tmp")
    for path in made:
        file = Path(os.fsdecode(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"litter")
        os.utime(file, (0, 0))
    return made


def test_they_are_deleted(lake: Lake) -> None:
    made = litter(lake)
    assert (
        caretaker("run", "remove_orphan_files", "db.t", "-w", lake.warehouse, "--force").code == 0
    )
    assert not [path for path in made if os.path.lexists(path)]
    assert_whole(lake.warehouse)


@pytest.mark.parametrize("job", ["restore_orphan_files", "purge_orphan_files"])
def test_they_come_back_from_a_quarantine(lake: Lake, job: str) -> None:
    made = litter(lake)
    where = ("db.t", "-w", lake.warehouse, "--force")
    assert caretaker("run", "remove_orphan_files", *where, "--mode", "quarantine").code == 0
    assert not [path for path in made if os.path.lexists(path)]
    (quarantine,) = (Path(lake.table().root) / "caretaker" / "quarantine").iterdir()
    ran = caretaker("run", job, *where, "--quarantine", quarantine.name)
    assert ran.code == 0, ran.err
    assert not quarantine.exists()
    restored = made if job == "restore_orphan_files" else set()
    assert {path for path in made if os.path.lexists(path)} == restored
    assert_whole(lake.warehouse)


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict"])
def test_a_strict_terminal_shows_them(lake: Lake, encoding: str) -> None:
    made = litter(lake)
    words = ("plan", "remove_orphan_files", "db.t", "-w", str(lake.warehouse), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "paimon_maintenance.cli", *words],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    orphans = json.loads(done.stdout)["details"]["orphans"]
    assert set(orphans) == {path.decode("utf-8", "backslashreplace") for path in made}


def test_the_history_takes_them(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    litter(lake)
    url = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("CARETAKER_HISTORY_URL", url)
    where = ("db.t", "-w", lake.warehouse, "--force", "--mode", "quarantine")
    ran = caretaker("run", "remove_orphan_files", *where)
    assert (ran.code, ran.err) == (0, "")
    assert [e.status for e in SqlHistory(url).newest()] == ["success"]
