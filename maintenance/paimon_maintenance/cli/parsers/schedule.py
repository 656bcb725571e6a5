"""The parsers of `health`, `schedule`, `alerts`, `report` and `policy explain`."""

from __future__ import annotations

from paimon_maintenance.cli.options import (
    MASTER_VARIABLE,
    Commands,
    Parser,
    add_command,
    catalog_option,
    output_options,
    policy_option,
    positive,
    selection_options,
    table_options,
    timezone_option,
    warehouse_option,
)
from paimon_maintenance.job.engine_choice import EngineName


def health_command(commands: Commands[Parser]) -> None:
    """Add `caretaker health`."""
    parser = add_command(
        commands,
        "health",
        "show the health score of tables, with reasons",
        "Scores each table and partition from 0 to 100, from metadata alone, and names the reasons and\n"
        "the job that helps (docs/health.md). A policy can change thresholds, weights and goals.",
        (
            "caretaker health 'db.*' -w /lake",
            "caretaker health db.orders -w /lake --policy policy.yaml --json",
            "caretaker health '*.*' -w /lake --save",
        ),
    )
    table_options(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    selection_options(parser)
    policy_option(parser)
    parser.add_argument(
        "--save",
        action="store_true",
        help="also store the scores in the history, for the page in Airflow (the scheduler does so itself)",
    )


def schedule_command(commands: Commands[Parser]) -> None:
    """Add `caretaker schedule`."""
    parser = add_command(
        commands,
        "schedule",
        "run the jobs that are worth their cost now, within the budget of the policy",
        "Measures the tables that changed, predicts benefit and cost of each job, and runs the best ones\n"
        "until the budget is spent (docs/scheduling.md). Every decision is in the history with its\n"
        "reason: caretaker policy explain DB.TABLE. Exits with code 3 if nothing is worth running.",
        (
            "caretaker schedule 'db.*' -w /lake --policy policy.yaml --dry-run",
            "caretaker schedule '*.*' -w /lake --policy policy.yaml --engine local",
        ),
    )
    table_options(parser, table_help="a pattern such as 'db.*' (default: '*.*')", optional=True)
    selection_options(parser)
    policy_option(parser)
    timezone_option(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="decide and record the decisions, but run nothing"
    )
    parser.add_argument(
        "--budget-seconds",
        metavar="N",
        type=positive,
        help="compute seconds of this round instead of the policy's",
    )
    parser.add_argument(
        "--engine",
        choices=tuple(map(str, EngineName)),
        help="where to rewrite files: local (in this process), spark, or auto, which depends on their "
        "size (default: auto)",
    )
    parser.add_argument(
        "--master", metavar="URL", help=f"Spark's master (default: ${MASTER_VARIABLE} or local[*])"
    )
    parser.add_argument(
        "--metrics-file", metavar="FILE", help="write Prometheus metrics to this file at the end"
    )


def alerts_command(commands: Commands[Parser]) -> None:
    """Add `caretaker alerts`."""
    parser = add_command(
        commands,
        "alerts",
        "show the open alerts of a lake",
        "Evaluates the alerts from the history (docs/scheduling.md#alerts) and prints the open ones.\n"
        "Only the DAG caretaker_alerts notifies targets. Exits with code 3 if there are none.",
        (
            "caretaker alerts -w /lake --policy policy.yaml",
            "caretaker alerts -w /lake --json",
        ),
    )
    _lake_options(parser)
    policy_option(parser)
    parser.add_argument(
        "--metrics-file", metavar="FILE", help="also write Prometheus metrics of the open alerts"
    )


def approvals_command(commands: Commands[Parser]) -> None:
    """Add `caretaker approvals`."""
    parser = commands.add_parser(
        "approvals",
        help="list, approve and reject runs that wait for a person",
        description="Runs for which the policy requires an `approval` (docs/policy.md#approvals).",
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(dest="approvals_command", metavar="COMMAND", required=True)
    listed = add_command(
        inner,
        "list",
        "list the runs that wait",
        "Lists the runs that wait for an approval, with their plans, those of Airflow included. Exits with\n"
        "code 3 if there are none.",
        ("caretaker approvals list -w /lake", "caretaker approvals list -w /lake --all --json"),
    )
    _lake_options(listed)
    listed.add_argument("--all", action="store_true", help="include answered requests")
    for name, text, description in (
        (
            "approve",
            "approve a run",
            "Approves a run of the command line. It may then run once within a day, with a new plan.\n",
        ),
        ("reject", "reject a run", "Rejects a run of the command line.\n"),
    ):
        answer = add_command(
            inner,
            name,
            text,
            f"{description}Requests of Airflow are answered in Airflow.",
            (f"caretaker approvals {name} 12 -w /lake",),
        )
        answer.add_argument("number", metavar="N", type=positive, help="its number in the list")
        _lake_options(answer)


def report_command(commands: Commands[Parser]) -> None:
    """Add `caretaker report`."""
    parser = add_command(
        commands,
        "report",
        "show what maintenance did in a period",
        "Reads the history: runs by job and by table, what failed and what to do, predicted against\n"
        "measured seconds, alerts. Exits with code 3 if nothing ran.",
        (
            "caretaker report --since 7d -w /lake",
            "caretaker report --since 30d -w /lake --markdown report.md --parquet runs.parquet",
        ),
    )
    _lake_options(parser)
    parser.add_argument(
        "--since", metavar="D", default="7 d", help="the period until now (default: 7 d)"
    )
    parser.add_argument("--markdown", metavar="FILE", help="also write the report as Markdown")
    parser.add_argument(
        "--parquet", metavar="FILE", help="also write the entries of the period as Parquet"
    )


def _lake_options(parser: Parser) -> None:
    warehouse_option(parser)
    catalog_option(parser)
    parser.add_argument("--branch", metavar="B", help="a branch of the tables (default: main)")
    output_options(parser)


def policy_commands(inner: Commands[Parser]) -> None:
    """Add `caretaker policy explain` and `caretaker policy schema`."""
    explain = add_command(
        inner,
        "explain",
        "show the latest decisions about a table, with reasons",
        "Reads the history: what the scheduler decided in its last rounds, what it predicted, and what\n"
        "came out.",
        ("caretaker policy explain sales.orders -w /lake",),
    )
    table_options(explain)
    explain.add_argument(
        "--limit",
        metavar="N",
        type=positive,
        default=10,
        help="print at most N decisions (default: 10)",
    )
    schema = add_command(
        inner,
        "schema",
        "print the JSON Schema of policy files, for editors",
        "Prints a JSON Schema (2020-12). Editors with a YAML language server complete and check with it.",
        ("caretaker policy schema > policy.schema.json",),
    )
    output_options(schema)
