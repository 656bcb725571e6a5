"""The result of a writer or a compaction (Java: `table/sink/CommitMessageImpl`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_core.manifest.data_file import DataFileMeta, IndexFileMeta
from paimon_core.snapshot.snapshot import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes of one bucket.

    `new_files`, `deleted_files`, `changelog_files` and the plain index files form the APPEND part,
    the `compact_*` fields the COMPACT part; a commit with both creates two snapshots.  `partition`
    holds stored row bytes.  A file that is in `compact_before` and, under the same name, in
    `compact_after` is an upgrade.  `keys_at` is set by a writer that knows where all keys of the
    table are, and is the identity of the snapshot where it read that, or `NO_SNAPSHOT`.  `follows`
    is set beside it if the writer also counts on earlier commits of its stream: the identifier of
    the last of them.  `hash_indexes` is set by a writer of dynamic buckets: the buckets and index
    files of the partition that it follows.  `buckets_at` is the identity of the snapshot where a
    writer of fixed buckets read how many each partition has; None if it did not.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index_files: tuple[IndexFileMeta, ...] = ()
    keys_at: Identity | None = None
    follows: int | None = None
    hash_indexes: tuple[tuple[int, IndexFileMeta], ...] | None = None
    buckets_at: Identity | None = None

    @property
    def is_empty(self) -> bool:
        return not (
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
            or self.compact_before
            or self.compact_after
            or self.compact_changelog
            or self.compact_new_index_files
            or self.compact_deleted_index_files
        )

    def written_files(self) -> tuple[DataFileMeta, ...]:
        """The files that exist only because of this message, which an abort deletes.

        An upgraded file is in `compact_after` too, but it existed before.
        """
        before = {f.file_name for f in self.compact_before}
        return (
            *self.new_files,
            *self.changelog_files,
            *(f for f in self.compact_after if f.file_name not in before),
            *self.compact_changelog,
        )


def buckets_known_at(messages: Sequence[CommitMessage]) -> Identity | None:
    """The oldest `buckets_at` of the messages with new files; None if one of them has none."""
    found = [m.buckets_at for m in messages if m.new_files]
    known = [at for at in found if at is not None]
    return min(known, key=lambda at: at[0]) if known and len(known) == len(found) else None
