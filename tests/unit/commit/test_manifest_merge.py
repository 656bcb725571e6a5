"""Manifest merging: what is live stays live, and the thresholds are Java's."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.commit.manifest_merge import MergeThresholds, merge_manifests
from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_core.manifest.merge_entries import live_entries, merge_entries


def entry(kind: FileKind, name: str) -> ManifestEntry:
    file = DataFileMeta(file_name=name, file_size=1, row_count=1)
    return ManifestEntry(kind, EMPTY_ROW, 0, 1, file)


@dataclass
class Manifests:
    """Manifests in memory; each entry weighs 100 bytes."""

    content: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    def write(self, entries: list[ManifestEntry]) -> list[ManifestFileMeta]:
        name = f"manifest-{len(self.content)}"
        self.content[name] = list(entries)
        return [
            ManifestFileMeta(
                file_name=name,
                file_size=100 * len(entries),
                num_added_files=sum(e.kind is FileKind.ADD for e in entries),
                num_deleted_files=sum(e.kind is FileKind.DELETE for e in entries),
                partition_stats=EMPTY_STATS,
                schema_id=0,
            )
        ]

    def merge(
        self, metas: list[ManifestFileMeta], thresholds: MergeThresholds, *, in_range: bool = True
    ) -> list[str]:
        merged, _ = merge_manifests(
            metas,
            thresholds,
            read=lambda m: self.content[m.file_name],
            write=lambda e: self.write(list(e)),
            may_hold=lambda _: lambda _: in_range,
        )
        return [m.file_name for m in merged]

    def live(self, names: list[str]) -> set[str]:
        return {e.file.file_name for e in live_entries(x for n in names for x in self.content[n])}


def test_small_manifests_wait_until_there_are_enough() -> None:
    store = Manifests()
    metas = [m for i in range(4) for m in store.write([entry(FileKind.ADD, f"f{i}")])]
    few = MergeThresholds(target_size=1000, min_count=5, full_size=10_000)
    assert store.merge(metas, few) == [m.file_name for m in metas]
    enough = MergeThresholds(target_size=1000, min_count=4, full_size=10_000)
    merged = store.merge(metas, enough)
    assert len(merged) == 1
    assert store.live(merged) == {"f0", "f1", "f2", "f3"}


def test_a_manifest_that_is_listed_twice_is_not_merged() -> None:
    store = Manifests()
    metas = store.write([entry(FileKind.ADD, "f0")])
    with pytest.raises(CorruptTable, match="twice"):
        store.merge([*metas, *metas], MergeThresholds(target_size=1, min_count=99, full_size=10**6))


def test_a_minor_merge_keeps_a_delete_whose_add_is_elsewhere() -> None:
    store = Manifests()
    old = store.write([entry(FileKind.ADD, f"f{i}") for i in range(20)])
    new = [
        *store.write([entry(FileKind.DELETE, "f3")]),
        *store.write([entry(FileKind.ADD, "g")]),
    ]
    merged = store.merge(
        [*old, *new], MergeThresholds(target_size=2000, min_count=2, full_size=10**6)
    )
    assert merged[0] == old[0].file_name, "a manifest at the target size is left alone"
    kinds = [e.kind for e in store.content[merged[1]]]
    assert kinds == [FileKind.DELETE, FileKind.ADD]
    assert store.live(merged) == {f"f{i}" for i in range(20) if i != 3} | {"g"}


def test_a_full_merge_applies_every_delete() -> None:
    store = Manifests()
    metas = [
        *store.write([entry(FileKind.ADD, f"f{i}") for i in range(20)]),
        *store.write([entry(FileKind.DELETE, f"f{i}") for i in range(0, 20, 2)]),
    ]
    merged = store.merge(metas, MergeThresholds(target_size=500, min_count=30, full_size=1000))
    entries = [e for n in merged for e in store.content[n]]
    assert all(e.kind is FileKind.ADD for e in entries)
    assert store.live(merged) == {f"f{i}" for i in range(1, 20, 2)}


def test_a_full_merge_keeps_a_delete_whose_add_lies_in_a_manifest_of_a_wrong_range() -> None:
    store = Manifests()
    metas = [
        *store.write([entry(FileKind.ADD, f"f{i}") for i in range(20)]),
        *store.write([entry(FileKind.ADD, f"g{i}") for i in range(3)]),
        *store.write([entry(FileKind.DELETE, name) for name in ("f3", "g1")]),
    ]
    thresholds = MergeThresholds(target_size=2000, min_count=30, full_size=100)
    merged = store.merge(metas, thresholds, in_range=False)
    assert merged[0] == metas[0].file_name
    assert store.live(merged) == {f"f{i}" for i in range(20) if i != 3} | {"g0", "g2"}


operations = st.lists(
    st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=6), max_size=10
)


@given(
    operations,
    st.integers(1, 900),
    st.integers(1, 6),
    st.integers(1, 2500),
)
def test_merging_never_changes_what_is_live(
    commits: list[list[tuple[bool, int]]], target: int, count: int, full: int
) -> None:
    store = Manifests()
    alive: dict[int, int] = {}
    generation = 0
    metas: list[ManifestFileMeta] = []
    for commit in commits:
        entries: list[ManifestEntry] = []
        for add, slot in commit:
            if add and slot not in alive:
                generation += 1
                alive[slot] = generation
                entries.append(entry(FileKind.ADD, f"f{generation}"))
            elif not add and slot in alive:
                entries.append(entry(FileKind.DELETE, f"f{alive.pop(slot)}"))
        merged = list(merge_entries(entries).values())
        if merged:
            metas += store.write(merged)
    names = store.merge(metas, MergeThresholds(target_size=target, min_count=count, full_size=full))
    assert store.live(names) == {f"f{g}" for g in alive.values()}
