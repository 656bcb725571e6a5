"""The system clock, ids and sleep (see `paimon_core.environment`)."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from paimon_core.environment import Environment


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
    """The environment of this machine; `zone` (an IANA name) replaces the zone of the process.

    `clock` returns milliseconds since the epoch.  The environment is picklable, so Spark executors use
    the same zone as the driver.
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
