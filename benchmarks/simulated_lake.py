"""A lake of metadata models for `simulated_quarter.py`: growing tables and their maintenance.

No file exists.  A partition of a primary-key table is a list of sorted runs, the newest first;
minor compactions pick runs by Paimon's universal rule (size amplification, size ratio, number of
runs).  A partition of an append table is a list of file sizes.  Rewritten bytes stay on storage
until an expiry after the retention, unless a consumer that has stopped holds them.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_maintenance.health.measurement import (
    ConsumerLag,
    Measurement,
    PartitionMeasurement,
    Rewrite,
)

MB, GB = 1024**2, 1024**3
HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_800_000_000_000 // DAY * DAY
TRIGGER = 5
LEVELS = TRIGGER
TARGET = 128 * MB
RETENTION = DAY
PARTITIONS_KEPT = 10
KINDS = {
    # kind: (number of 200, commits an hour, MB a commit, GB of old data)
    "hot": (20, (20, 60), (1, 8), (1, 40)),
    "warm": (55, (1, 6), (2, 40), (1, 60)),
    "cold": (45, (0.01, 0.2), (10, 200), (0.2, 20)),
    "append": (30, (4, 30), (0.2, 4), (1, 30)),
    "skewed": (15, (2, 12), (5, 60), (40, 200)),
    "failing": (10, (2, 20), (1, 20), (1, 20)),
    "consumer": (10, (2, 20), (2, 20), (1, 20)),
    "late": (15, (1, 6), (2, 30), (2, 30)),
}


@dataclass(slots=True)
class Partition:
    """One partition: sizes of its runs or files, newest first; a primary key's last is the base."""

    name: str
    sizes: list[float]
    newest: int
    oldest_level_0: int | None = None
    level_0: int = 0
    known: PartitionMeasurement | None = None
    size: float | None = None

    @property
    def bytes(self) -> float:
        """The size of all runs."""
        if self.size is None:
            self.size = sum(self.sizes)
        return self.size

    def changed(self) -> None:
        """Forget what was computed from the sizes."""
        self.known = self.size = None


@dataclass(slots=True)
class Table:
    """One table, and its load; `broken` are the outages in which every compaction fails."""

    name: str
    kind: str
    rate: float
    commit_bytes: float
    rng: random.Random
    partitions: list[Partition]
    daily: bool
    columns: int
    engine: str
    broken: tuple[tuple[int, int], ...] = ()
    held: deque[tuple[int, float]] = field(default_factory=deque)
    commits: deque[tuple[int, int]] = field(default_factory=deque)
    stopped: tuple[int, int] = (0, 0)
    snapshot: int = 1

    @property
    def append(self) -> bool:
        """Whether the table has no primary key."""
        return self.kind == "append"

    # --- load ---------------------------------------------------------------------------------

    def live(self, now: int, hours: float) -> None:
        """The commits of the next `hours`, which end at `now`."""
        local = (now // HOUR) % 24
        # More is written by day than by night.
        rate = self.rate * (1.3 if 7 <= local < 21 else 0.5)
        number = poisson(self.rng, rate * hours)
        if self.daily and now % DAY < hours * HOUR:
            self.partitions.append(Partition(f"dt={now // DAY}", [], now))
            del self.partitions[:-PARTITIONS_KEPT]
        if number:
            self.snapshot += number
            self.commits.append((now, number))
        for i in range(number):
            at = now - int(hours * HOUR * (1 - (i + 1) / (number + 1)))
            partition = self.partitions[-1]
            if self.kind == "late" and self.rng.random() < 0.3:
                partition = self.rng.choice(self.partitions)
            elif self.kind == "skewed" and self.rng.random() < 0.8:
                partition = self.partitions[0]
            partition.sizes.insert(0, self.commit_bytes * self.rng.lognormvariate(0, 0.5))
            partition.newest = at
            partition.level_0 += 1
            if partition.oldest_level_0 is None:
                partition.oldest_level_0 = at
            partition.changed()

    # --- maintenance --------------------------------------------------------------------------

    def picked(self, partition: Partition, *, full: bool) -> int:
        """How many of the newest runs or files a compaction rewrites; 0 if nothing is due."""
        sizes = partition.sizes
        if self.append:
            small = sum(1 for s in sizes if s < 0.7 * TARGET)
            return small if small >= (2 if full else TRIGGER) else 0
        if full:
            return len(sizes) if len(sizes) > 1 else 0
        if len(sizes) < TRIGGER:
            return 0
        younger = sum(sizes[:-1])
        if younger >= 2 * sizes[-1]:
            return len(sizes)
        number = _grown(sizes, 1)
        if number == 1:
            if len(sizes) == TRIGGER:
                return 0
            number = _grown(sizes, len(sizes) - TRIGGER + 1)
        # A result at level 0 is not allowed, and there are only so many levels.
        if number < partition.level_0 or len(sizes) - number >= LEVELS:
            number = max(number, partition.level_0) + 1
        return min(number, len(sizes))

    def rewritten(self, partition: Partition, number: int) -> tuple[float, list[float]]:
        """The bytes that a compaction reads, and the sizes that it leaves."""
        if self.append:
            small = sorted(s for s in partition.sizes if s < 0.7 * TARGET)[:number]
            rest = [s for s in partition.sizes if s >= 0.7 * TARGET]
            size = sum(small)
            whole = int(size // TARGET)
            return size, [
                *([size - whole * TARGET] if size > whole * TARGET else []),
                *[TARGET] * whole,
                *rest,
            ]
        size = sum(partition.sizes[:number])
        largest = max(partition.sizes[:number])
        # Most rows of young runs are updates, which take no new space.
        merged = largest + 0.25 * (size - largest)
        return size, [merged, *partition.sizes[number:]]

    def compact(self, names: frozenset[str] | None, now: int, *, full: bool) -> tuple[int, float]:
        """Compact partitions (all: None) and return the files and bytes that were read."""
        files, size = 0, 0.0
        for partition in self.partitions:
            number = self.picked(partition, full=full)
            if not number or (names is not None and partition.name not in names):
                continue
            files += number
            read, partition.sizes = self.rewritten(partition, number)
            size += read
            partition.level_0 = max(0, partition.level_0 - number)
            if not partition.level_0:
                partition.oldest_level_0 = None
            partition.changed()
        if size:
            self.snapshot += 1
            self.held.append((now, size))
            self.commits.append((now, 1))
        return files, size

    def is_broken(self, now: int) -> bool:
        """Whether compactions fail now."""
        return any(begin <= now < end for begin, end in self.broken)

    def is_held(self, now: int) -> bool:
        """Whether a consumer has stopped and keeps snapshots from expiry now."""
        return self.stopped[0] <= now < self.stopped[1]

    def held_from(self, now: int) -> int:
        """What was superseded or committed from here on must stay: retention and consumers."""
        stopped = self.stopped[0] if self.is_held(now) else now
        return min(now - RETENTION, stopped)

    def expire(self, now: int) -> tuple[int, float]:
        """Expire snapshots beyond the retention; return their number and the bytes freed."""
        until = self.held_from(now)
        snapshots, size = 0, 0.0
        while self.commits and self.commits[0][0] < until:
            snapshots += self.commits.popleft()[1]
        while self.held and self.held[0][0] < until:
            size += self.held.popleft()[1]
        return snapshots, size

    # --- metadata -----------------------------------------------------------------------------

    def amplification(self) -> float:
        """As `Measurement.amplification`."""
        if self.append:
            files = sum(len(p.sizes) for p in self.partitions)
            return files / max(1, sum(ideal(p.bytes) for p in self.partitions))
        size = sum(p.bytes for p in self.partitions)
        runs = sum(max(1, len(p.sizes)) * p.bytes for p in self.partitions)
        return runs / size if size else 1.0

    def measure(self, now: int) -> Measurement:
        """What `health.measure` would find."""
        beyond, free = now - RETENTION, self.held_from(now)
        blocked = self.is_held(now)
        beyond_snapshots, beyond_bytes = older(self.commits, beyond), older(self.held, beyond)
        free_snapshots = older(self.commits, free) if blocked else beyond_snapshots
        free_bytes = older(self.held, free) if blocked else beyond_bytes
        return Measurement(
            table=self.name,
            at_millis=now,
            snapshot=self.snapshot,
            snapshot_millis=max(p.newest for p in self.partitions),
            primary_key=not self.append,
            bucket_mode="unaware" if self.append else "fixed",
            merge_engine=self.engine,
            needs_merge=not self.append,
            columns=self.columns,
            partition_keys=("dt",) if self.daily else (),
            partitions=tuple(self._partition(p) for p in self.partitions),
            snapshots=sum(n for _, n in self.commits),
            beyond_snapshots=int(beyond_snapshots),
            beyond_bytes=int(beyond_bytes),
            blocked_snapshots=int(beyond_snapshots - free_snapshots),
            blocked_bytes=int(beyond_bytes - free_bytes),
            consumers=(
                ConsumerLag(id="c", snapshots=9, since=self.stopped[0], bytes=0, last_seen=now),
            )
            if blocked
            else (),
        )

    def _partition(self, partition: Partition) -> PartitionMeasurement:
        if partition.known is None:
            size = int(partition.bytes)
            partition.known = PartitionMeasurement(
                name=partition.name,
                values={"dt": partition.name[3:]} if self.daily else {},
                files=len(partition.sizes),
                bytes=size,
                rows=size // 100,
                ideal_files=ideal(size) if self.append else 1,
                buckets=1,
                point_runs=1 if self.append else max(1, len(partition.sizes)),
                full_runs=1.0 if self.append else float(max(1, len(partition.sizes))),
                level_0_files=partition.level_0,
                oldest_level_0=None if self.append else partition.oldest_level_0,
                newest_file=partition.newest,
                largest_bucket=size,
                minor=self._rewrite(partition, full=False),
                full=self._rewrite(partition, full=True),
            )
        return partition.known

    def _rewrite(self, partition: Partition, *, full: bool) -> Rewrite | None:
        number = self.picked(partition, full=full)
        if not number:
            return None
        read, after = self.rewritten(partition, number)
        return Rewrite(
            files=number,
            bytes=int(read),
            level_0_bytes=int(sum(partition.sizes[: min(number, partition.level_0)])),
            rows=int(read) // 100,
            files_after=len(after),
            runs_after=1.0 if self.append else float(len(after)),
        )


def older(entries: Iterable[tuple[int, float]], until: int) -> float:
    """The sum of the entries before `until`, which are in the order of their times."""
    total = 0.0
    for at, number in entries:
        if at >= until:
            break
        total += number
    return total


def ideal(size: float) -> int:
    """The smallest number of files of the target size."""
    return max(1, math.ceil(size / TARGET))


def _grown(sizes: list[float], number: int) -> int:
    """The number, extended by runs that are not much larger than all runs before them."""
    size = sum(sizes[:number])
    while number < len(sizes) and sizes[number] <= 1.01 * size:
        size += sizes[number]
        number += 1
    return number


def poisson(rng: random.Random, mean: float) -> int:
    """A random number of events."""
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, number, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        number += 1
        product *= rng.random()
    return number


def lake(seed: int, number: int, days: int) -> list[Table]:
    """The tables, the same for the same seed; `number` of 200 kinds in proportion."""
    rng = random.Random(seed)
    tables = []
    for kind, (share, rates, sizes, old) in KINDS.items():
        for i in range(max(1, round(share * number / 200))):
            daily = kind in ("append", "late", "skewed") or (kind == "warm" and rng.random() < 0.5)
            base = 10 ** rng.uniform(*map(math.log10, old)) * GB
            begin = START + int(rng.uniform(0.05, 0.6) * days * DAY)
            starts = [START + int(rng.random() * days * DAY) for _ in range(max(1, days // 10))]
            outages = tuple((at, at + int(rng.uniform(6, 36) * HOUR)) for at in starts)
            partitions = [
                Partition(f"dt={START // DAY - k}", [], START - k * DAY)
                for k in reversed(range(PARTITIONS_KEPT if daily else 1))
            ]
            for k, partition in enumerate(partitions):
                # The first partition of a skewed table has most of the data.
                part = 0.8 if kind == "skewed" and k == 0 else 0.2 if kind == "skewed" else 1.0
                size = base * part / (1 if kind == "skewed" and k == 0 else len(partitions))
                partition.sizes = [TARGET] * ideal(size) if kind == "append" else [size]
            tables.append(
                Table(
                    name=f"db.{kind}_{i:03}",
                    kind=kind,
                    rate=10 ** rng.uniform(*map(math.log10, rates)),
                    commit_bytes=10 ** rng.uniform(*map(math.log10, sizes)) * MB,
                    rng=random.Random(rng.random()),
                    partitions=partitions,
                    daily=daily,
                    columns=rng.randint(4, 40),
                    engine=rng.choice(
                        ("deduplicate", "deduplicate", "partial-update", "aggregation")
                    ),
                    broken=outages if kind == "failing" else (),
                    stopped=(begin, begin + 6 * DAY) if kind == "consumer" else (0, 0),
                )
            )
    return tables
