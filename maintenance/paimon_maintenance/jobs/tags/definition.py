"""What the jobs on tags are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

TAG = Argument(name="tag", kind=Kind.TEXT, help="the name of the tag", example="before-migration")
TAGS = Argument(
    name="tag",
    kind=Kind.TEXTS,
    default=(),
    help="the names of the tags, given again or joined by commas",
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
    help="tag the first snapshot committed at this time of the local wall clock (or "
    "milliseconds since 1970) or later",
    example="2024-01-31 12:00:00",
)
WATERMARK = Argument(
    name="watermark",
    kind=Kind.INTEGER,
    help="tag the first snapshot whose watermark is this (milliseconds since 1970) or later",
    example="1706698800000",
)
TIME_RETAINED = Argument(
    name="time_retained",
    kind=Kind.DURATION,
    help="how long the tag is kept (default for create_tag: tag.default-time-retained of the "
    "table, else for ever)",
    example="30 d",
)
OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="also expire every tag made before this, an age or a time of the local wall clock, "
    "whether it has a time to live or not",
    example="2024-01-31 12:00:00",
)
WHEN_IDLE = Argument(
    name="when_idle",
    kind=Kind.CHOICE,
    choices=("none", "latest"),
    default="none",
    help="what to do when a tag is due but nobody committed since: none, as Java; latest: tag "
    "the newest snapshot under the due name, unless it has an automatic tag already",
)
OPTIONS = Argument(
    name="options",
    flag="option",
    aliases=("option",),
    kind=Kind.OPTIONS,
    default={},
    help="table options for this run only: key=value, given again for more",
    example="tag.automatic-creation=process-time",
)

_FREES: Final = (
    "Deletes the tag; if its snapshot has expired, also the files that only the tag still needed."
)
_PROTECTS: Final = (
    "Every file that a snapshot, another tag or a long-lived changelog of any branch needs stays."
)


CREATE_TAG: Final = Job(
    name="create_tag",
    summary="name a snapshot, so that it stays readable when it expires",
    changes="Writes one tag file. No data are copied; files the snapshot needs are kept from now.",
    protects="A tag of this name that exists already is never replaced (see replace_tag).",
    undo="delete_tag.",
    arguments=(TAG, SNAPSHOT, TIMESTAMP, WATERMARK, TIME_RETAINED),
    examples=("caretaker run create_tag db.orders -w /lake --tag before-migration",),
    load=steps_of("paimon_maintenance.jobs.tags.create:CREATE"),
    rewrites=False,
    retry_safe=True,
    required=("tag",),
)
REPLACE_TAG: Final = Job(
    name="replace_tag",
    summary="point an existing tag at another snapshot",
    changes="Replaces the tag file; files that only the old snapshot needed are deleted.",
    protects=_PROTECTS,
    undo="replace_tag with the snapshot before, while it has not expired.",
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
    summary="give a tag another name",
    changes="Moves one tag file.",
    protects="A tag that has the new name already stays as it is, and the job fails.",
    undo="rename_tag back.",
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
    summary="delete tags, and the files that only they still needed",
    changes=_FREES,
    protects=_PROTECTS,
    undo="None once the snapshot has expired; else create_tag.",
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
    summary="delete tags whose time to live is over",
    changes=_FREES,
    protects=_PROTECTS + " Tags without time to live stay unless older_than is given.",
    undo="None once the snapshot has expired; else create_tag.",
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
    summary="make the automatic tags that are due, and delete those beyond their number or time",
    changes=(
        "Writes the tags that tag.automatic-creation and its options ask for, as a commit of a "
        "writer would, then deletes the oldest beyond tag.num-retained-max and, with "
        "tag.time-expire-enabled, those whose time to live is over."
    ),
    protects=_PROTECTS + " Only tags whose names are those of the period count as automatic.",
    undo="delete_tag.",
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
