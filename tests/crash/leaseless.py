"""The command line without the lease on a table, as another version of ours, or Java, works."""

from __future__ import annotations

from collections.abc import Sequence

from without_lease import without_lease

from maintenance.cli.main import main as caretaker


def main(words: Sequence[str]) -> int:
    """`caretaker WORDS...` without a lease; the exit code."""
    with without_lease():
        return caretaker(list(words))
