"""Compares this machine's clock with the store's, before a job decides by age what to delete.

Files carry the store's time, snapshots their writer's.  A job on a machine whose clock is two days
ahead takes the file that a writer made three minutes ago for old enough to delete.  So a small file
is written below the table's root, and its time says what the store's clock shows.

Beyond `MOST_SKEW_MILLIS` the job is refused.  Counting by the store's clock instead would only move
the question: the ages of snapshots, tags and partitions, and the time that our own commits carry,
are from the clocks of machines that are kept together by NTP, which this one then is not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import ClockSkew, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import delete_abandoned
from paimon_core.paths import CARETAKER_DIR

MOST_SKEW_MILLIS: Final = 60_000


def check_clock(table: FileStoreTable, env: Environment) -> None:
    """ClockSkew if the clocks of this machine and of the table's store are too far apart.

    Nothing is compared if `env` has no machine's clock.  OSError if the store does not answer,
    UnsupportedFeature if it does not say when a file was changed.
    """
    clock = env.machine_millis
    if clock is None:
        return
    # The name of a temporary file: remove_orphan_files takes away what a crash leaves behind.
    path = f"{table.root}/{CARETAKER_DIR}/.clock.{env.new_uuid()}.tmp"
    before = clock()
    table.io.write_bytes(path, b"What time is it?\n")
    try:
        store = table.io.stat(path).modified_millis
        after = clock()
    finally:
        delete_abandoned(table.io, [path])
    if store == 0:
        raise UnsupportedFeature(
            "ages on a store that does not say when a file was changed",
            table=table.name,
            file=path,
            next_step="jobs that delete by age cannot run on this store",
        )
    ahead = before - store if store < before else min(after - store, 0)
    if abs(ahead) > MOST_SKEW_MILLIS:
        raise _skewed(table, here=after, store=store, ahead=ahead)


def _skewed(table: FileStoreTable, *, here: int, store: int, ahead: int) -> ClockSkew:
    side = "ahead of" if ahead > 0 else "behind"
    return ClockSkew(
        f"this machine's clock is {_span(abs(ahead))} {side} the store's: {_time(here)} here, "
        f"{_time(store)} at {table.root}; the job decides by age what to delete, and nothing was "
        "changed",
        table=table.name,
        next_step="set the clock that is wrong (NTP): this machine's, or the store's; then run again",
    )


def _time(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _span(millis: int) -> str:
    minutes = round(millis / 60_000)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "d"), (hours, "h"), (minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
