"""`caretaker`: parse, dispatch, and turn whatever happens into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.cli.parser import GUIDED, build_parser
from paimon_maintenance.job.arguments import with_underscores
from paimon_maintenance.job.exit_codes import ExitCode, exit_code_of
from paimon_maintenance.registry import JOBS, job_named, jobs_with
from paimon_maintenance.rules.tables import is_pattern

_DISTRIBUTION: Final = "paimon-caretaker"
_EXTRAS: Final[Mapping[str, str]] = {
    "airflow": "airflow",
    "datasketches": "sketches",
    "pandas": "spark",
    "psycopg": "postgres",
    "pydantic": "maintenance",
    "pyspark": "spark",
    "sqlglot": "spark",
    "rich": "maintenance",
    "s3fs": "s3",
    "sqlalchemy": "maintenance",
    "yaml": "maintenance",
}
"""Packages of which the distribution's base needs none, and the extra that brings each."""
INTERRUPTED: Final = 130
"""What shells say of a process that Ctrl-C ended."""

_OF_JOBS: Final = ("plan", "run")
_OPTION: Final = re.compile(r"^--([a-z]+(?:[-_]?[A-Za-z]+)*)(?==|$)")
_MODULES: Final[Mapping[str, str]] = {
    "read": "paimon_maintenance.cli.read",
    "files": "paimon_maintenance.cli.files",
    "inspect": "paimon_maintenance.cli.inspect",
    "plan": "paimon_maintenance.cli.plan",
    "run": "paimon_maintenance.cli.run",
    "verify": "paimon_maintenance.cli.verify",
    "history": "paimon_maintenance.cli.history",
    "policy": "paimon_maintenance.cli.policy",
    "leases": "paimon_maintenance.cli.leases",
    "sql": "paimon_maintenance.cli.sql",
}


class Command(Protocol):
    """The module of a command."""

    def run(self, args: argparse.Namespace, output: Output) -> ExitCode:
        """Do it; raise what goes wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command line `argv` (the process's own by default)."""
    words = list(sys.argv[1:] if argv is None else argv)
    output = Output(json="--json" in words)
    try:
        return int(_dispatch(words, output))
    except KeyboardInterrupt:
        output.note("interrupted; what was not committed is not visible to anybody")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough (`caretaker read ... | head`).
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the exit
        return int(ExitCode.SUCCESS)
    except Exception as e:
        error = _missing_extra(e) if isinstance(e, ModuleNotFoundError) else e
        if exit_code_of(error) is ExitCode.FAILURE:
            logging.getLogger(__name__).info("unexpected failure", exc_info=e)
        try:
            return int(output.error(error))
        except BrokenPipeError:
            output.err.write(error_line(error) + "\n")
            return int(exit_code_of(error))


def _missing_extra(error: ModuleNotFoundError) -> Exception:
    """What says which extra brings a package that is not installed; the error itself for others."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    if extra is None:
        return error
    return InvalidArgument(
        f"this command needs the package {package!r}, which is not installed",
        next_step=f"pip install '{_DISTRIBUTION}[{extra}]'",
    )


def _dispatch(words: Sequence[str], output: Output) -> int:
    if words[:1] == ["demo"]:
        # Its options belong to it, all of them.
        demo = importlib.import_module("paimon_maintenance.demo.main")
        return int(demo.run(list(words[1:])))
    args, unknown = build_parser().parse_known_args(_as_spelled_here(words))
    if unknown:
        # The parser at the top finds them, but the help that lists what there is is further down.
        told = [args.command] if args.command else []
        told += [args.job] if args.command in _OF_JOBS else []
        others = jobs_with(unknown[0].partition("=")[0])
        hint = f" (an argument of {', '.join(others)})" if told[1:] and others else ""
        raise InvalidArgument(
            f"unrecognized arguments: {' '.join(unknown)}{hint}",
            next_step=f"see {' '.join(['caretaker', *told])} --help",
        )
    if args.version:
        output.result({"version": _version()}, [_version()])
        return int(ExitCode.SUCCESS)
    if args.command is None:
        raise InvalidArgument("no command was given", next_step="see caretaker --help")
    if args.command in GUIDED:
        raise InvalidArgument(
            f"{args.command!r} is answered by the ./caretaker of a checkout",
            next_step=f"run ./caretaker {args.command} there",
        )
    _set_up_logging(args.verbose)
    output.json = bool(args.json)
    command = cast("Command", importlib.import_module(_MODULES[args.command]))
    try:
        return int(command.run(args, output))
    except InvalidArgument:
        raise
    except PaimonError as e:
        # Files deep inside do not know whose they are.
        named = getattr(args, "table", None)
        e.table = e.table or (named if named and not is_pattern(named) else None)
        raise


def _as_spelled_here(words: Sequence[str]) -> list[str]:
    """The words, with jobs and options of procedures (consumerId, retain_max) in our spelling.

    InvalidArgument for a job where a command belongs, and for a job that does not exist.
    """
    spelled = [_OPTION.sub(_dashed, word) for word in words]
    command = next((word for word in spelled[:1] if not word.startswith("-")), "")
    if command.replace("-", "_") in JOBS:
        name = job_named(command).name
        raise InvalidArgument(
            f"{command} is a job", next_step=f"use caretaker plan {name}, or caretaker run {name}"
        )
    if command in _OF_JOBS and spelled[1:] and not spelled[1].startswith("-"):
        spelled[1] = job_named(spelled[1]).name
    return spelled


def _dashed(option: re.Match[str]) -> str:
    return "--" + with_underscores(option.group(1)).replace("_", "-")


def _version() -> str:
    """The version of the installed distribution, or of the checkout that this file is part of."""
    import tomllib  # noqa: PLC0415 - rarely
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - rarely

    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        project = Path(__file__).resolve().parents[3] / "pyproject.toml"
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])


def _set_up_logging(verbose: int) -> None:
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if verbose <= 1:
        # Spark's gateway logs every call at INFO.
        logging.getLogger("py4j").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
