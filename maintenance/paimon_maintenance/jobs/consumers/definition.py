"""What the jobs on consumers are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

EXPIRATION_TIME = Argument(
    name="expiration_time",
    kind=Kind.DURATION,
    help="expire consumers that were not heard of for this long "
    "(default: consumer.expiration-time of the table)",
    example="7 d",
)
CONSUMER_ID = Argument(
    name="consumer_id", kind=Kind.TEXT, help="the id of the consumer", example="job-7"
)
NEXT_SNAPSHOT = Argument(
    name="next_snapshot_id",
    flag="next-snapshot",
    aliases=("next_snapshot",),
    kind=Kind.INTEGER,
    help="the snapshot that the consumer is to read next (default: the consumer is deleted)",
    example="42",
)
INCLUDING = Argument(
    name="including_consumers",
    kind=Kind.TEXT,
    help="clear only consumers whose whole id matches this regular expression (default: all)",
    example="test-.*",
)
EXCLUDING = Argument(
    name="excluding_consumers",
    kind=Kind.TEXT,
    help="spare consumers whose whole id matches this regular expression",
    example="prod-.*",
)

_CHANGES: Final = (
    "Deletes consumer files. Snapshots and changelogs that only they held become free for the next "
    "expiry, which works the backlog off within its limits."
)


EXPIRE_CONSUMERS: Final = Job(
    name="expire_consumers",
    summary="delete consumers that were not heard of for long, so that they hold nothing back",
    changes=_CHANGES,
    protects="A consumer that was written since the plan was made stays.",
    undo="reset_consumer with the position that the report names, while that snapshot is there.",
    arguments=(EXPIRATION_TIME,),
    examples=("caretaker run expire_consumers 'db.*' -w /lake --expiration-time '7 d'",),
    load=steps_of("paimon_maintenance.jobs.consumers.steps:EXPIRE"),
    needs_line=False,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
RESET_CONSUMER: Final = Job(
    name="reset_consumer",
    summary="move a consumer to another snapshot, or delete it",
    changes="Writes or deletes one consumer file. A running reader may write its own again.",
    protects="A snapshot that does not exist is refused.",
    undo="reset_consumer with the position that the plan names as the old one.",
    arguments=(CONSUMER_ID, NEXT_SNAPSHOT),
    examples=("caretaker run reset_consumer db.orders -w /lake --consumer-id j --next-snapshot 4",),
    load=steps_of("paimon_maintenance.jobs.consumers.steps:RESET"),
    needs_line=False,
    rewrites=False,
    retry_safe=True,
    required=("consumer_id",),
)
CLEAR_CONSUMERS: Final = Job(
    name="clear_consumers",
    summary="delete many consumers by their ids",
    changes=_CHANGES,
    protects="Those that the excluding pattern matches stay.",
    undo="reset_consumer with the positions that the report names.",
    arguments=(INCLUDING, EXCLUDING),
    examples=("caretaker run clear_consumers db.orders -w /lake --including-consumers 'test-.*'",),
    load=steps_of("paimon_maintenance.jobs.consumers.steps:CLEAR"),
    needs_line=False,
    rewrites=False,
)
CONSUMER_JOBS: Final = (EXPIRE_CONSUMERS, RESET_CONSUMER, CLEAR_CONSUMERS)
