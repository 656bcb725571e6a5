"""The definition of `expire_changelogs`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.job import Job, steps_of

RETAIN_MAX = Argument(
    name="retain_max",
    kind=Kind.INTEGER,
    help="maximum number of newest snapshots to keep changelogs of "
    "(default: changelog.num-retained.max of the table)",
    example="500",
)
RETAIN_MIN = Argument(
    name="retain_min",
    kind=Kind.INTEGER,
    help="minimum number of newest snapshots to keep changelogs of "
    "(default: changelog.num-retained.min of the table)",
    example="100",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="expire changelogs older than this age or local wall clock time "
    "(default: now - changelog.time-retained of the table)",
    example="1 d",
)
MAX_DELETES = Argument(
    name="max_deletes",
    kind=Kind.INTEGER,
    help="maximum number of changelogs to expire per run (default: snapshot.expire.limit)",
    example="50",
)
DELETE_ALL = Argument(
    name="delete_all",
    kind=Kind.BOOLEAN,
    default=False,
    help="delete all long-lived changelogs, regardless of retention and consumers",
)


EXPIRE_CHANGELOGS: Final = Job(
    name="expire_changelogs",
    summary="delete long-lived changelogs beyond their retention",
    changes=(
        "Deletes the oldest files of changelog/ beyond the retention, then the changelog and "
        "manifest files that only they need."
    ),
    protects=(
        "Keeps the newest long-lived changelog, everything from the next snapshot of a consumer on, "
        "and every file that a snapshot, tag or changelog of any branch needs."
    ),
    undo="Not possible: the files are deleted.",
    arguments=(RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, DELETE_ALL, OPTIONS),
    examples=("caretaker plan expire_changelogs db.orders -w /lake",),
    in_order=(("retain_min", "retain_max"),),
    load=steps_of("paimon_maintenance.jobs.expire_changelogs.steps:STEPS"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
