"""The definitions of the jobs on versions and branches.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

SNAPSHOT = Argument(
    name="snapshot",
    kind=Kind.INTEGER,
    aliases=("snapshot_id",),
    help="the snapshot to roll back to",
    example="12",
)
TAG = Argument(
    name="tag", kind=Kind.TEXT, help="the tag to roll back to", example="before-migration"
)
TIMESTAMP = Argument(
    name="timestamp",
    kind=Kind.TEXT,
    help="roll back to the last snapshot committed at or before this local wall clock time (or "
    "milliseconds since 1970)",
    example="2024-01-31 12:00:00",
)
WATERMARK = Argument(
    name="watermark",
    kind=Kind.INTEGER,
    help="roll back to the last snapshot with this watermark (milliseconds since 1970) or an earlier one",
    example="1706698800000",
)
SAFETY_TAG = Argument(
    name="safety_tag",
    kind=Kind.DURATION,
    default=7 * 86_400_000,
    help="how long to keep a safety tag of the newest snapshot, created before the change; 0: no tag. "
    "Only for tables with write-only=true, because expiry by Java requires tags in the order "
    "of snapshot ids",
    example="7 d",
)
BRANCH = Argument(
    name="branch_name",
    flag="name",
    aliases=("branch",),
    kind=Kind.TEXT,
    help="the name of the branch",
)
FROM_BRANCH = replace(BRANCH, aliases=("from_branch", "branch"))
BRANCHES = replace(
    BRANCH,
    kind=Kind.TEXTS,
    default=(),
    help="the names of the branches, separated by commas; repeatable",
)
FROM_TAG = Argument(
    name="tag",
    kind=Kind.TEXT,
    help="the tag that the branch starts from (default: an empty branch)",
)
IGNORE_IF_EXISTS = Argument(
    name="ignore_if_exists",
    kind=Kind.BOOLEAN,
    default=False,
    help="do nothing if a branch with this name exists, whatever it started from",
)
NEW_NAME = Argument(
    name="target_branch",
    flag="new-name",
    aliases=("to_branch",),
    kind=Kind.TEXT,
    help="the new name of the branch",
)

ROLLBACK: Final = Job(
    name="rollback",
    summary="roll back to a snapshot, tag, time or watermark, and delete everything later",
    changes=(
        "Deletes all later snapshots, changelogs and tags, then the files that only they need "
        "(Java leaves these as orphans)."
    ),
    protects=(
        "If the table is write-only, a safety tag keeps the newest snapshot for a week. A commit "
        "after the plan stops the job. Keeps files that other branches need. Names the consumers "
        "that have read what goes, and leaves them alone."
    ),
    undo="Run rollback_to_as_latest with the safety tag from the report before it expires. Not "
    "possible without a safety tag.",
    arguments=(SNAPSHOT, TAG, TIMESTAMP, WATERMARK, SAFETY_TAG),
    examples=("caretaker plan rollback db.orders -w /lake --snapshot 42",),
    at_most_one=(("snapshot", "tag", "timestamp", "watermark"),),
    load=steps_of("paimon_maintenance.jobs.versions.rollback:ROLLBACK"),
    exclusive=True,
    needs_line=False,
    rewrites=False,
)
ROLLBACK_TO_AS_LATEST: Final = Job(
    name="rollback_to_as_latest",
    summary="commit the content of a snapshot or tag as the newest snapshot, and keep all history",
    changes=(
        "Commits one OVERWRITE snapshot with the files of the chosen snapshot. If this brings back files "
        "that a later commit removed, first tags the chosen snapshot, unless it has a tag without a time "
        "to live. If files change their level, also commits a COMPACT snapshot. Deletes nothing."
    ),
    protects=(
        "Keeps all snapshots and tags. The tag protects the files that come back from expiry by Java; "
        "delete it when all snapshots before the new one have expired."
    ),
    undo="Run rollback_to_as_latest with the previous snapshot (`planned_from` in the report).",
    arguments=(SNAPSHOT, TAG, TIMESTAMP, WATERMARK),
    examples=("caretaker run rollback_to_as_latest db.orders -w /lake --tag stable",),
    at_most_one=(("snapshot", "tag", "timestamp", "watermark"),),
    load=steps_of("paimon_maintenance.jobs.versions.as_latest:AS_LATEST"),
    exclusive=True,
    rewrites=False,
)
CREATE_BRANCH: Final = Job(
    name="create_branch",
    summary="create a branch, empty or from a tag",
    changes="Writes the metadata of the branch; data files are shared.",
    protects="Fails if a branch with this name exists. Checks the tag, its snapshot and its manifests "
    "before and after creating the branch, and removes the branch if the tag was deleted or moved "
    "in between.",
    undo="Run delete_branch.",
    arguments=(BRANCH, FROM_TAG, IGNORE_IF_EXISTS),
    examples=("caretaker run create_branch db.orders -w /lake --name test --tag stable",),
    load=steps_of("paimon_maintenance.jobs.versions.branches:CREATE"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("branch_name",),
)
RENAME_BRANCH: Final = Job(
    name="rename_branch",
    summary="rename a branch",
    changes="Moves the metadata folder of the branch.",
    protects="Fails if a branch with the new name exists, and for a branch that an option "
    "scan.*-branch of the table names.",
    undo="Rename the branch back.",
    arguments=(FROM_BRANCH, NEW_NAME),
    examples=("caretaker run rename_branch db.orders -w /lake --name a --new-name b",),
    load=steps_of("paimon_maintenance.jobs.versions.branches:RENAME"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("branch_name", "target_branch"),
)
DELETE_BRANCH: Final = Job(
    name="delete_branch",
    summary="delete branches and the files that only they need",
    changes="Deletes the metadata of the branches, then the files that only they need.",
    protects="Keeps every file that main or another branch needs. Fails for a branch that "
    "an option scan.*-branch of the table names.",
    undo="Not possible: the files are deleted.",
    arguments=(BRANCHES,),
    examples=("caretaker plan delete_branch db.orders -w /lake --name test",),
    load=steps_of("paimon_maintenance.jobs.versions.branches:DELETE"),
    exclusive=True,
    rewrites=False,
    required=("branch_name",),
)
FAST_FORWARD: Final = Job(
    name="fast_forward",
    summary="replace main with the content of a branch",
    changes=(
        "From the first snapshot of the branch on, deletes the versions of main that the branch does "
        "not have. Copies the schemas, snapshots and tags of the branch, then deletes the files that "
        "only main needs (Java leaves these as orphans). Keeps the branch."
    ),
    protects=(
        "If the table is write-only, and main and the branch have the same schemas up to that of the "
        "newest snapshot of main, a safety tag keeps this snapshot for a week. A commit to main after "
        "the plan stops the job. A guard stops the job if it deletes more than half of the files of "
        "main. Keeps files of other branches. Names the consumers that have read what goes, and leaves "
        "them alone."
    ),
    undo="Run rollback_to_as_latest with the safety tag from the report before it expires. Not "
    "possible without a safety tag.",
    arguments=(BRANCH, SAFETY_TAG),
    examples=("caretaker plan fast_forward db.orders -w /lake --name test",),
    load=steps_of("paimon_maintenance.jobs.versions.fast_forward:STEPS"),
    exclusive=True,
    rewrites=False,
    required=("branch_name",),
)
VERSION_JOBS: Final = (
    ROLLBACK,
    ROLLBACK_TO_AS_LATEST,
    CREATE_BRANCH,
    RENAME_BRANCH,
    DELETE_BRANCH,
    FAST_FORWARD,
)
