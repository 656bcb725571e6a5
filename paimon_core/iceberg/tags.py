"""Tags in a table's Iceberg metadata (Java: `IcebergCommitCallback.notifyCreation`)."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from paimon_core.errors import PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.settings import has_external_catalog
from paimon_core.iceberg.store import iceberg_store

log = logging.getLogger(__name__)


def synchronise_tags(table: FileStoreTable, *, without: Collection[str] = ()) -> None:
    """Rewrite the newest version of the metadata with the table's tags, except those in `without`.

    Tags of snapshots that the metadata does not contain are left out.  A failure is logged and not
    raised, because the next commit writes all tags.
    """
    store = iceberg_store(table, str)
    if store is None:
        return
    try:
        latest = table.snapshots.latest()
        metadata = None if latest is None else store.metadata(latest.id)
        if metadata is None:
            return
        known = {s.id for s in metadata.snapshots}
        found = ((t.name, t.snapshot.id) for t in table.tags.all())
        tags = {name: number for name, number in found if number in known and name not in without}
        if tags == metadata.tags:
            return
        tagged = replace(metadata, tags=tags)
        store.write_metadata(tagged)
        if has_external_catalog(table.options):
            from paimon_core.iceberg.register import register  # noqa: PLC0415 - clients of catalogs

            register(table, store, tagged)
    except (PaimonError, OSError) as e:
        log.warning(
            "table=%s cannot update the tags in the Iceberg metadata, the next commit retries: %s",
            table.name,
            e,
        )
