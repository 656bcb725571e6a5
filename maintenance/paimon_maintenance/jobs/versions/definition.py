"""What the jobs on versions are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

SNAPSHOT = Argument(
    name="snapshot",
    kind=Kind.INTEGER,
    aliases=("snapshot_id",),
    help="the snapshot to go back to",
    example="12",
)
TAG = Argument(name="tag", kind=Kind.TEXT, help="the tag to go back to", example="before-migration")
TIMESTAMP = Argument(
    name="timestamp",
    kind=Kind.TEXT,
    help="go back to the last snapshot committed at this time of the local wall clock (or "
    "milliseconds since 1970) or before",
    example="2024-01-31 12:00:00",
)
WATERMARK = Argument(
    name="watermark",
    kind=Kind.INTEGER,
    help="go back to the last snapshot whose watermark is this (milliseconds since 1970) or less",
    example="1706698800000",
)
SAFETY_TAG = Argument(
    name="safety_tag",
    kind=Kind.DURATION,
    default=7 * 86_400_000,
    help="tag the newest snapshot before, for this long, so that nothing is lost yet; 0: no tag. "
    "Only made for tables with write-only=true, since expiry by Java relies on tags in the order "
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
    help="the names of the branches, given again or joined by commas",
)
FROM_TAG = Argument(
    name="tag",
    kind=Kind.TEXT,
    help="the tag that the branch begins with (default: it begins empty)",
)
IGNORE_IF_EXISTS = Argument(
    name="ignore_if_exists",
    kind=Kind.BOOLEAN,
    default=False,
    help="do nothing if there is a branch of this name already, whatever it began with",
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
    summary="go back to a snapshot, tag, time or watermark; everything later goes",
    changes=(
        "Deletes all later snapshots, changelogs and tags, then the files that only they needed "
        "(Java leaves those as orphans)."
    ),
    protects=(
        "A safety tag keeps the newest snapshot for a week, if the table is write-only. A commit "
        "made since the plan stops the job. Files that other branches need stay."
    ),
    undo="rollback_to_as_latest to the safety tag that the report names, until it expires; none "
    "without one.",
    arguments=(SNAPSHOT, TAG, TIMESTAMP, WATERMARK, SAFETY_TAG),
    examples=("caretaker plan rollback db.orders -w /lake --snapshot 42",),
    load=steps_of("paimon_maintenance.jobs.versions.rollback:ROLLBACK"),
    exclusive=True,
    needs_line=False,
    rewrites=False,
)
ROLLBACK_TO_AS_LATEST: Final = Job(
    name="rollback_to_as_latest",
    summary="make the content of a snapshot or tag the newest again, and keep all history",
    changes=(
        "Commits one OVERWRITE snapshot with the files of the chosen one, which gets a tag unless "
        "it has one without a time to live; a COMPACT one follows if files change their level. "
        "Nothing is deleted."
    ),
    protects=(
        "All snapshots and tags stay. The tag keeps the files that came back from expiry by Java; "
        "delete it once all snapshots before the new one have expired."
    ),
    undo="rollback_to_as_latest to the snapshot before.",
    arguments=(SNAPSHOT, TAG, TIMESTAMP, WATERMARK),
    examples=("caretaker run rollback_to_as_latest db.orders -w /lake --tag stable",),
    load=steps_of("paimon_maintenance.jobs.versions.as_latest:AS_LATEST"),
    exclusive=True,
    rewrites=False,
)
CREATE_BRANCH: Final = Job(
    name="create_branch",
    summary="begin a branch, empty or at a tag",
    changes="Writes the metadata of the branch; data are shared.",
    protects="A branch of this name that exists stays as it is, and the job fails. The tag, its "
    "snapshot and its manifests are proven before the branch is made and again after; if the tag "
    "was deleted or moved in between, nothing is left of the branch.",
    undo="delete_branch.",
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
    summary="give a branch another name",
    changes="Moves the folder of the branch's metadata.",
    protects="A branch that has the new name already stays as it is, and the job fails.",
    undo="rename_branch back.",
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
    summary="delete branches, and the files that only they needed",
    changes="Deletes the branches' metadata, then the files that nothing else needs.",
    protects="Every file that main or another branch needs stays. A branch that "
    "scan.fallback-branch or scan.primary-branch names is refused.",
    undo="None.",
    arguments=(BRANCHES,),
    examples=("caretaker plan delete_branch db.orders -w /lake --name test",),
    load=steps_of("paimon_maintenance.jobs.versions.branches:DELETE"),
    exclusive=True,
    rewrites=False,
    required=("branch_name",),
)
FAST_FORWARD: Final = Job(
    name="fast_forward",
    summary="make main what a branch is",
    changes=(
        "Deletes what main does not share with the branch from the branch's first snapshot on, "
        "copies the branch's schemas, snapshots and tags, then deletes the files that only main "
        "needed (Java leaves those as orphans). The branch stays."
    ),
    protects=(
        "A safety tag keeps main's newest snapshot for a week, if the table is write-only and main "
        "and the branch have the same schemas up to that snapshot's. A commit to main since the "
        "plan stops the job, and so does a guard if more than half of main's files would go. Files of "
        "other branches stay."
    ),
    undo="rollback_to_as_latest to the safety tag that the report names, until it expires; none "
    "without one.",
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
