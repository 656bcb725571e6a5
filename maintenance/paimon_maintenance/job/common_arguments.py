"""Arguments that several jobs take, and mean alike."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind

PARTITIONS: Final = Argument(
    name="partitions",
    flag="partition",
    aliases=("partition",),
    kind=Kind.PARTITIONS,
    default=(),
    help="only these partitions: key=value, several keys joined by commas (and), given again or "
    "joined by semicolons (or); a part of the partition keys is enough; not with where",
    example="dt=2024-01-01,hh=10",
)
WHERE: Final = Argument(
    name="where",
    kind=Kind.TEXT,
    help="only partitions for which this SQL condition over partition columns holds; not with "
    "partition",
    example="dt >= '2024-01-01'",
)
OPTIONS: Final = Argument(
    name="options",
    flag="option",
    aliases=("option",),
    kind=Kind.OPTIONS,
    default={},
    help="table options for this run only: key=value, given again for more",
)
PARALLELISM: Final = Argument(
    name="parallelism",
    kind=Kind.INTEGER,
    least=1,
    help="how many tasks Spark is given at most, or threads with --engine local "
    "(default: from the bytes to rewrite and the cores there are)",
    example="8",
)
