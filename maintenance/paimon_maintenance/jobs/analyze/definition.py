"""What `analyze` is called, takes and promises; nothing heavy is imported here."""

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
    help="columns to gather statistics of, given again or joined by commas",
    example="id,amount",
)
ALL_COLUMNS: Final = Argument(
    name="all_columns",
    kind=Kind.BOOLEAN,
    default=False,
    help="gather statistics of all columns whose type allows it",
)


ANALYZE: Final = Job(
    name="analyze",
    summary="gather statistics of a table and its columns, as ANALYZE TABLE does",
    changes=(
        "Reads the newest snapshot and commits one snapshot of kind ANALYZE that names a "
        "statistics file: rows after merging, bytes, and of each column the distinct values "
        "(exact up to 65,536, then estimated to about 2 %), nulls, lengths, minimum and maximum. "
        "Statistics of other columns are kept."
    ),
    protects="No data is changed. Statistics only guide the planners of query engines.",
    undo="None is needed; analyze again, or let the schema change, which drops the statistics.",
    arguments=(COLUMNS, ALL_COLUMNS, OPTIONS),
    examples=(
        "caretaker run analyze db.orders -w /lake --all-columns",
        "caretaker run analyze 'db.*' -w /lake --engine local",
    ),
    load=steps_of("paimon_maintenance.jobs.analyze.steps:STEPS"),
    retry_safe=True,
)
