"""The conflict rules, one by one (java-rules A2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_core.commit.conflict import check_conflicts
from paimon_core.errors import CommitConflict
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    FileKind,
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
    commit_kind=CommitKind.APPEND,
    time_millis=0,
)


def add(name: str, *, level: int = 0, keys: str = "aa", buckets: int = 4) -> ManifestEntry:
    file = DataFileMeta(
        file_name=name,
        file_size=1,
        row_count=1,
        level=level,
        min_key=keys[0].encode(),
        max_key=keys[1].encode(),
    )
    return ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, buckets, file)


def check(
    base: list[ManifestEntry],
    delta: list[ManifestEntry],
    kind: CommitKind = CommitKind.COMPACT,
    *,
    exact: bool = False,
) -> None:
    check_conflicts(
        table="db.t",
        latest=LATEST,
        base=base,
        delta=delta,
        kind=kind,
        sort_key=lambda key: key,
        exact=exact,
    )


def test_replacing_what_is_there_is_fine() -> None:
    old = add("a")
    check([old, add("b")], [old.as_delete(), add("c", level=5)])


def test_an_upgrade_deletes_the_old_level_first() -> None:
    old = add("a")
    upgraded = replace(old, file=old.file.upgraded(5))
    check([old], [old.as_delete(), upgraded])


@pytest.mark.parametrize(
    ("base", "delta", "reason"),
    [
        ([add("a")], [add("b").as_delete(), add("c", level=5)], "no longer there"),
        ([add("a")], [add("a")], "added twice"),
        ([], [add("a"), add("a")], "added twice"),
        ([add("a", level=5, keys="ac")], [add("b", level=5, keys="bd")], "overlap at level 5"),
        ([add("a", level=5, keys="ac")], [add("b", level=5, keys="cd")], "overlap at level 5"),
        ([add("a", buckets=4)], [add("b", buckets=8)], "4 buckets"),
    ],
)
def test_conflicts_name_their_reason(
    base: list[ManifestEntry], delta: list[ManifestEntry], reason: str
) -> None:
    with pytest.raises(CommitConflict, match=reason) as caught:
        check(base, delta)
    assert "db.t" in str(caught.value)
    assert "user somebody" in str(caught.value)


def test_levels_do_not_conflict_with_each_other() -> None:
    check([add("a", level=4, keys="ac")], [add("b", level=5, keys="bd"), add("c", keys="aa")])


def test_an_overwrite_may_change_the_bucket_number() -> None:
    old = add("a", buckets=4)
    check([old], [old.as_delete(), add("b", buckets=8)], CommitKind.OVERWRITE)


def test_an_exact_replacement_tolerates_no_newcomer() -> None:
    old = add("a")
    delta = [old.as_delete(), add("b", level=5)]
    check([old], delta, CommitKind.OVERWRITE, exact=True)
    with pytest.raises(CommitConflict, match="late was added to a partition"):
        check([old, add("late")], delta, CommitKind.OVERWRITE, exact=True)
