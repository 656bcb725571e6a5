"""Runs `caretaker` inside the test's process, and reads tables through it."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_maintenance.cli.main import main
from paimon_maintenance.job.exit_codes import ExitCode


@dataclass(frozen=True)
class Ran:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def rows(self) -> list[list[Any]]:
        """JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def caretaker(*words: object) -> Ran:
    """`caretaker WORDS...`."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(w) for w in words])
    return Ran(code, out.getvalue(), err.getvalue())


def compact(warehouse: Path, strategy: str) -> None:
    """Compact db.t, if there is anything to compact."""
    words = ("--strategy", strategy, "--engine", "local")
    ran = caretaker("run", "compact", "db.t", "-w", warehouse, *words)
    assert ran.code in (ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO), ran.err


def read_rows(warehouse: Path, *more: object) -> list[list[Any]]:
    """All rows of db.t, in the oracle's order."""
    ran = caretaker("read", "db.t", "-w", warehouse, *more)
    assert ran.code == 0, ran.err
    return in_order(ran.rows)


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows sorted by their text, as the oracle sorts."""
    return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False))
