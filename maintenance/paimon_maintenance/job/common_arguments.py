"""Arguments that several jobs share."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind

PARTITIONS: Final = Argument(
    name="partitions",
    flag="partition",
    aliases=("partition",),
    kind=Kind.PARTITIONS,
    default=(),
    help="only these partitions: key=value; join keys with commas, separate partitions with "
    "semicolons or repeat the option; some of the partition keys are enough; cannot be combined "
    "with where",
    example="dt=2024-01-01,hh=10",
)
WHERE: Final = Argument(
    name="where",
    kind=Kind.TEXT,
    help="only partitions that match this SQL condition on partition columns; cannot be "
    "combined with partition",
    example="dt >= '2024-01-01'",
)
OPTIONS: Final = Argument(
    name="options",
    flag="option",
    aliases=("option",),
    kind=Kind.OPTIONS,
    default={},
    help="table options for this run only: key=value; repeatable",
)
PARALLELISM: Final = Argument(
    name="parallelism",
    kind=Kind.INTEGER,
    least=1,
    help="maximum number of Spark tasks, or of threads in this process "
    "(default: depends on the bytes to rewrite and the number of cores)",
    example="8",
)
THREADS: Final = Argument(
    name="threads",
    kind=Kind.INTEGER,
    least=1,
    help="threads of each task that merges, for one large bucket on several cores "
    "(default: spark.task.cpus, in this process 1)",
    example="4",
)
