"""What goes to standard output and what to standard error.

Standard output carries results only: with `--json` exactly one JSON object (or, for `read`, JSON
lines).  Messages, progress, logs and errors go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

from paimon_core.errors import PaimonError
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.job.report import STORAGE_NEXT_STEP, error_json


def to_json_text(value: object, *, indent: int | None = None) -> str:
    """The JSON text, not escaping anything that UTF-8 can say."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


@dataclass(slots=True)
class Output:
    """Where a command prints.  `json` says which of its two forms the user asked for."""

    json: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def result(self, value: Mapping[str, object], lines: Iterable[str]) -> None:
        """Print the command's result: the object with `--json`, the lines without."""
        if self.json:
            indent = 2 if self.out.isatty() else None
            self.out.write(to_json_text(value, indent=indent) + "\n")
        else:
            for line in lines:
                self.out.write(line + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Tell the user something that is no result."""
        self.err.write(text + "\n")
        self.err.flush()

    def error(self, error: BaseException) -> ExitCode:
        """Print the error, one line, and return its exit code; with `--json` as an object too."""
        code = exit_code_of(error)
        if self.json:
            value = {"error": error_json(error), "exit_code": int(code)}
            self.out.write(to_json_text(value) + "\n")
            self.out.flush()
        self.note(error_line(error))
        return code


def error_line(error: BaseException, done_before: str = "") -> str:
    """What is wrong, what to do about it, and what was done before, on one line."""
    if isinstance(error, PaimonError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{type(error).__name__}: {error} -> {STORAGE_NEXT_STEP}"
    else:
        text = (
            f"{type(error).__name__}: {error} -> run again with -v for the trace; please report it"
        )
    return "error: " + " ".join(f"{text} ({done_before})".split() if done_before else text.split())
