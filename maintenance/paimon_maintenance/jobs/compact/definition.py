"""What `compact` is called, takes and promises; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import PARALLELISM, PARTITIONS, WHERE
from paimon_maintenance.job.job import Job, steps_of

STRATEGY = Argument(
    name="strategy",
    kind=Kind.CHOICE,
    choices=("full", "minor"),
    default="full",
    aliases=("compact_strategy",),
    help="full: merge every bucket into its top level; minor: only what Paimon's own picker would "
    "(tables with bucket=-1 always go by their small files)",
    example="minor",
)
PARTITION_IDLE_TIME = Argument(
    name="partition_idle_time",
    kind=Kind.DURATION,
    help="only partitions that received no new file for this long",
    example="1 h",
)
OPTIONS = replace(common_arguments.OPTIONS, example="target-file-size=256 mb")
COMMIT_BYTES = Argument(
    name="commit_bytes",
    kind=Kind.SIZE,
    help="commit each time about this much was rewritten, so that a huge job keeps what is done "
    "if it fails later; a bucket is never split over two commits (default: one commit)",
    example="100 gb",
)
SLICE_BYTES = Argument(
    name="slice_bytes",
    kind=Kind.SIZE,
    default=4 * 1024**3,
    help="cut a bucket that is larger than this by key range, so that several tasks share it; "
    "0: never",
    example="2 gb",
)


COMPACT = Job(
    name="compact",
    summary="merge small files and sorted runs into few large ones; the rows stay the same",
    changes=(
        "Rewrites the files of the chosen buckets into fewer, sorted ones and commits one snapshot "
        "of kind COMPACT that replaces exactly the files it read. A full compaction also drops "
        "rows that deletes have hidden."
    ),
    protects=(
        "Rows that others append meanwhile survive: only files that were read are replaced. "
        "A concurrent compaction of the same files is a conflict; a new plan is then made. "
        "Old files stay on storage until snapshots expire, so older snapshots and tags read on."
    ),
    undo=(
        "Reading needs no undo: the rows are the same. To go back to the old files, roll the table "
        "back to the snapshot before (named as `planned_from` in the report) while it has not "
        "expired."
    ),
    arguments=(
        STRATEGY,
        PARTITIONS,
        WHERE,
        PARTITION_IDLE_TIME,
        OPTIONS,
        PARALLELISM,
        COMMIT_BYTES,
        SLICE_BYTES,
    ),
    examples=(
        "caretaker plan compact db.orders -w /lake",
        "caretaker run compact db.orders -w /lake --strategy minor",
        "caretaker run compact db.orders -w /lake --partition dt=2024-01-01 --engine local",
        "caretaker run compact 'db.*' -w s3://lake --excluding 'db\\.tmp_.*' --dry-run",
    ),
    load=steps_of("paimon_maintenance.jobs.compact.steps:STEPS"),
    by_age=True,  # rows of tables with record-level.expire-time
    table_options={"write-only": "false"},
    replans=True,
    retry_safe=True,
)
