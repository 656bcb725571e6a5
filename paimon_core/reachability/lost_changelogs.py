"""Drops changelogs whose files an expiry of Java deleted.

Java's procedure deletes the changelog files of each snapshot that it expires, regardless of the
table options, also if a changelog with the same id needs them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import listed_names
from paimon_core.reachability.references import changelog_reference
from paimon_core.snapshot.snapshot import Snapshot

logger = logging.getLogger(__name__)


def drop_lost_changelogs(table: FileStoreTable, snapshots: Iterable[Snapshot]) -> list[int]:
    """Delete the changelogs of these snapshots that have lost their files; return their ids.

    A changelog without its files breaks streaming reads.
    """
    lost: list[int] = []
    for snapshot in snapshots:
        changelog = table.changelogs.get_or_none(snapshot.id)
        if changelog is None or changelog.identity != snapshot.identity:
            continue
        names = [name for name, _ in listed_names(changelog_reference(table, changelog))]
        if all(table.io.exists(table.paths.manifest(name)) for name in names):
            continue
        logger.warning(
            "table=%s dropped changelog %d: another job deleted its files", table.name, snapshot.id
        )
        table.changelogs.delete(snapshot.id)
        lost.append(snapshot.id)
    if lost:
        table.changelogs.delete_hints()
    return lost
