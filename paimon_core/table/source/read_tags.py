"""Tags that keep the snapshots of a batch read from expiry, for `scan.plan-auto-tag-for-read.*`.

Java: `tag/BatchReadTagCreator`, `table/source/AbstractBatchTableScan` (2.0.0).  Such a tag ends
with its time, at the latest.  As in Java, whoever knows the end of the read removes the tag alone:
files that nothing else needs by then are left to the removal of orphan files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from paimon_core.environment import Environment, system_environment
from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import SCAN_AUTO_TAG_TIME_RETAINED
from paimon_core.reachability.keep import create_kept
from paimon_core.retention.tags import make_tag
from paimon_core.snapshot.snapshot import Snapshot

PREFIX: Final = "batch-read-"
"""Of the names: `batch-read-SNAPSHOT-RANDOM`."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadTag:
    """A tag of a table that this process has made for a read."""

    table: FileStoreTable
    name: str

    def remove(self) -> None:
        """Delete the tag; one that cannot be deleted ends with its time."""
        try:
            self.table.tags.delete(self.name)
        except (PaimonError, OSError) as e:
            log.warning("table=%s tag=%s is left to its time: %s", self.table.name, self.name, e)


def create_read_tags(table: FileStoreTable, snapshots: Iterable[Snapshot]) -> list[ReadTag]:
    """Tag snapshots that are about to be read, if the options of the table say so.

    A read whose tag cannot be made goes on without, as in Java.
    """
    retained = table.options.value(SCAN_AUTO_TAG_TIME_RETAINED)
    if retained is None:
        return []
    env = system_environment()
    made = (_created(table, snapshot, retained, env) for snapshot in snapshots)
    return [tag for tag in made if tag is not None]


def until_read(rows: Iterator[pa.RecordBatch], tags: Sequence[ReadTag]) -> Iterator[pa.RecordBatch]:
    """Yield the rows; remove the tags when the last one was read, or nobody wants more."""
    try:
        yield from rows
    finally:
        for tag in tags:
            tag.remove()


def _created(
    table: FileStoreTable, snapshot: Snapshot, retained: int, env: Environment
) -> ReadTag | None:
    name = f"{PREFIX}{snapshot.id}-{env.new_uuid()[:8]}"
    try:
        create_kept(table, make_tag(name, snapshot, retained, env))
    except (PaimonError, OSError) as e:
        log.warning("table=%s snapshot=%d is read without a tag: %s", table.name, snapshot.id, e)
        return None
    return ReadTag(table, name)
