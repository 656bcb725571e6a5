"""Progress bars on standard error, drawn only on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from paimon_maintenance.job.job import NoProgress

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    """Progress of one table: the phase, and units and bytes as soon as they are known."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Start the display."""
        from rich.console import Console  # noqa: PLC0415 - only on a terminal
        from rich.progress import (  # noqa: PLC0415 - only on a terminal
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.fields[title]}"),
            TextColumn("[cyan]{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("", total=None, title=self._title)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the display and clear it."""
        if self._progress is not None:
            self._progress.stop()

    def phase(self, name: str) -> None:
        """Show the name of the phase."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=name)

    def expect(self, units: int, size: int) -> None:
        """Add to the expected work."""
        if self._progress is not None and self._task is not None and units:
            task = self._progress.tasks[0]
            self._progress.update(self._task, total=(task.total or 0) + size)

    def advance(self, units: int, size: int) -> None:
        """Add to the finished work."""
        if self._progress is not None and self._task is not None and units:
            self._progress.advance(self._task, size)


class NoBars(NoProgress):
    """Hidden progress, with the same interface as `Bars`."""

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing."""


def progress_for(title: str, *, wanted: bool = True) -> Bars | NoBars:
    """Progress bars if standard error is a terminal and `wanted` is set."""
    return Bars(title) if wanted and sys.stderr.isatty() else NoBars()
