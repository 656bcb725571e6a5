"""What `expire_changelogs` is called, takes and promises; nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.common_arguments import OPTIONS
from paimon_maintenance.job.job import Job, steps_of

RETAIN_MAX = Argument(
    name="retain_max",
    kind=Kind.INTEGER,
    help="keep the changelogs of at most so many of the newest snapshots "
    "(default: changelog.num-retained.max of the table)",
    example="500",
)
RETAIN_MIN = Argument(
    name="retain_min",
    kind=Kind.INTEGER,
    help="keep the changelogs of at least so many of the newest snapshots "
    "(default: changelog.num-retained.min of the table)",
    example="100",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="expire changelogs older than this: an age, or a time of the local wall clock "
    "(default: now - changelog.time-retained of the table)",
    example="1 d",
)
MAX_DELETES = Argument(
    name="max_deletes",
    kind=Kind.INTEGER,
    help="expire at most so many changelogs in one run (default: snapshot.expire.limit)",
    example="50",
)
DELETE_ALL = Argument(
    name="delete_all",
    kind=Kind.BOOLEAN,
    default=False,
    help="delete all long-lived changelogs, whatever their retention and consumers",
)


EXPIRE_CHANGELOGS: Final = Job(
    name="expire_changelogs",
    summary="delete changelogs that outlived their snapshots for long enough",
    changes=(
        "Deletes the oldest files of changelog/ beyond the retention, then the changelog and "
        "manifest files that only they needed."
    ),
    protects=(
        "The newest long-lived changelog, everything from a consumer's next snapshot on, and every "
        "file that a snapshot, tag or changelog of any branch needs."
    ),
    undo="None: the files are gone.",
    arguments=(RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, DELETE_ALL, OPTIONS),
    examples=("caretaker plan expire_changelogs db.orders -w /lake",),
    load=steps_of("paimon_maintenance.jobs.expire_changelogs.steps:STEPS"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
