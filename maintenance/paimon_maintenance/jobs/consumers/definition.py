"""The definitions of the jobs on consumers.  Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

EXPIRATION_TIME = Argument(
    name="expiration_time",
    kind=Kind.DURATION,
    help="expire consumers that were not updated for this long "
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
    help="the next snapshot of the consumer (default: delete the consumer)",
    example="42",
)
INCLUDING = Argument(
    name="including_consumers",
    kind=Kind.TEXT,
    help="clear only consumers whose full id matches this regular expression (default: all)",
    example="test-.*",
)
EXCLUDING = Argument(
    name="excluding_consumers",
    kind=Kind.TEXT,
    help="keep consumers whose full id matches this regular expression",
    example="prod-.*",
)

_CHANGES: Final = (
    "Deletes consumer files. The next expiry can then delete the snapshots and changelogs that only "
    "they retained, within its limits."
)


EXPIRE_CONSUMERS: Final = Job(
    name="expire_consumers",
    summary="delete inactive consumers, so that they no longer retain snapshots",
    changes=_CHANGES,
    protects="Keeps consumers that were updated after the plan.",
    undo="Run reset_consumer with the position from the report, while that snapshot exists.",
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
    changes="Writes or deletes one consumer file. A running reader may overwrite it.",
    protects="Fails if the snapshot does not exist.",
    undo="Run reset_consumer with the old position from the plan.",
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
    summary="delete consumers by id",
    changes=_CHANGES,
    protects="Keeps consumers that match the excluding pattern.",
    undo="Run reset_consumer with the positions from the report.",
    arguments=(INCLUDING, EXCLUDING),
    examples=("caretaker run clear_consumers db.orders -w /lake --including-consumers 'test-.*'",),
    load=steps_of("paimon_maintenance.jobs.consumers.steps:CLEAR"),
    needs_line=False,
    rewrites=False,
)
CONSUMER_JOBS: Final = (EXPIRE_CONSUMERS, RESET_CONSUMER, CLEAR_CONSUMERS)
