"""The clock that names automatic tags, and the time of a snapshot by it (Java: `tag/TagTimeExtractor`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SINK_PROCESS_TIME_ZONE, SINK_WATERMARK_TIME_ZONE
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.rules.times import local_clock

_NO_WATERMARK: Final = -(2**63)


def tag_clock(table: FileStoreTable, mode: str, env: Environment) -> Callable[[int], int]:
    """A function from milliseconds since the epoch to the wall clock for tag names."""
    zone = table.options.value(
        SINK_PROCESS_TIME_ZONE if mode != "watermark" else SINK_WATERMARK_TIME_ZONE
    )
    if zone is None:
        return lambda millis: local_clock(millis, env)
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as e:
        raise InvalidArgument(f"unknown time zone {zone!r}", table=table.name) from e

    def wall_clock(millis: int) -> int:
        offset = datetime.fromtimestamp(millis // 1000, UTC).astimezone(info).utcoffset()
        return millis + (0 if offset is None else int(offset.total_seconds()) * 1000)

    return wall_clock


def tag_time(snapshot: Snapshot, mode: str, clock: Callable[[int], int]) -> int | None:
    """The time of the snapshot in the given mode; None without a watermark."""
    if mode == "process-time":
        return clock(snapshot.time_millis)
    if snapshot.watermark is None or snapshot.watermark == _NO_WATERMARK:
        return None
    return clock(snapshot.watermark)
