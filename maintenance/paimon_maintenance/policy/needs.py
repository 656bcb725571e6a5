"""What a table needs, as a policy says it: goals, limits, windows, owner.  The scheduler reads it.

A rule sets some of them; later rules override earlier ones key by key.  Two options of the table
itself override the policy: `caretaker.maintenance` ("off": the scheduler leaves the table alone)
and `caretaker.owner`.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from paimon_maintenance.health.measurement import OWNER_OPTION
from paimon_maintenance.health.thresholds import Thresholds
from paimon_maintenance.job.opt_out import has_opted_out
from paimon_maintenance.policy.windows import Window

HOUR_MILLIS: Final = 3_600_000
DAY_MILLIS: Final = 24 * HOUR_MILLIS


class RescaleRule(StrEnum):
    """What the scheduler does about buckets of a wrong size."""

    OFF = "off"
    PROPOSE = "propose"
    IDLE = "idle"
    """Rescale partitions that have received no file for a day, unless that would stop a writer of
    others: then propose it."""


class OnCommit(StrEnum):
    """How the partitions that a commit changed are compacted right after it."""

    OFF = "off"
    MINOR = "minor"
    FULL = "full"


class Approval(StrEnum):
    """What waits until a person approves it."""

    RESCALE = "rescale"
    ROLLBACK = "rollback"
    FORCE = "force"
    """Runs that override guards."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What rules can match besides the name: the table's options and comment."""

    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @property
    def owner(self) -> str | None:
        """The owner, by the table's option `caretaker.owner`."""
        return self.options.get(OWNER_OPTION) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions of a rule besides names: all must hold.  Values are shell wildcards."""

    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    owner: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether names alone decide."""
        return not self.options and self.comment is None and self.owner is None

    def holds(self, table: TableFacts) -> bool:
        """Whether the table meets all conditions."""
        pairs = [
            *((table.options.get(k), v) for k, v in self.options.items()),
            *(((table.comment, self.comment),) if self.comment is not None else ()),
            *(((table.owner, self.owner),) if self.owner is not None else ()),
        ]
        return all(value is not None and fnmatch.fnmatchcase(value, p) for value, p in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNeeds:
    """The goals and limits of one table, after all rules.

    `windows`: when jobs that rewrite data may start; always without one.  `freshness_millis`: level
    0 is not older.  `max_red_millis`: how long the table may stay red before an alert.  `priority`
    multiplies the benefit of its jobs.  `approval`: what a person approves first.
    """

    scheduled: bool = True
    owner: str | None = None
    alerts: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    freshness_millis: int | None = None
    consumer_millis: int = DAY_MILLIS
    consumer_snapshots: int | None = None
    consumer_bytes: int | None = None
    rescale: RescaleRule = RescaleRule.PROPOSE
    max_red_millis: int = DAY_MILLIS
    priority: float = 1.0
    on_commit: OnCommit = OnCommit.OFF
    approval: tuple[Approval, ...] = ()
    criteria: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def thresholds(self) -> Thresholds:
        """The thresholds of the health score for this table."""
        return Thresholds(
            freshness_millis=self.freshness_millis,
            consumer_millis=self.consumer_millis,
            consumer_snapshots=self.consumer_snapshots,
            consumer_bytes=self.consumer_bytes,
        ).with_changes(self.criteria)

    def with_changes(self, changes: Mapping[str, Any]) -> TableNeeds:
        """These needs, overridden by those that a rule sets; criteria are merged."""
        criteria = {**self.criteria}
        for name, values in changes.get("criteria", {}).items():
            criteria[name] = {**criteria.get(name, {}), **values}
        return replace(self, **{**changes, "criteria": criteria})

    def of_table(self, facts: TableFacts) -> TableNeeds:
        """These needs, overridden by the options of the table."""
        found = replace(self, scheduled=False) if has_opted_out(facts.options) else self
        return replace(found, owner=facts.owner) if facts.owner else found

    def to_json(self) -> dict[str, object]:
        """The needs that differ from the defaults."""
        found: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != getattr(_DEFAULTS, one.name):
                found[one.name] = [w.text for w in value] if one.name == "windows" else value
        return found


_DEFAULTS: Final = TableNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTarget:
    """Where alerts go: a notifier of Airflow, and its arguments, which may be templates.

    `notifier` is "email", "webhook", or the import path of a BaseNotifier.
    """

    notifier: str
    arguments: Mapping[str, object] = field(default_factory=dict)


_MOST_OF_ROUND: Final = 10.0
"""The budgets that one round may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one round of the scheduler may spend; None means no limit.

    `seconds` are compute seconds as predicted, on average over many rounds; a single round takes at
    most `most_seconds` (None: ten times `seconds`), or one job.  `bytes` are bytes to rewrite,
    `applications` are runs whose work is for Spark.
    """

    seconds: float | None = 1800.0
    most_seconds: float | None = None
    bytes: int | None = None
    tables: int | None = None
    applications: int | None = None
    windows: tuple[Window, ...] = ()

    @property
    def round_seconds(self) -> float:
        """The seconds that one round takes at most, if it runs more than one job."""
        if self.seconds is None:
            return math.inf
        return self.most_seconds or _MOST_OF_ROUND * self.seconds

    def to_json(self) -> dict[str, object]:
        """The limits as JSON."""
        return {
            "seconds": self.seconds,
            "most_seconds": self.most_seconds,
            "bytes": self.bytes,
            "tables": self.tables,
            "applications": self.applications,
            "windows": [w.text for w in self.windows],
        }
