"""What `expire_snapshots` is called, takes and promises; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

RETAIN_MAX = Argument(
    name="retain_max",
    kind=Kind.INTEGER,
    help="keep at most so many snapshots, whatever their age "
    "(default: snapshot.num-retained.max of the table)",
    example="100",
)
RETAIN_MIN = Argument(
    name="retain_min",
    kind=Kind.INTEGER,
    help="keep at least so many snapshots (default: snapshot.num-retained.min of the table)",
    example="10",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="expire snapshots whose successor is older than this: an age, or a time of the local "
    "wall clock (default: now - snapshot.time-retained of the table)",
    example="1 d",
)
MAX_DELETES = Argument(
    name="max_deletes",
    kind=Kind.INTEGER,
    help="expire at most so many snapshots in one run (default: snapshot.expire.limit)",
    example="50",
)
OPTIONS = replace(common_arguments.OPTIONS, example="snapshot.time-retained=1 d")


EXPIRE_SNAPSHOTS = Job(
    name="expire_snapshots",
    summary="delete old snapshots, and the data and metadata files that nothing else needs",
    changes=(
        "Deletes the oldest snapshots beyond the retention, then the data, changelog, index and "
        "manifest files that only they needed. With a longer changelog retention, changelogs are "
        "kept. What an interrupted run left is finished."
    ),
    protects=(
        "At least retain_min snapshots, everything from a consumer's next snapshot on, and every "
        "file that a snapshot, tag or long-lived changelog of any branch needs. If that cannot be "
        "read completely, no file is deleted."
    ),
    undo="None: the files are gone. Tag a snapshot beforehand to keep it.",
    arguments=(RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, OPTIONS),
    examples=(
        "caretaker plan expire_snapshots db.orders -w /lake",
        "caretaker run expire_snapshots db.orders -w /lake --retain-max 20",
        "caretaker run expire_snapshots 'db.*' -w s3://lake --older-than '2024-01-31 00:00:00'",
    ),
    load=steps_of("paimon_maintenance.jobs.expire_snapshots.steps:STEPS"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
