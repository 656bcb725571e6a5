"""The parsers of the commands about need: `health`."""

from __future__ import annotations

from paimon_maintenance.cli.options import (
    Commands,
    Parser,
    add_command,
    policy_option,
    selection_options,
    table_options,
)


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
        ),
    )
    table_options(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    selection_options(parser)
    policy_option(parser)
