"""Waits after a batch commit until queries see its rows (Java: `VisibilityWaitCallback`).

With deletion vectors, and in the postpone bucket, queries see new rows once a compaction has moved
them.  `visibility-callback.enabled` makes the writer wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import NotYetVisible
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import (
    DELETION_VECTORS_ENABLED,
    Option,
    parse_bool,
    parse_duration_millis,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.scan.scan import scan_files

log = logging.getLogger(__name__)

_ENABLED: Final = Option("visibility-callback.enabled", parse_bool, default=False)
_TIMEOUT: Final = Option("visibility-callback.timeout", parse_duration_millis, 30 * 60_000)
_INTERVAL: Final = Option("visibility-callback.check-interval", parse_duration_millis, 10_000)


def wait_until_visible(
    table: FileStoreTable, messages: Iterable[CommitMessage], *, env: Environment
) -> None:
    """Return once a compaction has replaced the new files whose rows queries do not see.

    At once if there are none, or if the table does not ask for it.  Raises NotYetVisible after the
    table's timeout; the commit stays.
    """
    options = table.options
    if not options.value(_ENABLED):
        return
    vectors = table.has_primary_key and options.value(DELETION_VECTORS_ENABLED)
    waiting: set[str] = set()
    partitions: set[bytes] = set()
    for message in messages:
        for file in message.new_files:
            if message.bucket == POSTPONE_BUCKET or (vectors and file.level == 0):
                waiting.add(file.file_name)
                partitions.add(message.partition)
    until = env.now_millis() + options.value(_TIMEOUT)
    while waiting:
        latest = table.snapshots.latest()
        live = () if latest is None else scan_files(table, latest, partitions=partitions)
        waiting &= {entry.file.file_name for entry in live}
        if not waiting:
            return
        if env.now_millis() >= until:
            raise NotYetVisible(
                f"the rows are committed to table {table.name}, and no compaction has moved "
                f"{len(waiting)} of their files for {options.value(_TIMEOUT) // 1000} s: queries "
                "do not see them yet",
                table=table.name,
                next_step="compact the table; do not write the rows again",
            )
        log.info("table=%s waiting until %d files are compacted", table.name, len(waiting))
        env.sleep_millis(options.value(_INTERVAL))
