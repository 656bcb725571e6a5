"""`caretaker`: parses arguments, runs the command, and maps every outcome to an exit code."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from typing import Final, Protocol, cast

from paimon_core.errors import InvalidArgument, PaimonError, how_to_get
from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.parsers.commands import COMMANDS, GUIDED, build_parser
from paimon_maintenance.job.arguments import with_underscores
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.rules.tables import is_pattern
from paimon_maintenance.run.logs import set_up_logging

_DISTRIBUTION: Final = "paimon-caretaker"
_EXTRAS: Final[Mapping[str, str]] = {
    "airflow": "airflow",
    "datasketches": "sketches",
    "httpx": "rest",
    "pandas": "spark",
    "psycopg": "postgres",
    "pyspark": "spark",
    "sqlglot": "spark",
    "rich": "maintenance",
    "s3fs": "s3",
    "sqlalchemy": "maintenance",
    "yaml": "maintenance",
}
"""Optional packages, and the extra of the distribution that installs each of them."""
INTERRUPTED: Final = 130
"""Exit code that shells use for a process ended by Ctrl-C."""

_DEMO: Final = "demo"
_OF_JOBS: Final = ("plan", "run")
_OF_METADATA: Final = ("inspect", "plan", "verify")
"""Commands that only read metadata, of tables of any size, as do runs of
jobs that rewrite no data."""
_OPTION: Final = re.compile(r"^--([a-z]+(?:[-_]?[A-Za-z]+)*)(?==|$)")
_MODULES: Final[Mapping[str, str]] = {
    "read": "paimon_maintenance.cli.rows.read",
    "files": "paimon_maintenance.cli.files",
    "inspect": "paimon_maintenance.cli.inspect",
    "health": "paimon_maintenance.cli.health",
    "schedule": "paimon_maintenance.cli.schedule",
    "alerts": "paimon_maintenance.cli.alerts",
    "approvals": "paimon_maintenance.cli.approvals",
    "report": "paimon_maintenance.cli.report",
    "plan": "paimon_maintenance.cli.plan",
    "run": "paimon_maintenance.cli.run",
    "verify": "paimon_maintenance.cli.verify",
    "history": "paimon_maintenance.cli.history",
    "policy": "paimon_maintenance.cli.policy",
    "leases": "paimon_maintenance.cli.leases",
    "catalogs": "paimon_maintenance.cli.catalogs",
    "tables": "paimon_maintenance.cli.tables",
    "sql": "paimon_maintenance.cli.sql.command",
    "spark-archive": "paimon_maintenance.cli.spark_archive",
    "table": "paimon_maintenance.cli.ddl",
    "database": "paimon_maintenance.cli.ddl",
    "write": "paimon_maintenance.cli.rows.change",
    "delete": "paimon_maintenance.cli.rows.change",
}


class Command(Protocol):
    """The interface of a command module."""

    def run(self, args: argparse.Namespace, output: Output) -> ExitCode:
        """Run the command and return its exit code; errors are raised."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of this process) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _print_any_name()
    output = Output(json="--json" in words)
    try:
        return int(_dispatch(words, output))
    except KeyboardInterrupt:
        output.note("interrupted; uncommitted changes are not visible to readers")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output closed the pipe (`caretaker read ... | head`).
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the exit
        return int(ExitCode.SUCCESS)
    except Exception as e:
        error = _missing_extra(e) if isinstance(e, ModuleNotFoundError) else e
        if exit_code_of(error) is ExitCode.FAILURE:
            logging.getLogger(__name__).info("unexpected error", exc_info=e)
        try:
            return int(output.error(error))
        except BrokenPipeError:
            output.err.write(error_line(error) + "\n")
            return int(exit_code_of(error))


def _print_any_name() -> None:
    """Escape names that the terminal's encoding lacks, as JSON does, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _missing_extra(error: ModuleNotFoundError) -> Exception:
    """An error that names the extra to install; the original error for other packages."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    if extra is None:
        return error
    return InvalidArgument(
        f"this command needs the package {package!r}, which is not installed",
        next_step=how_to_get(extra),
    )


def _dispatch(words: Sequence[str], output: Output) -> int:
    if words[:1] == [_DEMO]:
        # The demo parses its own options.
        demo = importlib.import_module("paimon_maintenance.demo.main")
        return int(demo.run(list(words[1:])))
    spelled = _as_spelled_here(words)
    command_name = spelled[0] if spelled and spelled[0] in COMMANDS else None
    args, unknown = build_parser(command_name).parse_known_args(spelled)
    if unknown:
        from paimon_maintenance.registry import jobs_with  # noqa: PLC0415 - fast start

        # The top-level parser reports them, but the help of the subcommand lists the options.
        typed = [args.command] if args.command else []
        typed += [args.job] if args.command in _OF_JOBS else []
        others = jobs_with(unknown[0].partition("=")[0])
        hint = f" (an argument of {', '.join(others)})" if typed[1:] and others else ""
        statement = args.command == "sql" and not unknown[0].startswith("-")
        raise InvalidArgument(
            f"unrecognized arguments: {' '.join(unknown)}{hint}",
            next_step=f"{'give statements with -e; ' if statement else ''}"
            f"see {' '.join(['caretaker', *typed])} --help",
        )
    if args.version:
        output.result({"version": _version()}, [_version()])
        return int(ExitCode.SUCCESS)
    if args.command is None:
        raise InvalidArgument("no command given", next_step="see caretaker --help")
    if args.command in GUIDED:
        raise InvalidArgument(
            f"{args.command!r} is a command of the ./caretaker script in a checkout",
            next_step=f"run ./caretaker {args.command} in a checkout",
        )
    _set_up_logging(args.verbose)
    output.json = bool(args.json)
    if args.command in _OF_METADATA or (args.command == "run" and not _rewrites(args.job)):
        allocator = importlib.import_module("paimon_maintenance.cli.allocator")  # imports ctypes
        allocator.return_large_blocks()
    command = cast("Command", importlib.import_module(_MODULES[args.command]))
    try:
        return int(command.run(args, output))
    except InvalidArgument:
        raise
    except PaimonError as e:
        # Errors from low-level files do not name the table.
        named = getattr(args, "table", None)
        e.table = e.table or (named if named and not is_pattern(named) else None)
        raise


def _as_spelled_here(words: Sequence[str]) -> list[str]:
    """The words, with procedure spellings of jobs and options (consumerId, retain_max) normalized.

    InvalidArgument for a job in place of a command, and for an unknown command or job.
    """
    spelled = [_OPTION.sub(_dashed, word) for word in words]
    command = next((word for word in spelled[:1] if not word.startswith("-")), "")
    if not command or (command in COMMANDS and command not in _OF_JOBS):
        return spelled
    from paimon_maintenance.registry import JOBS, job_named  # noqa: PLC0415 - fast start

    if command.replace("-", "_") in JOBS:
        name = job_named(command).name
        raise InvalidArgument(
            f"{command} is a job", next_step=f"use caretaker plan {name}, or caretaker run {name}"
        )
    commands = (*COMMANDS, _DEMO, *GUIDED)
    if command not in commands:
        near = get_close_matches(command, [*commands, *JOBS], n=1)
        hint = f"; did you mean {'run ' if near[0] in JOBS else ''}{near[0]}?" if near else ""
        raise InvalidArgument(
            f"unknown command {command!r}{hint}", next_step="see caretaker --help"
        )
    if command in _OF_JOBS and spelled[1:] and not spelled[1].startswith("-"):
        spelled[1] = job_named(spelled[1]).name
    return spelled


def _rewrites(job: str) -> bool:
    from paimon_maintenance.registry import job_named  # noqa: PLC0415 - fast start

    return job_named(job).rewrites


def _dashed(option: re.Match[str]) -> str:
    return "--" + with_underscores(option.group(1)).replace("_", "-")


def _version() -> str:
    """The version of the installed distribution, or of the checkout."""
    import tomllib  # noqa: PLC0415 - rarely
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - rarely

    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        project = Path(__file__).resolve().parents[3] / "pyproject.toml"
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])


def _set_up_logging(verbose: int) -> None:
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    set_up_logging(level, text_format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if verbose <= 1:
        # Spark's gateway logs every call at INFO.
        logging.getLogger("py4j").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
