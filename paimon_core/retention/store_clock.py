"""Compares the clock of this machine with that of the store, before anything is deleted by age.

Jobs do so before they change anything, writers before they expire something after a commit.  Files
have the time of the store, snapshots that of their writer.  If the clock of this machine is two
days ahead, a job considers a file from three minutes ago old enough to delete.  So the check writes
a small file below the root of the table and reads its time, which is the time of the store.

Above `MOST_SKEW_MILLIS` nothing is deleted.  Using the clock of the store instead does not help:
the ages of snapshots, tags and partitions, and the times of our own commits, come from machines
that NTP synchronizes, and this machine is not one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import ClockSkew, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import delete_abandoned, parent
from paimon_core.io.fresh_listing import listed_file
from paimon_core.paths import CARETAKER_DIR

MOST_SKEW_MILLIS: Final = 60_000
VALID_MILLIS = 300_000.0
"""How long a passed check holds for all tables of a warehouse in one process."""
_passed: Final[dict[tuple[Callable[[], int], str], tuple[float, float]]] = {}
"""For the clock and the warehouse of a passed check: the monotonic time, and
the clock ahead of it."""


def check_clock(table: FileStoreTable, env: Environment) -> None:
    """ClockSkew if the clocks of this machine and of the store differ too much.

    Does nothing if `env` has no machine clock, or if the check passed within `VALID_MILLIS` for a
    table of the same warehouse and the clock was not set since.  Raises OSError if the store does
    not answer, and UnsupportedFeature if it does not report modification times.
    """
    clock = env.machine_millis
    if clock is None:
        return
    place = (clock, parent(parent(table.root)))
    if _still_holds(place):
        return
    # A temporary file name: remove_orphan_files deletes the file if a crash leaves it behind.
    path = f"{table.root}/{CARETAKER_DIR}/.clock.{env.new_uuid()}.tmp"
    before = clock()
    table.io.write_bytes(path, b"What time is it?\n")
    try:
        # From a listing, as the ages of files: a gateway may show other times there.
        listed = table.io.list_dir(parent(path))
        store = listed_file(table.io, listed, path, table=table.name).modified_millis
        after = clock()
    finally:
        delete_abandoned(table.io, [path])
    if store == 0:
        raise UnsupportedFeature(
            "ages on a store that does not report modification times",
            table=table.name,
            file=path,
            next_step="jobs that delete by age do not support this store",
        )
    ahead = before - store if store < before else min(after - store, 0)
    if abs(ahead) > MOST_SKEW_MILLIS:
        raise _skewed(table, here=after, store=store, ahead=ahead)
    now = _monotonic_millis()
    _passed[place] = (now, clock() - now)


def clock_lead(env: Environment) -> float | None:
    """How far the machine's clock is ahead of its monotonic clock, in milliseconds."""
    clock = env.machine_millis
    return None if clock is None else clock() - _monotonic_millis()


def check_not_set(table: FileStoreTable, env: Environment, before: float | None) -> None:
    """ClockSkew if the clock was set since `before`, the `clock_lead` when the plan was made."""
    now = clock_lead(env)
    if before is None or now is None or abs(now - before) <= MOST_SKEW_MILLIS:
        return
    side = "ahead" if now > before else "back"
    raise ClockSkew(
        f"the clock of this machine was set {side} by {_span(round(abs(now - before)))} since the plan "
        f"was made, so the ages in it are wrong; the job did not execute the plan",
        table=table.name,
        next_step="run again",
    )


def _still_holds(place: tuple[Callable[[], int], str]) -> bool:
    """Whether the check passed within `VALID_MILLIS`, and the clock was not set since."""
    if place not in _passed:
        return False
    checked, ahead = _passed[place]
    now = _monotonic_millis()
    return now - checked < VALID_MILLIS and abs(place[0]() - now - ahead) <= MOST_SKEW_MILLIS


def _monotonic_millis() -> float:
    return time.monotonic() * 1000


def _skewed(table: FileStoreTable, *, here: int, store: int, ahead: int) -> ClockSkew:
    side = "ahead of" if ahead > 0 else "behind"
    return ClockSkew(
        f"the clock of this machine is {_span(abs(ahead))} {side} that of the store: {_time(here)} "
        f"here, {_time(store)} at {table.root}; ages are wrong by that, so nothing was deleted",
        table=table.name,
        next_step="correct the clock of this machine or of the store (NTP), then run again",
    )


def _time(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _span(millis: int) -> str:
    minutes = round(millis / 60_000)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "d"), (hours, "h"), (minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
