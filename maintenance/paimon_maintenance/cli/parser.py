"""What can be typed: commands, options and the help that teaches them.

Options of jobs are made from the jobs' own arguments, so this module never names one of them.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS

WAREHOUSE_VARIABLE: Final = "CARETAKER_WAREHOUSE"
MASTER_VARIABLE: Final = "CARETAKER_SPARK_MASTER"
JOB_ARGUMENT_PREFIX: Final = "job_argument_"
GUIDED: Final[Mapping[str, str]] = {
    "python": "the environment's Python, for scripts that use Caretaker's packages",
    "test": "lint, type checks and all tests of a checkout",
}
"""Commands that `./caretaker` itself answers; here they only appear in the help."""

_EXIT_CODES = "exit codes:\n" + "\n".join(f"  {int(c)}  {c.meaning}" for c in ExitCode)

_TOP = f"""\
Keeps Apache Paimon tables healthy, without Java.

A table is named DATABASE.TABLE inside a warehouse: a folder or an object store's URL, given with
-w or in the environment variable {WAREHOUSE_VARIABLE}.

  look     caretaker inspect db.orders -w /lake       is the table healthy, and what to do
           caretaker read db.orders -w /lake --limit 5
           caretaker verify db.orders -w /lake        is everything there that should be
           caretaker history db.orders                what was done to it, by whom
  plan     caretaker plan compact db.orders -w /lake  what a run would do; changes nothing
  act      caretaker run compact db.orders -w /lake   do it
           caretaker run compact 'db.*' -w /lake --excluding 'db\\.tmp_.*'
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help whose examples can be copied: no line ends inside a word with a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        words = " ".join(text.split())
        return textwrap.wrap(words, width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidArgument instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise, and say where help is."""
        raise InvalidArgument(message, next_step=f"see {self.prog} --help")


@cache
def build_parser() -> Parser:
    """The parser of the whole command line; with all options of all jobs it takes 25 ms to make."""
    parser = Parser(
        prog="caretaker",
        description=_TOP,
        epilog=_EXIT_CODES + "\n\nMore: docs/cli.md",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _read(commands)
    _files(commands)
    _inspect(commands)
    _job_command(
        commands,
        "plan",
        "what a job would do to a table, what it would leave alone, and why; changes nothing",
        "A plan is made from the newest snapshot, without starting Spark, and printed. Nothing is "
        "changed.",
    )
    _job_command(
        commands,
        "run",
        "run a job on a table, or on many",
        "Plans, checks the guards, executes, commits, verifies and reports.",
    )
    _verify(commands)
    _history(commands)
    _leases(commands)
    _policy(commands)
    _sql(commands)
    demo = commands.add_parser(
        "demo",
        help="make a lake, start Airflow and let it compact the lake with Spark",
        add_help=False,
    )
    demo.add_argument("rest", nargs=argparse.REMAINDER)
    for name, text in GUIDED.items():
        commands.add_parser(name, help=text, add_help=False).add_argument(
            "rest", nargs=argparse.REMAINDER
        )
    return parser


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(
    commands: Commands[Parser], name: str, summary: str, description: str, examples: Sequence[str]
) -> Parser:
    epilog = ("examples:\n" + "\n".join(f"  {e}" for e in examples) + "\n\n") if examples else ""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog + _EXIT_CODES,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )


def _common(parser: Parser, *, table_help: str = "DATABASE.TABLE") -> None:
    parser.add_argument("table", metavar="TABLE", help=table_help)
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        help=f"the warehouse: a folder or URL (default: ${WAREHOUSE_VARIABLE})",
    )
    parser.add_argument("--branch", metavar="B", help="a branch of the table instead of main")
    parser.add_argument(
        "--storage",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the object store, for example s3.endpoint=http://minio:9000; repeatable",
    )
    _output_options(parser)


def _output_options(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="log to standard error; -vv logs files"
    )


def _version_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", metavar="N", type=_whole_number, help="as of this snapshot")
    which.add_argument("--tag", metavar="T", help="as of this tag")
    which.add_argument(
        "--timestamp",
        metavar="MS",
        type=_whole_number,
        help="as of this time, in milliseconds since 1970 (UTC)",
    )


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from e


def _not_negative(text: str) -> int:
    number = _whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return number


def _positive(text: str) -> int:
    number = _whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number


def _read(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "read",
        "print a table's rows as JSON lines",
        "Prints one JSON array a row: [kind, value, ...]. The kind is +I, or +U for a key whose\n"
        "latest change was an update. Rows come in no promised order, and memory stays bounded.",
        (
            "caretaker read db.orders -w /lake --limit 10",
            "caretaker read db.orders -w /lake --columns id,amount --where \"dt = '2024-01-01'\"",
            "caretaker read db.orders -w /lake --tag 2024-01-01 | wc -l",
            "caretaker read db.orders -w /lake --incremental 12,15",
            "caretaker read 'db.orders$snapshots' -w /lake",
        ),
    )
    _common(parser)
    _version_options(parser)
    parser.add_argument(
        "--watermark",
        metavar="MS",
        type=_whole_number,
        help="as of the snapshot that has reached this watermark, in milliseconds",
    )
    parser.add_argument(
        "--incremental",
        metavar="FROM,TO",
        help="only what changed after FROM up to TO: two snapshots, or two tags",
    )
    parser.add_argument(
        "--incremental-mode",
        metavar="M",
        choices=("auto", "delta", "changelog", "diff"),
        help="auto, delta (rows as appended), changelog, or diff (compare both snapshots)",
    )
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a table option for this read alone, as in scan.mode=compacted-full; repeatable",
    )
    parser.add_argument("--columns", metavar="A,B", help="only these columns, in this order")
    parser.add_argument("--where", metavar="SQL", help="only rows for which this condition holds")
    parser.add_argument("--limit", metavar="N", type=_not_negative, help="at most so many rows")
    _timezone_option(parser)


def _files(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "files",
        "list the live data files of a table",
        "Lists the data files (and index files) that are live in a snapshot, the newest by default.",
        (
            "caretaker files db.orders -w /lake",
            "caretaker files db.orders -w /lake --snapshot 12 --json",
        ),
    )
    _common(parser)
    _version_options(parser)


def _inspect(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "inspect",
        "a table's health: files, sorted runs, snapshots, consumers, and what to do about it",
        "Reads metadata only, and gives advice: which job would help, and the command for it.",
        ("caretaker inspect db.orders -w /lake", "caretaker inspect 'db.*' -w /lake --json"),
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)


def _verify(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "verify",
        "check that everything a table refers to is there and fits together",
        "Walks every snapshot, tag, changelog and branch: files exist, sizes and row counts match,\n"
        "no keys overlap within a level, one bucket number a partition, hints and consumers are\n"
        "sane. Changes nothing. Exit code 7 if an error is found.",
        (
            "caretaker verify db.orders -w /lake",
            "caretaker verify 'db.*' -w /lake --no-rows --json",
            "caretaker verify db.orders -w /lake --keys",
            "caretaker verify db.orders -w /lake --deep --parallelism 4",
        ),
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)
    parser.add_argument(
        "--no-rows",
        action="store_true",
        help="do not open data files to count their rows (faster on object stores)",
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="read the keys of tables with dynamic buckets, and find those in two buckets",
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="decode every page of every data file, check its checksums, compare the "
        "statistics of all live files with their rows, and --keys: reads the whole table",
    )
    parser.add_argument(
        "--parallelism",
        type=int,
        metavar="N",
        help="files that --deep decodes at a time (default: one a core)",
    )


def _leases(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "leases",
        "which jobs hold which tables right now",
        "A job that removes history or files of a table holds a lease on it while it does; the\n"
        "others wait. A lease whose process has ended, or that was not renewed for a minute, is\n"
        "taken over by the next job. Exit code 3 if no table is held.",
        (
            "caretaker leases db.orders -w /lake",
            "caretaker leases '*.*' -w /lake --json",
        ),
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)


def _history(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "history",
        "what was planned, run and skipped on which table, by whom, and how it ended",
        "Prints the newest entries, newest first. They are kept in the database that the\n"
        "environment variable CARETAKER_HISTORY_URL names (an SQLAlchemy URL; none: no history),\n"
        "by default a file under ~/.local/state/caretaker.",
        (
            "caretaker history db.orders",
            "caretaker history 'db.*' --job expire_snapshots --limit 50",
            "caretaker history --failed --json",
        ),
    )
    parser.add_argument("table", metavar="TABLE", nargs="?", help="DATABASE.TABLE, or 'db.*'")
    parser.add_argument("--job", metavar="J", help="only this job")
    parser.add_argument("--run-id", metavar="ID", help="only this run")
    ended = parser.add_mutually_exclusive_group()
    ended.add_argument("--failed", action="store_true", help="only what failed")
    ended.add_argument("--refused", action="store_true", help="only what was refused")
    parser.add_argument(
        "--limit", metavar="N", type=_not_negative, default=20, help="at most so many (default: 20)"
    )
    parser.add_argument("--url", metavar="URL", help="the database, an SQLAlchemy URL")
    _output_options(parser)


def _policy(commands: Commands[Parser]) -> None:
    parser = commands.add_parser(
        "policy",
        help="check a policy file, or show what it says of a table",
        description="A policy says which tables get which jobs, when and how (docs/policy.md).",
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(dest="policy_command", metavar="COMMAND", required=True)
    check = _command(
        inner,
        "check",
        "check a policy file",
        "Reads the whole file; the first thing that is wrong is named with file, line and key.",
        ("caretaker policy check policy.yaml",),
    )
    check.add_argument("file", metavar="FILE")
    _output_options(check)
    show = _command(
        inner,
        "show",
        "what holds for one table",
        "With a warehouse, also says which of the options the table sets itself.",
        ("caretaker policy show sales.orders --policy policy.yaml -w /lake",),
    )
    _common(show)
    _policy_option(show)


def _sql(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "sql",
        "run SQL statements: DDL, queries, changes, CALL",
        "Runs the statements in one session, with the current catalog paimon and the current\n"
        "database default. Spark starts with the first statement that needs it.",
        (
            "caretaker sql -w /lake -e 'SHOW TABLES'",
            "caretaker sql -w /lake -f report.sql --json -k",
            "echo 'SELECT count(*) FROM db.orders' | caretaker sql -w /lake",
        ),
    )
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        help=f"the warehouse: a folder or URL (default: ${WAREHOUSE_VARIABLE})",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-e", "--execute", metavar="SQL", help="the statements, each ended by ;")
    which.add_argument(
        "-f", "--file", metavar="FILE", help="a file of statements (default: standard input)"
    )
    parser.add_argument(
        "-k", "--keep-going", action="store_true", help="go on after a statement that fails"
    )
    parser.add_argument(
        "--master", metavar="URL", help=f"Spark's master (default: ${MASTER_VARIABLE} or local[*])"
    )
    parser.add_argument(
        "--storage",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the object store, for example s3.endpoint=http://minio:9000; repeatable",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a statement on standard output"
    )
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="log to standard error; -vv logs files"
    )


def _policy_option(parser: Parser) -> None:
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="the policy: arguments, guards and options for each table (default: "
        "$CARETAKER_POLICY, if set)",
    )


def _timezone_option(parser: Parser) -> None:
    parser.add_argument(
        "--timezone",
        metavar="ZONE",
        help="zone of the writers' wall clock, as in Europe/Berlin (default: this machine's)",
    )


def _selection(parser: Parser) -> None:
    parser.add_argument(
        "--including",
        metavar="REGEX",
        action="append",
        default=[],
        help="with a pattern: only tables whose whole name database.table matches; repeatable",
    )
    parser.add_argument(
        "--excluding",
        metavar="REGEX",
        action="append",
        default=[],
        help="with a pattern: no table whose whole name matches; repeatable",
    )


def _job_command(commands: Commands[Parser], name: str, summary: str, description: str) -> None:
    jobs_text = "\n".join(f"  {job.name:12} {job.summary}" for job in JOBS.values())
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{description}\n\njobs:\n{jobs_text}",
        epilog=f"See `caretaker {name} JOB --help` for a job's arguments.\n\n{_EXIT_CODES}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True, parser_class=Parser)
    for job in JOBS.values():
        _job(jobs, name, job)


def _job(jobs: Commands[Parser], command: str, job: Job) -> None:
    parser = _command(
        jobs,
        job.name,
        job.summary,
        f"{job.summary}\n\nwhat it does:\n{_wrapped(job.changes)}\n\nwhat protects the data:\n"
        f"{_wrapped(job.protects)}\n\nhow to undo it:\n{_wrapped(job.undo)}",
        job.examples,
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)
    own = parser.add_argument_group("arguments of the job")
    for argument in job.arguments:
        _job_option(own, argument)
    _policy_option(parser)
    _timezone_option(parser)
    if command == "run":
        _run_options(parser)


def _job_option(group: argparse._ArgumentGroup, argument: Argument) -> None:
    text = argument.help
    if argument.example:
        quote = '"' if "'" in argument.example else "'"
        text += f"; for example {argument.option} {quote}{argument.example}{quote}"
    if argument.default not in (None, (), {}, False):
        default = argument.json_default()
        shown = ",".join(map(str, default)) if isinstance(default, list) else default
        text += f" (default: {shown})"
    text = text.replace("%", "%%")
    dest = JOB_ARGUMENT_PREFIX + argument.name
    if argument.kind is Kind.BOOLEAN:
        group.add_argument(
            argument.option,
            dest=dest,
            action=argparse.BooleanOptionalAction if argument.default else "store_true",
            default=None,
            help=text,
        )
    elif argument.repeatable:
        metavar = "A,B" if argument.kind is Kind.TEXTS else "K=V"
        group.add_argument(
            argument.option, dest=dest, action="append", metavar=metavar, default=None, help=text
        )
    else:
        metavar = "|".join(argument.choices) if argument.choices else argument.kind.upper()
        group.add_argument(argument.option, dest=dest, metavar=metavar, default=None, help=text)
    _procedure_words(group, argument, dest)


def _procedure_words(group: argparse._ArgumentGroup, argument: Argument, dest: str) -> None:
    """Take the procedure's own word for the argument as well, without showing it in the help."""
    for word in argument.other_options:
        if word in group._option_string_actions:  # noqa: SLF001 - argparse has no other way to ask
            continue  # a common option, as --branch is
        hidden: dict[str, Any] = {"dest": dest, "default": None, "help": argparse.SUPPRESS}
        if argument.kind is Kind.BOOLEAN:
            hidden["action"] = "store_true"
        elif argument.kind is Kind.OPTIONS:
            # As in the procedure, one text may hold several: "a=1,b=2".
            hidden |= {"action": "extend", "type": lambda text: text.split(",")}
        elif argument.repeatable:
            hidden["action"] = "append"
        group.add_argument(word, **hidden)


def _run_options(parser: Parser) -> None:
    run = parser.add_argument_group("how to run")
    run.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    run.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="where files are rewritten: Spark, or this process (default: spark)",
    )
    run.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master: local[4], spark://host:7077, yarn, k8s://..., or sc://host for Spark "
        f"Connect (default: ${MASTER_VARIABLE}, else local[*])",
    )
    run.add_argument("--force", action="store_true", help="go on where a guard would stop the run")
    run.add_argument(
        "--max-rewrite",
        metavar="SIZE",
        help="guard: stop when the plan would read and write more than this, for example '500 gb'",
    )
    run.add_argument(
        "--max-attempts",
        metavar="N",
        type=_positive,
        default=None,
        help="how many plans to try when concurrent commits win (default: 5)",
    )
    run.add_argument(
        "--no-verify", action="store_true", help="do not look at the committed files again"
    )
    run.add_argument(
        "--metrics-file", metavar="PATH", help="write Prometheus metrics of this run to a file"
    )


def _wrapped(text: str, width: int = 88) -> str:
    lines, line = [], " "
    for word in text.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = " "
        line += " " + word
    return "\n".join([*lines, line])
