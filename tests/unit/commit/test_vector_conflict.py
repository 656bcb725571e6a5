"""Commits must leave data files and deletion vectors that fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.vector_conflict import check_vectors
from paimon_core.errors import CommitConflict
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    DeletionVectorRange,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.snapshot.snapshot import CommitKind, Snapshot

LATEST = Snapshot(
    id=7,
    schema_id=0,
    base_manifest_list="b",
    delta_manifest_list="d",
    commit_user="somebody",
    commit_identifier=1,
    commit_kind=CommitKind.OVERWRITE,
    time_millis=0,
)


def file(name: str, *, level: int = 0) -> ManifestEntry:
    meta = DataFileMeta(file_name=name, file_size=1, row_count=9, level=level)
    return ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, 1, meta)


def vectors(name: str, *data_files: str) -> IndexManifestEntry:
    ranges = tuple(DeletionVectorRange(f, 1, 1, 1) for f in data_files)
    meta = IndexFileMeta(
        index_type="DELETION_VECTORS", file_name=name, file_size=1, row_count=1, dv_ranges=ranges
    )
    return IndexManifestEntry(FileKind.ADD, EMPTY_ROW, 0, meta)


def gone(entry: IndexManifestEntry) -> IndexManifestEntry:
    return replace(entry, kind=FileKind.DELETE)


def check(
    base: Sequence[ManifestEntry],
    index_files: Sequence[IndexManifestEntry],
    changes: ManifestChanges,
    *,
    unaware: bool = False,
) -> None:
    check_vectors(
        table="db.t",
        latest=LATEST,
        base=base,
        index_files=index_files,
        changes=changes,
        bucket_unaware=unaware,
    )


A, B, C = file("a"), file("b"), file("c")


@pytest.mark.parametrize("unaware", [False, True])
def test_a_rewritten_file_takes_its_vector_with_it(unaware: bool) -> None:  # noqa: FBT001
    old, new = vectors("i1", "a", "b"), vectors("i2", "b")
    rewritten = (A.as_delete(), C)
    check([A, B], [old], ManifestChanges(rewritten, (), (gone(old), new)), unaware=unaware)
    with pytest.raises(CommitConflict, match="rows of file a, which this commit replaces"):
        check([A, B], [old], ManifestChanges(rewritten), unaware=unaware)


def test_a_vector_that_came_meanwhile_is_a_conflict() -> None:
    with pytest.raises(CommitConflict, match=r"deleted meanwhile.*snapshot 7.*user somebody"):
        check([A, B], [vectors("i1", "a")], ManifestChanges((A.as_delete(), C)), unaware=True)


@pytest.mark.parametrize("unaware", [False, True])
def test_a_vector_that_changed_meanwhile_is_a_conflict(unaware: bool) -> None:  # noqa: FBT001
    read, now = vectors("i1", "a"), vectors("i2", "a")
    changes = ManifestChanges((A.as_delete(), C), (), (gone(read),))
    with pytest.raises(CommitConflict, match="i1, which this commit replaces, is no longer there"):
        check([A], [now], changes, unaware=unaware)


def test_the_index_file_of_a_bucket_is_never_replaced_unseen() -> None:
    """Java does: the last of two compactions wins, and the rows of the other come back."""
    with pytest.raises(
        CommitConflict, match="i2, which this commit adds, is for the same bucket as"
    ):
        check([A, B], [vectors("i1", "a")], ManifestChanges((), (), (vectors("i2", "b"),)))


def test_rows_of_a_file_that_is_gone_cannot_be_deleted() -> None:
    with pytest.raises(CommitConflict, match="file b, whose rows this commit deletes"):
        check([A], [], ManifestChanges((), (), (vectors("i1", "b"),)))
    with pytest.raises(CommitConflict, match="file a"):
        check([A], [], ManifestChanges((A.as_delete(), C), (), (vectors("i1", "a"),)))


def test_a_file_that_moves_up_keeps_its_vector() -> None:
    up = replace(A, file=A.file.upgraded(5))
    check([A], [vectors("i1", "a")], ManifestChanges((A.as_delete(), up)))
    check([A], [], ManifestChanges((A.as_delete(), up), (), (vectors("i1", "a"),)))


def test_vectors_that_java_left_behind_disturb_nobody() -> None:
    """Java 1.4.2 forgets vectors when it rewrites files of the top level alone."""
    check([A, B], [vectors("i1", "long gone")], ManifestChanges((A.as_delete(), C)))
