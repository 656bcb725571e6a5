"""Asks before something is deleted."""

from __future__ import annotations

import argparse
import sys

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output


def confirmed(args: argparse.Namespace, output: Output, question: str) -> bool:
    """Whether --yes was given or the answer is yes.

    InvalidArgument without a terminal to ask at.
    """
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidArgument(
            f"{question} There is no terminal to ask at",
            next_step="add --yes, or --dry-run to see what would be deleted",
        )
    output.err.write(f"{question} [y/N] ")
    output.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
