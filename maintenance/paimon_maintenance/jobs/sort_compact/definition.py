"""What `sort_compact` is called, takes and promises; nothing heavy is imported here."""

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
    help="order: by one column after the other, for queries that always name the first; zorder, "
    "hilbert: along a curve through all of them, for queries that name any (default: "
    "clustering.strategy of the table, where that says auto by the number of columns: one order, "
    "up to four zorder, more hilbert)",
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
    help="only for tables with clustering.incremental, whose options say by which columns: minor "
    "(default): sort what Paimon's picker would; full: everything that is not sorted yet",
    example="full",
)
WRITERS_STOPPED = Argument(
    name="writers_stopped",
    kind=Kind.BOOLEAN,
    default=False,
    help="say that all writers of the table are stopped until this run has ended. Required for "
    "primary-key tables with dynamic buckets (bucket=-1): keys move between buckets there, and a "
    "writer that is open knows only the old ones, so that it would write keys twice",
)
OPTIONS = replace(common_arguments.OPTIONS, example="target-file-size=256 mb")
BATCH_BYTES = Argument(
    name="batch_bytes",
    kind=Kind.SIZE,
    default=100 * 1024**3,
    help="sort partitions of about this much together, then commit; what a crash loses at most",
    example="1 tb",
)
RANGE_BYTES = Argument(
    name="range_bytes",
    kind=Kind.SIZE,
    default=1024**3,
    help="on Spark, cut a partition that is larger than this into ranges of about this size, so "
    "that several tasks share it",
    example="2 gb",
)
PARALLELISM = Argument(
    name="parallelism",
    kind=Kind.INTEGER,
    help="how many tasks Spark is given at most, or threads with --engine local "
    "(default: from the bytes to sort and the cores there are)",
    example="8",
)


SORT_COMPACT = Job(
    name="sort_compact",
    summary="sort the rows of tables with bucket=-1, so that queries skip files; rows stay the same",
    changes=(
        "Rewrites all files of the chosen partitions into files whose rows are sorted, and commits "
        "one snapshot of kind COMPACT a batch that replaces exactly the files it read. Each run "
        "sorts everything again, unless the table has clustering.incremental. In primary-key "
        "tables with dynamic buckets keys move between buckets, by one OVERWRITE snapshot a "
        "partition; all writers have to be stopped for that (--writers-stopped). The report tells how many files and bytes a range query reads, before and after."
    ),
    protects=(
        "Append tables: rows that others append meanwhile survive (with Java's sort compaction they "
        "are lost). A concurrent compaction or delete in a partition leaves that partition as it "
        "was, and the job fails after the others. Dynamic buckets: nothing protects against a "
        "writer that is open during the run and commits after it. It would write moved keys into "
        "their old buckets, so the job is refused without --writers-stopped, and stops at the "
        "first commit of somebody else to the table. Old files stay on storage until snapshots "
        "expire."
    ),
    undo=(
        "Reading needs no undo: the rows are the same. To go back to the old files, roll the table "
        "back to the snapshot before (named as `planned_from` in the report) while it has not "
        "expired."
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
