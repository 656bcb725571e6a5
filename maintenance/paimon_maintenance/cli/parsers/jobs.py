"""The commands `plan` and `run`: one sub-command per job, with options from its arguments.

This module names no job.
"""

from __future__ import annotations

import argparse
import shlex
import textwrap
from typing import Any, Final

from paimon_maintenance.cli.options import (
    EXIT_CODES,
    MASTER_VARIABLE,
    Commands,
    Formatter,
    Parser,
    add_command,
    policy_option,
    positive,
    selection_options,
    table_options,
    timezone_option,
)
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.engine_choice import EngineName
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS

JOB_ARGUMENT_PREFIX: Final = "job_argument_"


def job_command(commands: Commands[Parser], name: str, summary: str, description: str) -> None:
    width = max(len(name) for name in JOBS)
    jobs_text = "\n".join(f"  {job.name:{width}}  {job.summary}" for job in JOBS.values())
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{description}\n\njobs:\n{jobs_text}",
        epilog=f"See `caretaker {name} JOB --help` for the arguments of a job.\n\n{EXIT_CODES}",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True, parser_class=Parser)
    for job in JOBS.values():
        _job(jobs, name, job)


def _job(jobs: Commands[Parser], command: str, job: Job) -> None:
    parser = add_command(
        jobs,
        job.name,
        None,  # the description of the command lists the jobs
        f"{job.summary}\n\nchanges:\n{_wrapped(job.changes)}\n\nprotection:\n"
        f"{_wrapped(job.protects)}\n\nundo:\n{_wrapped(job.undo)}",
        job.examples,
    )
    table_options(
        parser,
        table_help="DATABASE.TABLE, or a pattern such as 'db.*'; with a pattern, tables with the option "
        "caretaker.maintenance=off are skipped",
    )
    selection_options(parser)
    own = parser.add_argument_group("job arguments")
    for argument in job.arguments:
        _job_option(own, argument, required=argument.name in job.required)
    policy_option(parser)
    timezone_option(parser)
    if command == "run":
        _run_options(parser)


def _job_option(group: argparse._ArgumentGroup, argument: Argument, *, required: bool) -> None:
    text = f"required: {argument.help}" if required else argument.help
    if argument.example:
        text += f"; for example {argument.option} {_quoted(argument.example)}"
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


def _quoted(example: str) -> str:
    """The example as a shell takes it: in the quotes that it does not hold, if it needs any."""
    if shlex.quote(example) == example:
        return example
    quote = '"' if "'" in example else "'"
    return f"{quote}{example}{quote}"


def _procedure_words(group: argparse._ArgumentGroup, argument: Argument, dest: str) -> None:
    """Also accept the procedure's spelling of the argument, hidden from the help."""
    for word in argument.other_options:
        if word in group._option_string_actions:  # noqa: SLF001 - argparse has no other way to ask
            continue  # a common option, as --branch is
        hidden: dict[str, Any] = {"dest": dest, "default": None, "help": argparse.SUPPRESS}
        if argument.kind is Kind.BOOLEAN:
            hidden["action"] = "store_true"
        elif argument.kind is Kind.OPTIONS:
            # As in the procedure, one value may hold several: "a=1,b=2".
            hidden |= {"action": "extend", "type": lambda text: text.split(",")}
        elif argument.repeatable:
            hidden["action"] = "append"
        group.add_argument(word, **hidden)


def _run_options(parser: Parser) -> None:
    run = parser.add_argument_group("how to run")
    run.add_argument("--dry-run", action="store_true", help="print the plan and exit")
    run.add_argument(
        "--engine",
        choices=tuple(map(str, EngineName)),
        help="where to rewrite files: local (in this process), spark, or auto, which takes Spark from "
        "--spark-threshold on (default: auto)",
    )
    run.add_argument(
        "--spark-threshold",
        metavar="SIZE",
        help="with --engine auto, rewrite less than this in this process, the rest on Spark; 0: all on "
        "Spark (default: 256 mb)",
    )
    run.add_argument(
        "--master",
        metavar="URL",
        help="Spark master: local[4], spark://host:7077, yarn, k8s://..., or sc://host for Spark "
        f"Connect (default: ${MASTER_VARIABLE}, else local[*])",
    )
    run.add_argument(
        "--force",
        action="store_true",
        help="ignore the guards, except the one for files that the newest snapshot needs",
    )
    run.add_argument(
        "--max-rewrite",
        metavar="SIZE",
        help="guard: stop if the plan rewrites more than this, for example '500 gb'",
    )
    run.add_argument(
        "--max-attempts",
        metavar="N",
        type=positive,
        default=None,
        help="maximum number of plans if concurrent commits conflict (default: 5)",
    )
    run.add_argument("--no-verify", action="store_true", help="do not verify the committed files")
    run.add_argument(
        "--metrics-file", metavar="PATH", help="write the Prometheus metrics of this run to PATH"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        88,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
