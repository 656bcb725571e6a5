from __future__ import annotations

import io
import sys

from paimon_maintenance.cli.progress import Bars, NoBars, progress_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_drawn_on_a_terminal_only(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_for("db.t"), NoBars)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_for("db.t"), Bars)
    assert isinstance(progress_for("db.t", wanted=False), NoBars)


def test_bars_show_table_phase_and_bytes_on_standard_error(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_for("db.orders") as bars:
        bars.phase("execute")
        bars.expect(2, 3000)
        bars.advance(1, 1500)
        assert isinstance(bars, Bars)
        assert bars._progress is not None
        (task,) = bars._progress.tasks
        assert (task.completed, task.total, task.description) == (1500, 3000, "execute")
        bars._progress.refresh()
    assert "db.orders" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_no_bars_take_everything():
    with NoBars() as bars:
        bars.phase("execute")
        bars.expect(1, 1)
        bars.advance(1, 1)
