"""The parser class, and the options that several commands share."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE

MASTER_VARIABLE: Final = "CARETAKER_SPARK_MASTER"
_MOST: Final = 2**63 - 1
"""What databases and Paimon's longs hold."""

EXIT_CODES = "exit codes:\n" + "\n".join(f"  {int(c)}  {c.meaning}" for c in ExitCode)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps hyphenated words on one line, so that users can copy examples."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        words = " ".join(text.split())
        return textwrap.wrap(words, width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidArgument instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidArgument with a hint at the help."""
        raise InvalidArgument(message, next_step=f"see {self.prog} --help")


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def add_command(
    commands: Commands[Parser],
    name: str,
    summary: str | None,
    description: str,
    examples: Sequence[str],
) -> Parser:
    """Add a command and return its parser.

    Without a summary, the help above it does not list it.
    """
    listed: dict[str, Any] = {} if summary is None else {"help": summary}
    epilog = ("examples:\n" + "\n".join(f"  {e}" for e in examples) + "\n\n") if examples else ""
    return commands.add_parser(
        name,
        description=description,
        epilog=epilog + EXIT_CODES,
        formatter_class=Formatter,
        allow_abbrev=False,
        **listed,
    )


def table_options(
    parser: Parser,
    *,
    table_help: str = "DATABASE.TABLE",
    optional: bool = False,
    json: str = "print one JSON object",
) -> None:
    how: dict[str, Any] = {"nargs": "?", "default": "*.*"} if optional else {}
    parser.add_argument("table", metavar="TABLE", help=table_help, **how)
    warehouse_option(parser)
    catalog_option(parser)
    parser.add_argument("--branch", metavar="B", help="a branch of the table (default: main)")
    storage_option(parser)
    output_options(parser, json=json)


def catalog_option(parser: Parser) -> None:
    parser.add_argument(
        "--catalog",
        metavar="NAME",
        help="a catalog of caretaker.toml or $CARETAKER_CATALOGS instead of a warehouse",
    )


def warehouse_option(parser: Parser) -> None:
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        help=f"the warehouse: a folder or URL (default: ${WAREHOUSE_VARIABLE})",
    )


def storage_option(parser: Parser) -> None:
    parser.add_argument(
        "--storage",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="object store option, for example s3.endpoint=http://minio:9000; repeatable",
    )


def output_options(parser: Parser, *, json: str = "print one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log to standard error, with all messages of Spark; -vv logs more",
    )


def whole_number(text: str) -> int:
    try:
        number = int(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from e
    if abs(number) > _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is too large")
    return number


def not_negative(text: str) -> int:
    number = whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return number


def positive(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from e
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not greater than 0")
    return number


def policy_option(parser: Parser) -> None:
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="policy file with arguments, guards and options for each table (default: "
        "$CARETAKER_POLICY, if set)",
    )


def timezone_option(parser: Parser) -> None:
    parser.add_argument(
        "--timezone",
        metavar="ZONE",
        help="time zone of the writers, for example Europe/Berlin (default: this machine's)",
    )


def selection_options(parser: Parser) -> None:
    parser.add_argument(
        "--including",
        metavar="REGEX",
        action="append",
        default=[],
        help="regular expression; with a pattern, only tables whose full name matches; repeatable",
    )
    parser.add_argument(
        "--excluding",
        metavar="REGEX",
        action="append",
        default=[],
        help="regular expression; with a pattern, skip tables whose full name matches; repeatable",
    )
