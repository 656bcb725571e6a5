"""What is mistyped costs nothing."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_maintenance.demo import main


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_table_that_is_not_there_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main.run(["--warehouse", str(tmp_path / "lake"), "--table", "db.absent"]) == 2
    assert list(tmp_path.iterdir()) == []
    told = capsys.readouterr()
    assert "table db.absent does not exist" in told.out + told.err
