"""The definition of `analyze`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.job import Job, steps_of

COLUMNS: Final = Argument(
    name="columns",
    flag="column",
    aliases=("column",),
    kind=Kind.TEXTS,
    default=(),
    help="columns to analyze, separated by commas; repeatable",
    example="id,amount",
)
ALL_COLUMNS: Final = Argument(
    name="all_columns",
    kind=Kind.BOOLEAN,
    default=False,
    help="analyze all columns with a supported type",
)


ANALYZE: Final = Job(
    name="analyze",
    summary="collect table and column statistics, like ANALYZE TABLE",
    changes=(
        "Reads the newest snapshot and commits one ANALYZE snapshot with a statistics file: merged "
        "rows, bytes, and for each column distinct values (exact up to 65,536, then estimated with "
        "an error of about 2 %), nulls, lengths, minimum and maximum. Keeps the statistics of other "
        "columns."
    ),
    protects="No data changes. Query engines use statistics only for planning.",
    undo="Not needed. To replace the statistics, run analyze again; a schema change drops them.",
    arguments=(COLUMNS, ALL_COLUMNS, OPTIONS),
    examples=(
        "caretaker run analyze db.orders -w /lake --all-columns",
        "caretaker run analyze 'db.*' -w /lake --engine local",
    ),
    at_most_one=(("columns", "all_columns"),),
    load=steps_of("paimon_maintenance.jobs.analyze.steps:STEPS"),
    retry_safe=True,
)
