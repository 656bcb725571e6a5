"""Verifies new tags: they must exist in time to keep their files.

Every job that deletes files removes references first and reads all references afterwards.  So a tag
keeps its files if the snapshot that it was made from still exists after the tag is written.
"""

from __future__ import annotations

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import Metadata
from paimon_core.refs.tags import Tag


def create_kept(table: FileStoreTable, tag: Tag) -> None:
    """Create the tag; AlreadyExists, or NotFound if its snapshot expired: then no tag remains."""
    table.tags.create(tag)
    try:
        check_kept(table, tag)
    except NotFound:
        now = table.tags.get_or_none(tag.name)
        if now is not None and now.snapshot.identity == tag.snapshot.identity:
            table.tags.delete(tag.name)  # nobody has moved it meanwhile
        raise


def check_kept(table: FileStoreTable, tag: Tag) -> None:
    """Raise NotFound if a new tag came too late to keep the files of its snapshot.

    The files are safe only if the snapshot, or another tag of it, still existed after the tag was
    written.  Raises CorruptTable if metadata files are missing nevertheless.
    """
    identity = tag.snapshot.identity
    now = table.snapshots.get_or_none(tag.snapshot.id)
    alive = now is not None and now.identity == identity
    if alive or any(
        t.name != tag.name and t.snapshot.identity == identity for t in table.tags.all()
    ):
        Metadata(table).prove_readable(tag.snapshot)
        return
    raise NotFound(
        f"snapshot {tag.snapshot.id} of table {table.name} expired while it was tagged",
        table=table.name,
        snapshot=tag.snapshot.id,
        next_step="choose a newer snapshot",
    )
