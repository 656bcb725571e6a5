"""The environment that callers pass to the core: clocks, ids, waiting.

Tests pass a fake environment for reproducible runs; `system_environment` creates the real one.
"""

from __future__ import annotations

import getpass
import os
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_LOCAL_TIME: Final = Path("/etc/localtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Clocks and ids.

    `now_millis`: milliseconds since the epoch.  `local_millis`: the wall clock of the configured
    zone as if it were UTC, which is how Java stores a file's creation time (java-rules D5).
    `new_uuid`: a fresh random UUID as text.  `sleep_millis`: waits.  `jitter`: a random number in
    [0, 1).  `local_at`: the wall clock at an instant, in the same form; None: the current UTC
    offset applies to all instants.  `machine_millis`: the clock of this machine, if `now_millis`
    uses it; jobs that decide by age compare it with the store's clock.  `operation`: what snapshots
    say that the commit is for (Java 2.0: `Snapshot.Operation`).
    """

    now_millis: Callable[[], int]
    local_millis: Callable[[], int]
    new_uuid: Callable[[], str]
    sleep_millis: Callable[[int], None]
    jitter: Callable[[], float]
    local_at: Callable[[int], int] | None = None
    machine_millis: Callable[[], int] | None = None
    operation: str | None = None

    def doing(self, operation: str) -> Environment:
        """Return the environment of commits for this operation."""
        return replace(self, operation=operation)


def user_name() -> str:
    """Return who runs this process, as tables and metastores note it.

    For a user without a name, that is the number.  `HADOOP_USER_NAME` names somebody else, as in
    Java (`UserGroupInformation`).
    """
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no account
        return str(os.getuid())


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


def _local_millis(zone: str | None, clock: Callable[[], int]) -> int:
    return _local_at(zone, clock())


def _local_at(zone: str | None, millis: int) -> int:
    moment = datetime.fromtimestamp(millis // 1000, UTC)
    local = moment.astimezone(ZoneInfo(zone)) if zone else moment.astimezone()
    offset = local.utcoffset()
    return millis + (0 if offset is None else offset // timedelta(milliseconds=1))


def _new_uuid() -> str:
    return str(uuid.uuid4())


def _sleep_millis(millis: int) -> None:
    time.sleep(millis / 1000)


def system_environment(
    zone: str | None = None, *, clock: Callable[[], int] = _now_millis
) -> Environment:
    """The machine's own clock and ids; `zone` (an IANA name) stands in for the process's zone.

    `clock` is the machine's, in milliseconds since the epoch.  The environment can be pickled, so
    that Spark executors use the same zone as the driver.
    """
    return Environment(
        now_millis=clock,
        local_millis=partial(_local_millis, zone, clock),
        new_uuid=_new_uuid,
        sleep_millis=_sleep_millis,
        jitter=random.random,
        local_at=partial(_local_at, zone),
        machine_millis=clock,
    )


def ahead_of_utc(env: Environment) -> int:
    """Return how far the wall clock of the configured zone is ahead of UTC now, in milliseconds.

    Zones differ by whole minutes, and the two clocks are not read at the same time.
    """
    return round((env.local_millis() - env.now_millis()) / 60_000) * 60_000


def local_clock(millis: int, env: Environment) -> int:
    """Return the wall clock of the configured zone at an instant, as milliseconds as if in UTC."""
    if env.local_at is not None:
        try:
            return env.local_at(millis)
        except (OverflowError, ValueError, OSError):
            pass  # beyond the years that zones are known for
    return millis + ahead_of_utc(env)


def machine_zone() -> tzinfo:
    """The zone of this machine: $TZ, else what /etc/localtime is; at the least, its offset now."""
    name = os.environ.get("TZ", "").removeprefix(":") or str(_LOCAL_TIME.resolve())
    try:
        return ZoneInfo(name.rpartition("zoneinfo/")[2])
    except (OSError, ValueError):
        return datetime.now().astimezone().tzinfo or UTC
