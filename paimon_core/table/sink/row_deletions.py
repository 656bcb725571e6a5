"""The commit messages that delete rows of append tables: whole files, or positions in files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.deletion_vectors import (
    DELETION_VECTORS_INDEX,
    Positions,
    read_deletion_vectors,
    union,
    write_deletion_vectors,
)
from paimon_core.io.file_io import delete_abandoned
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import DELETION_VECTOR_BITMAP64


def file_deletion(entry: ManifestEntry) -> CommitMessage:
    """Return the message that deletes the file of this entry."""
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        deleted_files=(entry.file,),
    )


def vector_deletions(
    table: FileStoreTable,
    gone: Iterable[tuple[ManifestEntry, Positions]],
    *,
    index_files: Mapping[tuple[bytes, int], Sequence[IndexFileMeta]],
    env: Environment,
) -> Iterator[CommitMessage]:
    """Write the deleted positions of files; yield a message for each bucket, as `vector_deletion`.

    `index_files` holds the vectors of the buckets.
    """
    positions: dict[tuple[bytes, int], dict[str, Positions]] = defaultdict(dict)
    totals: dict[tuple[bytes, int], int] = {}
    for entry, deleted in gone:
        bucket = entry.partition, entry.bucket
        positions[bucket][entry.file.file_name] = deleted
        totals[bucket] = entry.total_buckets
    for bucket, by_name in positions.items():
        yield vector_deletion(
            table,
            bucket,
            by_name,
            total_buckets=totals[bucket],
            index_files=index_files.get(bucket, ()),
            env=env,
        )


def vector_deletion(
    table: FileStoreTable,
    bucket: tuple[bytes, int],
    positions: Mapping[str, Positions],
    *,
    total_buckets: int,
    index_files: Sequence[IndexFileMeta],
    env: Environment,
) -> CommitMessage:
    """Write the deleted positions of a bucket's data files; return the message that adds them.

    The new index file replaces those of `index_files`, the vectors of the bucket, that hold vectors
    of the same data files.  It is deleted again if it cannot be written completely.
    """
    # A bucket of a bucketed table has one index file; bucket -1 has one for some of its files.
    old = [
        index
        for index in index_files
        if table.bucket_mode is not BucketMode.UNAWARE
        or any(r.data_file in positions for r in index.dv_ranges or ())
    ]
    vectors: dict[str, Positions] = {}
    for index in old:
        path = table.paths.index_file(*bucket, index)
        vectors.update(read_deletion_vectors(table.io, path, index))
    for name, deleted in positions.items():
        before = vectors.get(name)
        vectors[name] = deleted if before is None else union(before, deleted)
    blank = IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name=f"index-{env.new_uuid()}-0",
        file_size=0,
        row_count=0,
    )
    path = table.paths.index_file(*bucket, blank)
    try:
        new = write_deletion_vectors(
            table.io, path, vectors, bitmap64=table.options.value(DELETION_VECTOR_BITMAP64)
        )
    except BaseException:
        delete_abandoned(table.io, [path])
        raise
    return CommitMessage(
        partition=bucket[0],
        bucket=bucket[1],
        total_buckets=total_buckets,
        new_index_files=(new,),
        deleted_index_files=tuple(old),
    )
