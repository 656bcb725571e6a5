"""The log as JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.run.logs import VARIABLE, JsonFormatter


@contextmanager
def no_log() -> Iterator[None]:
    """A process without a log; pytest's own handlers come back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_each_line_says_which_run_it_is_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.primary_key()
    lake.fill()
    monkeypatch.setenv(VARIABLE, "json")
    with no_log():
        ran = caretaker("run", "compact", "db.t", "-w", lake.warehouse, "-v", "--json")
    assert ran.code == ExitCode.SUCCESS
    lines = [line for line in _lines(ran.err) if "run_id" in line]
    phases = [line["phase"] for line in lines if "phase" in line]
    assert phases[0] == "inspect"
    assert "execute" in phases
    last = lines[-1]
    assert {line["run_id"] for line in lines} == {ran.json["run_id"]}
    assert (last["table"], last["job"], last["status"]) == ("db.t", "compact", "success")
    assert last["snapshots"] == ran.json["snapshots"]
    assert last["time"].endswith("Z")


def test_an_exception_stays_on_its_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as e:
        error = (type(e), e, e.__traceback__)
    record = logging.LogRecord("a", logging.INFO, "f", 1, "it %s", ("failed",), error)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert json.loads(text)["message"] == "it failed"
    assert "ValueError: two" in json.loads(text)["exception"]


def test_an_unknown_format_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "xml")
    ran = caretaker("inspect", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.USAGE
    assert VARIABLE in ran.err
