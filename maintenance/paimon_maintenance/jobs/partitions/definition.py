"""The definitions of the jobs on partitions.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.job import Job, steps_of

EXPIRATION_TIME = Argument(
    name="expiration_time",
    kind=Kind.DURATION,
    help="maximum age of a partition (default: partition.expiration-time of the table)",
    example="90 d",
)
TIMESTAMP_FORMATTER = Argument(
    name="timestamp_formatter",
    kind=Kind.TEXT,
    help="how to parse partition values as a time, in the syntax of Java's DateTimeFormatter "
    "(default: partition.timestamp-formatter, else yyyy-MM-dd with or without HH:mm:ss)",
    example="yyyyMMdd",
)
TIMESTAMP_PATTERN = Argument(
    name="timestamp_pattern",
    kind=Kind.TEXT,
    help="how to combine several values to one time "
    "(default: partition.timestamp-pattern, else the first partition column)",
    example="$dt $hour:00:00",
)
EXPIRE_STRATEGY = Argument(
    name="expire_strategy",
    kind=Kind.CHOICE,
    choices=("values-time", "update-time"),
    help="values-time: the time in the partition values; update-time: the creation time of its newest "
    "file (default: partition.expiration-strategy of the table)",
)
MAX_EXPIRES = Argument(
    name="max_expires",
    kind=Kind.INTEGER,
    help="maximum number of partitions to expire per run "
    "(default: partition.expiration-max-num of the table)",
    example="100",
)
PARTITIONS: Final = replace(
    common_arguments.PARTITIONS,
    help="the partitions: key=value; join keys with commas, separate partitions with semicolons or "
    "repeat the option; some of the partition keys are enough",
)

_UNDO: Final = (
    "Roll back to the previous snapshot (`planned_from` in the report) before it expires; its expiry "
    "deletes the files."
)


EXPIRE_PARTITIONS: Final = Job(
    name="expire_partitions",
    summary="drop partitions beyond their expiration time",
    changes=(
        "Commits one OVERWRITE snapshot (or several, see partition.expiration-batch-size) without "
        "the partitions. Their files remain until the snapshots before it expire."
    ),
    protects=(
        "Keeps and reports partitions whose values are null or cannot be parsed as a time. With "
        "update-time, keeps partitions that received files after the plan."
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
        "Commits one OVERWRITE snapshot without the partitions, including rows that other writers "
        "commit during the job. Their files remain until the snapshots before it expire."
    ),
    protects="Guards stop the job if it drops too large a share of the files or bytes.",
    undo=_UNDO,
    arguments=(PARTITIONS,),
    examples=("caretaker run drop_partition db.events -w /lake --partition dt=20240101",),
    load=steps_of("paimon_maintenance.jobs.partitions.drop:DROP"),
    rewrites=False,
    required=("partitions",),
)
MARK_PARTITION_DONE: Final = Job(
    name="mark_partition_done",
    summary="mark partitions as complete, with the partition.mark-done-action of the table",
    changes="Writes the file _SUCCESS into the folder of each partition (success-file), posts the "
    "partition to partition.mark-done-action.http.url (http-report), or, in a Hive metastore, adds a "
    "partition with the suffix .done (done-partition) or sets the event LOAD_DONE (mark-event).",
    protects="Does not change data or metadata of the table.",
    undo="Delete the _SUCCESS files, drop the .done partitions in Hive; a report or an event cannot "
    "be undone.",
    arguments=(PARTITIONS,),
    examples=("caretaker run mark_partition_done db.events -w /lake --partition dt=20240101",),
    load=steps_of("paimon_maintenance.jobs.partitions.done:DONE"),
    needs_line=False,
    rewrites=False,
    retry_safe=True,
    required=("partitions",),
)
PARTITION_JOBS: Final = (EXPIRE_PARTITIONS, DROP_PARTITION, MARK_PARTITION_DONE)
