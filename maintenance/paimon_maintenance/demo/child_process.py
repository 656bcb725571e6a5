"""Child processes that end with this process.

Each command runs under its own supervisor (`paimon_maintenance.demo.supervisor`) in its own
session, so that Ctrl-C reaches only this process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from paimon_maintenance.demo import supervisor

# Longer than the supervisor needs on a slow machine: only it can end the descendants.
_PATIENCE_SECONDS = 90.0


class ChildProcess:
    """A running command whose output goes to `log`; stopping it ends all of its descendants."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-P", "-S", "-E", supervisor.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code when the command and all of its descendants have ended, else None."""
        return self._supervisor.poll()

    def stop(self) -> None:
        """End the command and all of its descendants, and wait until they have ended."""
        if self._supervisor.stdin is not None and not self._supervisor.stdin.closed:
            self._supervisor.stdin.close()
        try:
            self._supervisor.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def tail(self) -> str:
        """The last 15 lines of the output of the command."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
