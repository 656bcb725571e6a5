"""Refuses commits of rows that have lost columns.

New files have the columns of the schema under which they were written.  Rows of files with a newer
schema lose the columns that were added since; rows from before `CREATE OR REPLACE TABLE` lose all
of theirs, also new ones of a writer that began before.  Java checks none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.errors import CommitConflict
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.schema.replaced import (
    check_not_older_than_replacement,
    older_than_replacement,
    shares_no_column,
)
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.snapshot import Snapshot


def check_rewritten_schemas(table: FileStoreTable, changes: Sequence[ManifestEntry]) -> None:
    """Raise CommitConflict or UnsupportedFeature if values of rewritten rows are lost.

    Files that only move to another level keep their rows.
    """
    deleted = [e for e in changes if e.kind is FileKind.DELETE]
    if not deleted:
        return
    places = {e.place for e in deleted}
    moved: set[tuple[bytes, int, str]] = set()
    oldest: dict[bytes, int] = {}
    for entry in changes:
        if entry.kind is not FileKind.ADD:
            continue
        if entry.place in places:
            moved.add(entry.place)
            continue
        known = oldest.get(entry.partition, entry.file.schema_id)
        oldest[entry.partition] = min(known, entry.file.schema_id)
    rewritten = [e for e in deleted if e.partition in oldest and e.place not in moved]
    for entry in rewritten:
        if entry.file.schema_id > oldest[entry.partition]:
            raise CommitConflict(
                f"rows of file {entry.file.file_name} of table {table.name} were rewritten under schema "
                f"{oldest[entry.partition]}, without the columns that schema {entry.file.schema_id} has "
                f"added",
                table=table.name,
                file=entry.file.file_name,
                next_step="open the table again, which gives its newest schema, and run again",
            )
    written = (e.file.schema_id for e in rewritten)
    check_not_older_than_replacement(table.schemas, written, table.schema)


def check_not_replaced(
    table: FileStoreTable, newer: TableSchema, changes: Sequence[ManifestEntry]
) -> None:
    """Raise CommitConflict if `newer` has other columns in place of those of the rows.

    Whoever only deletes may go on, as the replacement itself does where it removes such rows.
    """
    if not shares_no_column(table.schema, newer):
        return
    if any(e.kind is FileKind.ADD for e in changes):
        raise CommitConflict(
            f"table {table.name} was replaced: schema {newer.id} has none of the columns of schema "
            f"{table.schema.id}, with which the changes were made",
            table=table.name,
            next_step="run again with the columns that the table has now",
        )


@dataclass(slots=True)
class OnlyOlder:
    """Checks that `CREATE OR REPLACE TABLE` removes rows from before it alone.

    Whoever writes with its schema, or replaces the table once more, is told that the rows are
    committed.  `found`: whether that has happened; then CommitConflict was raised.
    """

    table: FileStoreTable
    schema: TableSchema
    """The schema of the replacement."""
    found: bool = False

    def __call__(self, changes: ManifestChanges) -> None:
        newest = self.table.schemas.latest() or self.schema
        is_replaced = newest.id > self.schema.id and shares_no_column(newest, self.schema)
        ids = (e.file.schema_id for e in changes.files if e.kind is FileKind.DELETE)
        if not is_replaced and all(i < self.schema.id for i in ids):
            return
        self.found = True
        raise CommitConflict(
            f"table {self.table.name} was written or replaced by somebody else as soon as it had "
            f"schema {self.schema.id} of this replacement",
            table=self.table.name,
            next_step="look at the table; run the statement again if it shall replace that, too",
        )


def check_replacement_finished(
    table: FileStoreTable, latest: Snapshot, changes: Sequence[ManifestEntry]
) -> None:
    """Raise CommitConflict if new rows would join rows from before a replacement.

    It has made the new schema, and removes the rows that others committed right before that; if it
    was killed there, their columns are null until it runs again.
    """
    if latest.schema_id >= table.schema.id or not latest.total_record_count:
        return
    if not any(e.kind is FileKind.ADD for e in changes):
        return
    if older_than_replacement(table.schemas, [latest.schema_id], table.schema):
        raise CommitConflict(
            f"table {table.name} is being replaced, or was not replaced to the end: snapshot {latest.id} "
            f"has rows of schema {latest.schema_id}, from before",
            table=table.name,
            snapshot=latest.id,
            next_step="run again when that is done; if CREATE OR REPLACE TABLE was interrupted, run it "
            "again, or TRUNCATE TABLE",
        )
