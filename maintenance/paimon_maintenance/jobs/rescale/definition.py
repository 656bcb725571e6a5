"""The job `rescale`: its arguments and what it promises.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import PARALLELISM, WHERE
from paimon_maintenance.job.job import Job, steps_of

BUCKET_NUM = Argument(
    name="bucket_num",
    kind=Kind.INTEGER,
    help="the new number of buckets (default: the number in the table's option, which finishes an "
    "interrupted rescale)",
    example="10",
)
TARGET_BYTES = Argument(
    name="target_bytes",
    kind=Kind.SIZE,
    help="choose the number of buckets by their size: a bucket of the largest selected partition "
    "holds about this much; cannot be combined with bucket_num",
    example="500 mb",
)
PARTITIONS: Final = replace(
    common_arguments.PARTITIONS,
    help=f"{common_arguments.PARTITIONS.help}. Writers cannot write to the other partitions until these "
    "are rescaled too; readers can read them",
)
RESTORE = Argument(
    name="restore",
    kind=Kind.BOOLEAN,
    default=False,
    help="restore the previous number of buckets: set the option back and rewrite the partitions "
    "that have the new number; a second run finishes an interrupted one, then does nothing; "
    "cannot be combined with bucket_num or target_bytes",
)
SAFETY_TAG = Argument(
    name="safety_tag",
    kind=Kind.DURATION,
    default=7 * 86_400_000,
    help="first tag the newest snapshot and keep the tag for this long, so that a rollback can "
    "restore the old layout; 0: no tag. Only for tables with write-only=true, because expiry by "
    "Java relies on tags in the order of snapshot ids",
    example="7 d",
)
BATCH_BYTES = Argument(
    name="batch_bytes",
    kind=Kind.SIZE,
    default=10 * 1024**3,
    help="rewrite partitions of at most this many bytes together, then commit them one by one; a "
    "crash loses at most this much work",
    example="100 gb",
)
SLICE_BYTES = Argument(
    name="slice_bytes",
    kind=Kind.SIZE,
    help="split a larger unit of work, so that several tasks share it; 0: never split "
    "(default: 256 mb for Parquet, 4 gb for ORC and Avro)",
    example="1 gb",
)


RESCALE = Job(
    name="rescale",
    summary="change the number of buckets and rewrite partitions for it; the rows stay the same",
    changes=(
        "First sets the option `bucket`, so that new writers cannot use the old number. Then rewrites "
        "the selected partitions, each with one OVERWRITE snapshot that replaces exactly the files "
        "that the job read. Stop all writers before the run and start them after it: an open writer "
        "keeps the old number of buckets, and its next commit succeeds with it."
    ),
    protects=(
        "If somebody commits to a partition after the plan, the partition stays as it is, and a new "
        "plan rewrites it, up to five times. If no partition could be rewritten, the job restores "
        "the option. Readers can continue: they use the number of buckets of each partition. If the "
        "table is write-only, a safety tag keeps the old layout for a week."
    ),
    undo=(
        "Run rescale --restore, which restores the option and rewrites the same partitions again. Or "
        "roll back to the safety tag from the report, and restore the option."
    ),
    arguments=(
        BUCKET_NUM,
        TARGET_BYTES,
        PARTITIONS,
        WHERE,
        RESTORE,
        SAFETY_TAG,
        BATCH_BYTES,
        SLICE_BYTES,
        PARALLELISM,
    ),
    examples=(
        "caretaker plan rescale db.orders -w /lake",
        "caretaker plan rescale db.orders -w /lake --target-bytes '500 mb'",
        "caretaker run rescale db.orders -w /lake --bucket-num 10 --partition dt=2024-01-01",
        "caretaker run rescale db.orders -w /lake --restore",
    ),
    at_most_one=(("bucket_num", "target_bytes", "restore"),),
    load=steps_of("paimon_maintenance.jobs.rescale.steps:STEPS"),
    replans=True,
)
