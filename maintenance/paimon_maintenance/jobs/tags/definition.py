"""The definitions of the jobs on tags.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

TAG = Argument(name="tag", kind=Kind.TEXT, help="the name of the tag", example="before-migration")
TAGS = Argument(
    name="tag",
    kind=Kind.TEXTS,
    default=(),
    help="the names of the tags, separated by commas; repeatable",
    example="before-migration",
)
TARGET_TAG = Argument(
    name="target_tag",
    kind=Kind.TEXT,
    aliases=("target_tag_name",),
    help="the new name of the tag",
    example="2024-final",
)
SNAPSHOT = Argument(
    name="snapshot",
    kind=Kind.INTEGER,
    aliases=("snapshot_id",),
    help="the snapshot to tag (default: the newest)",
    example="12",
)
TIMESTAMP = Argument(
    name="timestamp",
    kind=Kind.TEXT,
    help="tag the first snapshot committed at or after this local wall clock time (or "
    "milliseconds since 1970)",
    example="2024-01-31 12:00:00",
)
WATERMARK = Argument(
    name="watermark",
    kind=Kind.INTEGER,
    help="tag the first snapshot with this watermark (milliseconds since 1970) or a later one",
    example="1706698800000",
)
TIME_RETAINED = Argument(
    name="time_retained",
    kind=Kind.DURATION,
    help="how long to keep the tag (default for create_tag: tag.default-time-retained of the "
    "table, else forever)",
    example="30 d",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="also expire every tag created before this age or local wall clock time, even without "
    "a time to live",
    example="2024-01-31 12:00:00",
)
WHEN_IDLE = Argument(
    name="when_idle",
    kind=Kind.CHOICE,
    choices=("none", "latest"),
    default="none",
    help="what to do if a tag is due but there is no new commit: none (as in Java), or latest to tag "
    "the newest snapshot with the due name, unless it already has an automatic tag",
)
OPTIONS: Final = replace(common_arguments.OPTIONS, example="tag.automatic-creation=process-time")

_FREES: Final = (
    "Deletes the tag and, if its snapshot has expired, the files that only the tag needs."
)
_PROTECTS: Final = (
    "Keeps every file that a snapshot, another tag or a long-lived changelog of any branch needs."
)


CREATE_TAG: Final = Job(
    name="create_tag",
    summary="create a tag, so that a snapshot stays readable after it expires",
    changes="Writes one tag file. Copies no data; the tag retains the files of the snapshot.",
    protects="Never replaces an existing tag (see replace_tag).",
    undo="Run delete_tag.",
    arguments=(TAG, SNAPSHOT, TIMESTAMP, WATERMARK, TIME_RETAINED),
    examples=("caretaker run create_tag db.orders -w /lake --tag before-migration",),
    at_most_one=(("snapshot", "timestamp", "watermark"),),
    load=steps_of("paimon_maintenance.jobs.tags.create:CREATE"),
    rewrites=False,
    retry_safe=True,
    required=("tag",),
)
REPLACE_TAG: Final = Job(
    name="replace_tag",
    summary="move an existing tag to another snapshot",
    changes="Replaces the tag file and deletes the files that only the old snapshot needs.",
    protects=_PROTECTS,
    undo="Run replace_tag with the previous snapshot before it expires.",
    arguments=(TAG, SNAPSHOT, TIME_RETAINED),
    examples=("caretaker run replace_tag db.orders -w /lake --tag stable --snapshot 42",),
    load=steps_of("paimon_maintenance.jobs.tags.create:REPLACE"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("tag",),
)
RENAME_TAG: Final = Job(
    name="rename_tag",
    summary="rename a tag",
    changes="Moves one tag file.",
    protects="Fails if a tag with the new name exists.",
    undo="Rename the tag back.",
    arguments=(replace(TAG, aliases=("tag_name",)), TARGET_TAG),
    examples=("caretaker run rename_tag db.orders -w /lake --tag a --target-tag b",),
    load=steps_of("paimon_maintenance.jobs.tags.create:RENAME"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("tag", "target_tag"),
)
DELETE_TAG: Final = Job(
    name="delete_tag",
    summary="delete tags and the files that only they need",
    changes=_FREES,
    protects=_PROTECTS,
    undo="Run create_tag. Not possible if the snapshot has expired.",
    arguments=(TAGS,),
    examples=("caretaker plan delete_tag db.orders -w /lake --tag before-migration",),
    load=steps_of("paimon_maintenance.jobs.tags.remove:DELETE"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("tag",),
)
EXPIRE_TAGS: Final = Job(
    name="expire_tags",
    summary="delete tags beyond their time to live",
    changes=_FREES,
    protects=_PROTECTS + " Keeps tags without a time to live unless older_than is set.",
    undo="Run create_tag. Not possible if the snapshot has expired.",
    arguments=(OLDER_THAN,),
    examples=("caretaker run expire_tags 'db.*' -w /lake",),
    load=steps_of("paimon_maintenance.jobs.tags.remove:EXPIRE"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
TRIGGER_TAG_AUTOMATIC_CREATION: Final = Job(
    name="trigger_tag_automatic_creation",
    summary="create due automatic tags, and delete those beyond their number or time to live",
    changes=(
        "Creates the tags that tag.automatic-creation and its options require, as a commit of a "
        "writer does. Then deletes the oldest tags beyond tag.num-retained-max and, with "
        "tag.time-expire-enabled, those beyond their time to live."
    ),
    protects=_PROTECTS + " Only tags with the name format of the period count as automatic.",
    undo="Run delete_tag.",
    arguments=(WHEN_IDLE, OPTIONS),
    examples=("caretaker run trigger_tag_automatic_creation 'db.*' -w /lake",),
    load=steps_of("paimon_maintenance.jobs.tags.automatic:AUTOMATIC"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
TAG_JOBS: Final = (
    CREATE_TAG,
    REPLACE_TAG,
    RENAME_TAG,
    DELETE_TAG,
    EXPIRE_TAGS,
    TRIGGER_TAG_AUTOMATIC_CREATION,
)
