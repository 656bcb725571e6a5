"""The definition of `expire_snapshots`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

RETAIN_MAX = Argument(
    name="retain_max",
    kind=Kind.INTEGER,
    help="maximum number of snapshots to keep, regardless of age "
    "(default: snapshot.num-retained.max of the table)",
    example="100",
)
RETAIN_MIN = Argument(
    name="retain_min",
    kind=Kind.INTEGER,
    help="minimum number of snapshots to keep (default: snapshot.num-retained.min of the table)",
    example="10",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="expire snapshots whose successor is older than this age or local wall clock time "
    "(default: now - snapshot.time-retained of the table)",
    example="1 d",
)
MAX_DELETES = Argument(
    name="max_deletes",
    kind=Kind.INTEGER,
    help="maximum number of snapshots to expire per run (default: snapshot.expire.limit)",
    example="50",
)
OPTIONS = replace(common_arguments.OPTIONS, example="snapshot.time-retained=1 d")


EXPIRE_SNAPSHOTS = Job(
    name="expire_snapshots",
    summary="delete old snapshots and the files that only they need",
    changes=(
        "Deletes the oldest snapshots beyond the retention, then the data, changelog, index and "
        "manifest files that only they need. Keeps changelogs if their retention is longer. "
        "Finishes interrupted runs."
    ),
    protects=(
        "Keeps at least retain_min snapshots, everything from the next snapshot of a consumer on, "
        "and every file that a snapshot, tag or long-lived changelog of any branch needs. Deletes "
        "no file if any of these references is unreadable."
    ),
    undo="Not possible: the files are deleted. To keep a snapshot, tag it before the expiry.",
    arguments=(RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, OPTIONS),
    examples=(
        "caretaker plan expire_snapshots db.orders -w /lake",
        "caretaker run expire_snapshots db.orders -w /lake --retain-max 20",
        "caretaker run expire_snapshots 'db.*' -w s3://lake --older-than '2024-01-31 00:00:00'",
    ),
    in_order=(("retain_min", "retain_max"),),
    load=steps_of("paimon_maintenance.jobs.expire_snapshots.steps:STEPS"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
