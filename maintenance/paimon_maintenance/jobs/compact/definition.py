"""The job `compact`: its arguments and what it promises.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import PARALLELISM, PARTITIONS, THREADS, WHERE
from paimon_maintenance.job.job import Job, steps_of

STRATEGY = Argument(
    name="strategy",
    kind=Kind.CHOICE,
    choices=("full", "minor"),
    default="full",
    aliases=("compact_strategy",),
    help="full: merge every bucket into its top level; minor: merge what Paimon's own picker "
    "selects (tables with bucket=-1: small files, with both strategies)",
    example="minor",
)
PARTITION_IDLE_TIME = Argument(
    name="partition_idle_time",
    kind=Kind.DURATION,
    help="compact only partitions without a new file for this long",
    example="1 h",
)
OPTIONS = replace(common_arguments.OPTIONS, example="target-file-size=256 mb")
COMMIT_BYTES = Argument(
    name="commit_bytes",
    kind=Kind.SIZE,
    help="commit after at most this many bytes, so that a large run keeps its results if it fails "
    "later; one commit covers whole buckets (default: one commit)",
    example="100 gb",
)
SLICE_BYTES = Argument(
    name="slice_bytes",
    kind=Kind.SIZE,
    help="split a larger bucket by key range, so that several tasks share it; 0: never split "
    "(default: 256 mb for Parquet, 4 gb for ORC and Avro)",
    example="1 gb",
)


COMPACT = Job(
    name="compact",
    summary="merge small files and sorted runs into few large ones; the rows stay the same",
    changes=(
        "Rewrites the files of the selected buckets into fewer, sorted files. Commits one COMPACT "
        "snapshot that replaces exactly the files that the job read. A full compaction also "
        "removes deleted rows from the files."
    ),
    protects=(
        "Concurrent writes survive, because the commit replaces only files that the job read. If a "
        "concurrent compaction rewrites the same files, the job makes a new plan. The old files "
        "stay on storage until the snapshots expire, so older snapshots and tags stay readable."
    ),
    undo=(
        "Not needed for readers: the rows are the same. To restore the old files, roll back to the "
        "snapshot before (`planned_from` in the report) before it expires."
    ),
    arguments=(
        STRATEGY,
        PARTITIONS,
        WHERE,
        PARTITION_IDLE_TIME,
        OPTIONS,
        PARALLELISM,
        THREADS,
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
