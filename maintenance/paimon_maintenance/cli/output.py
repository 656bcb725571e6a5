"""Standard output and standard error.

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
from paimon_maintenance.job.error_json import error_json, storage_next_step
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.job.lazy_list import json_parts


def to_json_text(value: object) -> str:
    """The value as JSON text in UTF-8, without ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, default=str)


@dataclass(slots=True)
class Output:
    """Prints the result and messages of a command; `json` selects the JSON form."""

    json: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def result(self, value: Mapping[str, object], lines: Iterable[str]) -> None:
        """Print the result: the object with `--json`, else the lines."""
        if self.json:
            for part in json_parts(value, indent=2 if self.out.isatty() else None):
                self.out.write(part)
            self.out.write("\n")
        else:
            for line in lines:
                self.out.write(line + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Print a message to standard error."""
        self.err.write(text + "\n")
        self.err.flush()

    def error(self, error: BaseException) -> ExitCode:
        """Print the error on one line and return its exit code; with `--json` also as an object."""
        code = exit_code_of(error)
        if self.json:
            value = {"error": error_json(error), "exit_code": int(code)}
            self.out.write(to_json_text(value) + "\n")
            self.out.flush()
        self.note(error_line(error))
        return code


def error_line(error: BaseException, done_before: str = "") -> str:
    """The error, the next step and the changes before it, on one line."""
    if isinstance(error, PaimonError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{type(error).__name__}: {error} -> {storage_next_step(error)}"
    else:
        text = f"{type(error).__name__}: {error} -> run again with -v for a stack trace, and report this bug"
    return "error: " + " ".join(f"{text} ({done_before})".split() if done_before else text.split())
