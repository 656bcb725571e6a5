"""Thresholds and weights of the health score.  docs/health.md explains each criterion.

A criterion has a value, for example the number of sorted runs divided by the trigger.  Up to `good`
the criterion costs nothing; from `bad` on it costs its whole weight; between them the cost grows
linearly, or with the logarithm of the value if `log` is set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

GREEN: Final = 80
"""Scores at or above this are healthy."""
RED: Final = 50
"""Scores below need attention now."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The limits of one criterion; `weight` (0 to 1) is the largest share of the score it costs."""

    good: float
    bad: float
    weight: float
    log: bool = False

    def severity(self, value: float) -> float:
        """0 up to `good`, 1 from `bad` on."""
        if value <= self.good:
            return 0.0
        if value >= self.bad:
            return 1.0
        if self.log:
            least = max(self.good, 1e-9)
            return math.log(value / least) / math.log(self.bad / least)
        return (value - self.good) / (self.bad - self.good)


HOUR: Final = 3_600_000
DEFAULTS: Final[Mapping[str, Threshold]] = {
    # Per partition.
    "point_read_runs": Threshold(1.0, 3.0, 0.35),
    "full_read_runs": Threshold(0.8, 2.5, 0.40),
    "small_files": Threshold(3, 30, 0.45, log=True),
    "row_id_gaps": Threshold(3, 30, 0.30, log=True),
    "delete_rows": Threshold(0.1, 0.5, 0.20),
    "deletion_vectors": Threshold(0.1, 0.5, 0.25),
    "level_0_age": Threshold(2, 48, 0.15, log=True),
    "large_buckets": Threshold(1, 10, 0.15, log=True),
    # Per table.
    "freshness": Threshold(1, 6, 0.55, log=True),
    "expired_bytes": Threshold(0.25, 3, 0.30, log=True),
    "expired_snapshots": Threshold(20, 2000, 0.20, log=True),
    "held_bytes": Threshold(0.5, 5, 0.15, log=True),
    "consumer_lag": Threshold(1, 7, 0.25, log=True),
    "tags_due": Threshold(0, 3, 0.25),
    "partitions_due": Threshold(0, 20, 0.15),
    "stuck_partitions": Threshold(0, 10, 0.20),
    "small_buckets": Threshold(4, 64, 0.15, log=True),
    "bucket_count": Threshold(10_000, 50_000, 0.30, log=True),
    "unindexed_rows": Threshold(0, 0.2, 0.30),
    "orphans": Threshold(0.02, 0.5, 0.15),
    "manifests": Threshold(60, 1000, 0.20, log=True),
    "unknown_options": Threshold(0, 1, 0.05),
    "invalid_options": Threshold(0, 1, 0.25),
    "snapshot_gap": Threshold(0, 1, 0.80),
}
"""The criteria by name, with their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """All criteria for one table, and its goals.

    `freshness_millis`: the goal "level 0 is not older than this", None without one.  Consumer
    limits: a consumer that exceeds one of them is too far behind.
    """

    criteria: Mapping[str, Threshold] = field(default_factory=lambda: DEFAULTS)
    freshness_millis: int | None = None
    consumer_millis: int = 24 * HOUR
    consumer_snapshots: int | None = None
    consumer_bytes: int | None = None

    def of(self, name: str) -> Threshold:
        """The threshold of this criterion."""
        return self.criteria[name]

    def with_changes(self, changes: Mapping[str, Mapping[str, float]]) -> Thresholds:
        """These thresholds with other values for good, bad or weight of some criteria."""
        return replace(
            self,
            criteria={
                name: replace(known, **cast("dict[str, Any]", changes.get(name, {})))
                for name, known in self.criteria.items()
            },
        )
