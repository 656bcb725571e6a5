"""The health score: 100 for a healthy table, less for each criterion that exceeds its threshold.

    score = 100 x product over all criteria of (1 - weight x severity)

So one severe problem is enough for a low score, several problems compound, and the score is never
negative.  A criterion of partitions counts with the mean of its severity in the worst partition and
its mean severity over all partitions, weighted by bytes.  Everything here is pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from paimon_maintenance.health.measurement import Measurement
from paimon_maintenance.health.reasons import Finding, partition_findings, table_findings
from paimon_maintenance.health.thresholds import GREEN, RED, Thresholds

_LEAST: Final = 0.005
"""Reasons that cost less than half a point are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a score is below 100: what the criterion alone costs, in points, and a sentence."""

    criterion: str
    points: float
    severity: float
    value: float
    text: str
    job: str | None = None

    def to_json(self) -> dict[str, object]:
        """The reason as JSON."""
        return {
            "criterion": self.criterion,
            "points": round(self.points, 1),
            "severity": round(self.severity, 3),
            "value": round(self.value, 4),
            "text": self.text,
            "job": self.job,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A score from 0 to 100 with its reasons, the worst first.

    `name` is a table or a partition.
    """

    name: str
    score: int
    reasons: tuple[Reason, ...] = ()
    partitions: tuple[Health, ...] = ()

    @property
    def color(self) -> str:
        """The color of the score: "green", "yellow" or "red"."""
        return "green" if self.score >= GREEN else "yellow" if self.score >= RED else "red"

    def to_json(self) -> dict[str, object]:
        """The health as JSON; only unhealthy partitions are listed."""
        return {
            "name": self.name,
            "score": self.score,
            "color": self.color,
            "reasons": [r.to_json() for r in self.reasons],
            "partitions": [p.to_json() for p in self.partitions if p.reasons],
        }


def health_of(table: Measurement, limits: Thresholds, now: int) -> Health:
    """The health of a table and of its partitions at `now`, milliseconds since the epoch."""
    size = sum(max(1, p.bytes) for p in table.partitions)
    worst: dict[str, tuple[float, Finding]] = {}
    means: dict[str, float] = {}
    partitions: list[Health] = []
    for partition in table.partitions:
        reasons = []
        for finding in partition_findings(table, partition, now):
            name = finding.criterion
            severity = limits.of(name).severity(finding.value)
            means[name] = means.get(name, 0.0) + severity * max(1, partition.bytes) / size
            if name not in worst or severity > worst[name][0]:
                worst[name] = (severity, finding)
            reasons.append(_reason(finding, severity, limits))
        partitions.append(_health(partition.name, reasons))
    reasons = [
        _reason(finding, (severity + means[name]) / 2, limits)
        for name, (severity, finding) in worst.items()
    ]
    reasons += [
        _reason(finding, limits.of(finding.criterion).severity(finding.value), limits)
        for finding in table_findings(table, limits, now)
    ]
    partitions.sort(key=lambda p: (p.score, p.name))
    return _health(table.table, reasons, tuple(partitions))


def _reason(finding: Finding, severity: float, limits: Thresholds) -> Reason:
    return Reason(
        criterion=finding.criterion,
        points=100 * limits.of(finding.criterion).weight * severity,
        severity=severity,
        value=finding.value,
        text=finding.text,
        job=finding.job,
    )


def _health(name: str, reasons: Iterable[Reason], partitions: tuple[Health, ...] = ()) -> Health:
    counting = [r for r in reasons if r.points >= 100 * _LEAST]
    share = math.prod(1 - r.points / 100 for r in counting)
    return Health(
        name=name,
        score=max(0, min(100, round(100 * share))),
        reasons=tuple(sorted(counting, key=lambda r: (-r.points, r.criterion))),
        partitions=partitions,
    )


def colors(found: Iterable[Health]) -> Mapping[str, int]:
    """How many of these are green, yellow and red."""
    counts = {"green": 0, "yellow": 0, "red": 0}
    for health in found:
        counts[health.color] += 1
    return counts
