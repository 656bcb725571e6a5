"""What the jobs on partitions are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.job import Job, steps_of

EXPIRATION_TIME = Argument(
    name="expiration_time",
    kind=Kind.DURATION,
    help="how old a partition may become (default: partition.expiration-time of the table)",
    example="90 d",
)
TIMESTAMP_FORMATTER = Argument(
    name="timestamp_formatter",
    kind=Kind.TEXT,
    help="how the values are read as a time, in the letters of Java's DateTimeFormatter "
    "(default: partition.timestamp-formatter, else yyyy-MM-dd with or without HH:mm:ss)",
    example="yyyyMMdd",
)
TIMESTAMP_PATTERN = Argument(
    name="timestamp_pattern",
    kind=Kind.TEXT,
    help="how several values make one time "
    "(default: partition.timestamp-pattern, else the first partition column)",
    example="$dt $hour:00:00",
)
EXPIRE_STRATEGY = Argument(
    name="expire_strategy",
    kind=Kind.CHOICE,
    choices=("values-time", "update-time"),
    help="values-time: the time in the partition's values; update-time: when its newest file was "
    "made (default: partition.expiration-strategy of the table)",
)
MAX_EXPIRES = Argument(
    name="max_expires",
    kind=Kind.INTEGER,
    help="expire at most so many partitions in one run "
    "(default: partition.expiration-max-num of the table)",
    example="100",
)
PARTITIONS = Argument(
    name="partitions",
    flag="partition",
    aliases=("partition",),
    kind=Kind.PARTITIONS,
    default=(),
    help="which partitions: key=value, several keys joined by commas (and), given again or joined "
    "by semicolons (or); a part of the partition keys is enough",
    example="dt=2024-01-01,hh=10",
)

_UNDO: Final = (
    "rollback to the snapshot before (named as `planned_from` in the report) while it has not "
    "expired; the files go only when it does."
)


EXPIRE_PARTITIONS: Final = Job(
    name="expire_partitions",
    summary="drop partitions that are older than they may become",
    changes=(
        "Commits one OVERWRITE snapshot (or several, partition.expiration-batch-size) in which the "
        "partitions are empty. Their files stay until the snapshots before it expire."
    ),
    protects=(
        "A partition whose values cannot be read as a time, or are null, stays and is reported. "
        "With update-time, one that received files since the plan stays."
    ),
    undo=_UNDO,
    arguments=(
        EXPIRATION_TIME,
        TIMESTAMP_FORMATTER,
        TIMESTAMP_PATTERN,
        EXPIRE_STRATEGY,
        MAX_EXPIRES,
        OPTIONS,
    ),
    examples=("caretaker plan expire_partitions db.events -w /lake --expiration-time '90 d'",),
    load=steps_of("paimon_maintenance.jobs.partitions.expire:EXPIRE"),
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
DROP_PARTITION: Final = Job(
    name="drop_partition",
    summary="drop the named partitions",
    changes=(
        "Commits one OVERWRITE snapshot in which the partitions are empty, also of rows that are "
        "committed meanwhile. Their files stay until the snapshots before it expire."
    ),
    protects="Guards stop it if more than their share of the table's files or bytes would go.",
    undo=_UNDO,
    arguments=(PARTITIONS,),
    examples=("caretaker run drop_partition db.events -w /lake --partition dt=20240101",),
    load=steps_of("paimon_maintenance.jobs.partitions.drop:DROP"),
    rewrites=False,
    required=("partitions",),
)
MARK_PARTITION_DONE: Final = Job(
    name="mark_partition_done",
    summary="say that partitions are complete, as partition.mark-done-action of the table asks",
    changes="Writes the file _SUCCESS into the folder of each partition (success-file), or posts "
    "the partition to partition.mark-done-action.http.url (http-report).",
    protects="No data or metadata of the table is changed.",
    undo="Delete the _SUCCESS files; a report cannot be taken back.",
    arguments=(PARTITIONS,),
    examples=("caretaker run mark_partition_done db.events -w /lake --partition dt=20240101",),
    load=steps_of("paimon_maintenance.jobs.partitions.done:DONE"),
    needs_line=False,
    rewrites=False,
    retry_safe=True,
    required=("partitions",),
)
PARTITION_JOBS: Final = (EXPIRE_PARTITIONS, DROP_PARTITION, MARK_PARTITION_DONE)
