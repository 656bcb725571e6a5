"""Buckets of keys against Java's `PartitionIndex`, written down key by key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import InvalidArgument
from paimon_core.options import Options
from paimon_core.write.dynamic_buckets import BucketRules, PartitionBuckets


class JavaIndex:
    """One assigner's index of one partition, without an upper bound of buckets."""

    def __init__(self, target: int, known: dict[int, int], counts: dict[int, int]) -> None:
        self.target, self.known, self.counts = target, dict(known), dict(counts)

    def assign(self, key: int) -> int:
        if key in self.known:
            return self.known[key]
        bucket = next((b for b in sorted(self.counts) if self.counts[b] < self.target), None)
        if bucket is None:
            bucket = next(i for i in range(2**15) if i not in self.counts)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.known[key] = bucket
        return bucket


batches = st.lists(st.lists(st.integers(-30, 30), max_size=40), max_size=5)


@given(target=st.integers(1, 7), first=st.sets(st.integers(-30, 30)), rest=batches)
def test_as_java_fills_buckets(target: int, first: set[int], rest: list[list[int]]) -> None:
    stored = {h: i // target for i, h in enumerate(sorted(first))}
    files = [
        (b, np.array([h for h in stored if stored[h] == b], np.int32))
        for b in sorted(set(stored.values()))
    ]
    ours = PartitionBuckets.load(BucketRules(target_rows=target), "db.t", files)
    java = JavaIndex(target, stored, {b: len(h) for b, h in files})
    for batch in rest:
        before = dict(java.known)
        expected = [java.assign(h) for h in batch]
        assert ours.assign(np.array(batch, np.int32)).tolist() == expected
        changed = {java.known[h] for h in java.known.keys() - before.keys()}
        assert ours.changed == changed
        ours.changed.clear()
    for bucket in java.counts:
        hashes = sorted(h for h, b in java.known.items() if b == bucket)
        assert sorted(ours.of_bucket(bucket).tolist()) == hashes


@given(
    target=st.integers(1, 5),
    most=st.integers(1, 4),
    groups=st.integers(1, 4),
    keys=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60),
)
def test_with_bounds_and_groups(target: int, most: int, groups: int, keys: list[int]) -> None:
    rules = BucketRules(target_rows=target, most_buckets=most, groups=min(groups, most))
    index = PartitionBuckets(rules, "db.t")
    hashes = np.array(keys, np.int32)
    first = index.assign(hashes)
    assert index.assign(hashes[::-1])[::-1].tolist() == first.tolist()
    assert all(0 <= b < most for b in first.tolist())
    for bucket, count in index.counts.items():
        assert len(index.of_bucket(bucket)) == count
    if len(set(keys)) <= target:  # the first bucket of each group has room
        assert all(b == abs(h) % rules.groups for h, b in zip(keys, first.tolist(), strict=True))


def test_rules_of_a_table() -> None:
    rules = BucketRules.of(
        Options({"dynamic-bucket.target-row-num": "7", "dynamic-bucket.initial-buckets": "3"})
    )
    assert rules == BucketRules(target_rows=7, groups=3)
    bounded = Options({"dynamic-bucket.max-buckets": "2", "dynamic-bucket.initial-buckets": "3"})
    assert BucketRules.of(bounded).groups == 2
    groups = {(3, None): 3, (10, 3): 3, (3, 10): 3, (None, 3): 3, (0, None): 1, (None, None): 1}
    for (assigners, initial), expected in groups.items():
        given = {"assigner-parallelism": assigners, "initial-buckets": initial}
        options = {f"dynamic-bucket.{k}": str(v) for k, v in given.items() if v is not None}
        assert BucketRules.of(Options(options)).groups == expected
        bounded = Options({**options, "dynamic-bucket.max-buckets": "2"})
        assert BucketRules.of(bounded).groups == (1 if assigners == 0 else 2)
    many = {"dynamic-bucket.max-buckets": "5000"}
    assert BucketRules.of(Options(many)).groups == 200
    with pytest.raises(InvalidArgument, match="max-buckets"):
        BucketRules.of(Options({"dynamic-bucket.max-buckets": "0"}))


def test_there_are_as_many_buckets_as_java_can_number() -> None:
    index = PartitionBuckets(BucketRules(target_rows=1), "db.t")
    index.assign(np.arange(2**15 - 1, dtype=np.int32))
    with pytest.raises(InvalidArgument, match=r"target-row-num"):
        index.assign(np.array([-1], np.int32))
