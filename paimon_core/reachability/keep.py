"""Tags that are proven after they are written: they came in time to keep their files.

Whoever deletes files removes references first and reads all references afterwards.  So a tag keeps
its files if what it was made from is still alive once the tag is there.
"""

from __future__ import annotations

from paimon_core.errors import NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.reachability.files import Metadata
from paimon_core.refs.tags import Tag


def create_kept(table: FileStoreTable, tag: Tag) -> None:
    """Make the tag; AlreadyExists, or NotFound if its snapshot expired: then there is no tag."""
    table.tags.create(tag)
    try:
        check_kept(table, tag)
    except NotFound:
        table.tags.delete(tag.name)
        raise


def check_kept(table: FileStoreTable, tag: Tag) -> None:
    """NotFound if a tag that was just written came too late to keep the files of its snapshot.

    They are safe only if the snapshot, or another tag of it, was still there after the tag was
    written.  CorruptTable if metadata files are missing all the same.
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
