"""Assigns keys to the buckets of a dynamic-bucket partition.

Java: `index/PartitionIndex`, `HashBucketAssigner`, `SimpleHashBucketAssigner`.

1.  A known hash stays in its bucket.
2.  A new one goes to the first bucket with fewer than `dynamic-bucket.target-row-num` hashes,
3. or to a new bucket, unless there are `dynamic-bucket.max-buckets` of them,
4. in which case it goes to any of them (Java chooses at random; here the hash decides).

Keys are divided into n groups by hash; group g fills the buckets g, g + n, g + 2n, ... one after
the other, so that a partition starts with n buckets.  In Java these are the n assigners of a job.
n is the least of `dynamic-bucket.initial-buckets`, `dynamic-bucket.assigner-parallelism` and
`dynamic-bucket.max-buckets`, as far as they are set, otherwise 1.  Where only the last one is set,
n is at most 200, the tasks of a job in Java unless Spark's configuration says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_core.errors import InvalidArgument
from paimon_core.index.hash_index import Hashes
from paimon_core.options import (
    DYNAMIC_BUCKET_ASSIGNERS,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROWS,
    Options,
)

_MOST_BUCKETS: Final = 2**15 - 1
"""Java keeps bucket numbers as 16-bit integers."""
_TASKS_IN_JAVA: Final = 200
"""Spark's default number of tasks of a shuffle, and so of assigners."""

Buckets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    """Limits: hashes per bucket, buckets per partition (None: unlimited), number of groups."""

    target_rows: int
    most_buckets: int | None = None
    groups: int = 1

    @staticmethod
    def of(options: Options) -> BucketRules:
        """Return the rules of a table.

        InvalidArgument if `max-buckets` is neither -1 nor positive.
        """
        most = options.value(DYNAMIC_BUCKET_MAX_BUCKETS)
        if most != -1 and most <= 0:
            raise InvalidArgument(
                f"dynamic-bucket.max-buckets must be -1 or more than 0, not {most}"
            )
        initial = options.value(DYNAMIC_BUCKET_INITIAL_BUCKETS)
        assigners = options.value(DYNAMIC_BUCKET_ASSIGNERS)
        limits = [n for n in (initial, assigners) if n is not None]
        if most != -1:
            limits.append(most if limits else min(most, _TASKS_IN_JAVA))
        return BucketRules(
            target_rows=options.value(DYNAMIC_BUCKET_TARGET_ROWS),
            most_buckets=None if most == -1 else most,
            groups=max(1, min(limits, default=1)),
        )


@dataclass(slots=True)
class PartitionBuckets:
    """The hashes of one partition and their buckets; grows as keys arrive.

    `changed` holds the buckets that got hashes since their last index file.
    """

    rules: BucketRules
    table: str
    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int32))
    """Sorted and distinct."""
    buckets: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    counts: dict[int, int] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    @staticmethod
    def load(
        rules: BucketRules, table: str, files: Iterable[tuple[int, Hashes]]
    ) -> PartitionBuckets:
        """Load the hash indexes (bucket, hashes) of a partition."""
        files = list(files)
        counts = {bucket: len(hashes) for bucket, hashes in files}
        hashes = np.concatenate([np.empty(0, np.int32), *(h for _, h in files)])
        owners = np.concatenate(
            [np.empty(0, np.int16), *(np.full(len(h), b, np.int16) for b, h in files)]
        )
        # If two indexes hold a hash, the later one wins, as when Java fills its map.
        _, last = np.unique(hashes[::-1], return_index=True)
        kept = len(hashes) - 1 - last
        return PartitionBuckets(rules, table, hashes[kept], owners[kept], counts)

    def assign(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash; new hashes are added to the index."""
        distinct, first, codes = np.unique(hashes, return_index=True, return_inverse=True)
        places = np.searchsorted(self.hashes, distinct)
        inside = places < len(self.hashes)
        known = np.zeros(len(distinct), np.bool_)
        known[inside] = self.hashes[places[inside]] == distinct[inside]
        result = np.empty(len(distinct), np.int64)
        result[known] = self.buckets[places[known]]
        fresh = np.flatnonzero(~known)
        if len(fresh):
            # Buckets fill up in the order in which keys arrive.
            by_arrival = fresh[np.argsort(first[fresh], kind="stable")]
            result[by_arrival] = self._placed(distinct[by_arrival])
            at = places[fresh]
            self.hashes = np.insert(self.hashes, at, distinct[fresh])
            self.buckets = np.insert(self.buckets, at, result[fresh].astype(np.int16))
        return result[codes]

    def of_bucket(self, bucket: int) -> Hashes:
        """Return all hashes of one bucket."""
        mine: Hashes = self.hashes[self.buckets == bucket]
        return mine

    def _placed(self, hashes: Hashes) -> Buckets:
        """Return the buckets of hashes that the index does not hold."""
        groups = self.rules.groups
        if groups == 1:
            return self._fill(hashes, 0)
        result = np.empty(len(hashes), np.int64)
        group = np.abs(np.fmod(hashes.astype(np.int64), groups))
        for g in np.unique(group).tolist():
            mine = np.flatnonzero(group == g)
            result[mine] = self._fill(hashes[mine], g)
        return result

    def _fill(self, hashes: Hashes, group: int) -> Buckets:
        result = np.empty(len(hashes), np.int64)
        done = 0
        for bucket in self._with_room(group):
            count = self.counts.get(bucket, 0)
            taken = min(len(hashes) - done, max(1, self.rules.target_rows) - count)
            result[done : done + taken] = bucket
            self.counts[bucket] = count + taken
            self.changed.add(bucket)
            done += taken
            if done == len(hashes):
                return result
        if self.rules.most_buckets is None:
            raise InvalidArgument(
                f"a partition of table {self.table} would need more than {_MOST_BUCKETS} buckets",
                table=self.table,
                next_step="raise dynamic-bucket.target-row-num",
            )
        result[done:] = self._overflow(hashes[done:], group)
        return result

    def _with_room(self, group: int) -> Iterator[int]:
        """Yield the group's buckets that are not full, then new ones up to the limit."""
        step, target = self.rules.groups, max(1, self.rules.target_rows)
        known = sorted(b for b in self.counts if b % step == group)
        yield from [b for b in known if self.counts[b] < target]
        most = _MOST_BUCKETS if self.rules.most_buckets is None else self.rules.most_buckets
        taken = set(known)
        yield from (b for b in range(group, most, step) if b not in taken)

    def _overflow(self, hashes: Hashes, group: int) -> Buckets:
        mine = np.array(sorted(b for b in self.counts if b % self.rules.groups == group))
        if not len(mine):  # all buckets of the group exceed a limit that was lowered
            mine = np.array(sorted(self.counts))
        chosen: Buckets = mine[np.abs(hashes.astype(np.int64)) % len(mine)]
        for bucket, count in zip(*np.unique(chosen, return_counts=True), strict=True):
            self.counts[int(bucket)] += int(count)
            self.changed.add(int(bucket))
        return chosen
