"""The job `sort_compact`: its arguments and what it promises.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import PARTITIONS, WHERE
from paimon_maintenance.job.job import Job, steps_of

ORDER_STRATEGY = Argument(
    name="order_strategy",
    kind=Kind.CHOICE,
    choices=("order", "zorder", "hilbert"),
    help="order: by one column after the other, for queries that always filter by the first; "
    "zorder, hilbert: along a curve through all columns, for queries that filter by any of them "
    "(default: clustering.strategy of the table; auto means order for one column, zorder for up "
    "to four, hilbert for more)",
    example="zorder",
)
ORDER_BY = Argument(
    name="order_by",
    kind=Kind.TEXTS,
    default=(),
    help="the columns, joined by commas; no partition column (default: clustering.columns of the "
    "table)",
    example="city,age",
)
STRATEGY = Argument(
    name="strategy",
    kind=Kind.CHOICE,
    choices=("full", "minor"),
    aliases=("compact_strategy",),
    help="only for tables with clustering.incremental, which sort by the columns of their options. "
    "minor (default): sort what Paimon's picker selects; full: sort all unsorted files",
    example="full",
)
WRITERS_STOPPED = Argument(
    name="writers_stopped",
    kind=Kind.BOOLEAN,
    default=False,
    help="confirm that all writers of the table are stopped until this run ends. Required for "
    "primary-key tables with dynamic buckets (bucket=-1): there, keys move between buckets, and an "
    "open writer knows only the old buckets, so it would write keys twice",
)
OPTIONS = replace(common_arguments.OPTIONS, example="target-file-size=256 mb")
BATCH_BYTES = Argument(
    name="batch_bytes",
    kind=Kind.SIZE,
    default=100 * 1024**3,
    help="sort partitions of at most this many bytes together, then commit; a crash loses at most "
    "this much work",
    example="1 tb",
)
RANGE_BYTES = Argument(
    name="range_bytes",
    kind=Kind.SIZE,
    default=1024**3,
    help="on Spark, split a larger partition into ranges of about this size, so that several tasks "
    "share it",
    example="2 gb",
)
PARALLELISM = Argument(
    name="parallelism",
    kind=Kind.INTEGER,
    help="the maximum number of Spark tasks, or of threads with --engine local (default: from the "
    "bytes to sort and the number of cores)",
    example="8",
)


SORT_COMPACT = Job(
    name="sort_compact",
    summary="sort the rows of tables with bucket=-1, so that queries skip files; rows stay the same",
    changes=(
        "Rewrites all files of the selected partitions into files with sorted rows. Commits one "
        "COMPACT snapshot per batch that replaces exactly the files that the job read. Each run "
        "sorts all files again, unless the table has clustering.incremental. In primary-key tables "
        "with dynamic buckets, keys move between buckets, with one OVERWRITE snapshot per "
        "partition; all writers must be stopped (--writers-stopped). The report shows how many "
        "files and bytes a range query reads before and after."
    ),
    protects=(
        "Append tables: concurrent appends survive (Java's sort compaction loses them). If another "
        "job compacts or deletes in a partition at the same time, that partition stays as it is, "
        "and the job fails after the others. Dynamic buckets: nothing protects against a writer "
        "that is open during the run and commits after it. It would write moved keys into their "
        "old buckets, so the job requires --writers-stopped, and stops at the first commit of "
        "another writer. The old files stay on storage until the snapshots expire."
    ),
    undo=(
        "Not needed for readers: the rows are the same. To restore the old files, roll back to the "
        "snapshot before (`planned_from` in the report) before it expires."
    ),
    arguments=(
        ORDER_STRATEGY,
        ORDER_BY,
        STRATEGY,
        PARTITIONS,
        WHERE,
        WRITERS_STOPPED,
        OPTIONS,
        BATCH_BYTES,
        RANGE_BYTES,
        PARALLELISM,
    ),
    examples=(
        "caretaker plan sort_compact db.visits -w /lake --order-by city,age",
        "caretaker run sort_compact db.visits -w /lake --order-by city,age --partition dt=20240101",
    ),
    load=steps_of("paimon_maintenance.jobs.sort_compact.steps:STEPS"),
    retry_safe=True,
)
