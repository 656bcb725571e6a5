"""The output of the demo: a spinner and coloured lines on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

_TALK_EVERY_SECONDS = 15.0


class Screen:
    """Prints the progress of the demo, step by step."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.console = Console(file=out or sys.stdout, highlight=False)
        self.started = time.monotonic()

    @property
    def lively(self) -> bool:
        """Whether the output is a terminal."""
        return self.console.is_terminal

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print an important line."""
        self.console.print(text, markup=False, soft_wrap=True, style="bold red")

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a long step: title, progress and duration."""
        step = Step(self, title)
        if not self.lively:
            self.say(f"[{self.clock()}] {title} ...")
            yield step
        else:
            with self.console.status(title) as status:
                step.status = status
                yield step
        took = time.monotonic() - step.started
        self.say(f"[{self.clock()}] {step.result or title}, {took:.0f} s")

    def clock(self) -> str:
        """Minutes and seconds since the start."""
        seconds = int(time.monotonic() - self.started)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table; the first column has names, the others figures."""
        if self.lively:
            shown = Table(title=title, title_justify="left", title_style="bold")
            for number, column in enumerate(columns):
                shown.add_column(column, justify="left" if number == 0 else "right")
            for row in rows:
                shown.add_row(*row)
            self.console.print(shown)
            return
        self.say(title)
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            first, *rest = (
                cell.ljust(width) if number == 0 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self.say("  " + "  ".join([first, *rest]).rstrip())


class Step:
    """A step in progress."""

    def __init__(self, screen: Screen, title: str) -> None:
        self.screen = screen
        self.title = title
        self.result = ""
        self.started = time.monotonic()
        self.status: Status | None = None
        self._told = self.started
        self._last = ""

    def update(self, text: str) -> None:
        """Show the progress; without a spinner, only changes, at a limited rate."""
        now = time.monotonic()
        if self.status is not None:
            self.status.update(f"{self.title}: {escape(text)} ({now - self.started:.0f} s)")
        elif text != self._last and now - self._told > _TALK_EVERY_SECONDS:
            self._told, self._last = now, text
            self.screen.say(f"[{self.screen.clock()}]   {text}")

    def done(self, text: str) -> None:
        """Set the text to print at the end instead of the title."""
        self.result = text
