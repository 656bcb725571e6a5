"""What every plan has: data that says what will happen, what stays and why.

A plan is made from one snapshot and pinned to that snapshot's *content* (rollback reuses ids), is
executed at most once, prints itself for people (`lines`) and for programs (`to_json`).  Each job
defines its own frozen plan class; `Plan` is the protocol that runner, guards and CLI rely on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from paimon_core.errors import StalePlan
from paimon_core.snapshot.snapshot import Snapshot

_UNIT = 1024
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def human_bytes(size: float) -> str:
    """A size in the largest unit that keeps it at least 1: "1.5 GB", "312 B"."""
    unit = 0
    while abs(size) >= _UNIT and unit < len(_UNITS) - 1:
        size /= _UNIT
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def counted(number: int, plural: str) -> str:
    """The number with its noun: "1 file", "1,204 files", "1 branch"; `plural` ends with an s."""
    if number == 1:
        plural = plural.removesuffix("es" if plural.endswith("ches") else "s")
    return f"{number:,} {plural}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPin:
    """Which snapshot a plan was made from: id, commit user, identifier, kind and time (ms)."""

    id: int
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotPin:
        """The pin of this snapshot."""
        return cls(
            id=snapshot.id,
            commit_user=snapshot.commit_user,
            commit_identifier=snapshot.commit_identifier,
            commit_kind=str(snapshot.commit_kind),
            time_millis=snapshot.time_millis,
        )

    def matches(self, snapshot: Snapshot) -> bool:
        """Whether this is still the same snapshot, and not another one that reused its id."""
        return self == SnapshotPin.of(snapshot)

    def to_json(self) -> dict[str, object]:
        """The pin as plans and reports print it."""
        return {
            "id": self.id,
            "commit_user": self.commit_user,
            "commit_identifier": self.commit_identifier,
            "commit_kind": self.commit_kind,
            "time_millis": self.time_millis,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Something that a plan leaves alone: how much of it, and the rule that keeps it.

    `why` names the rule in the words of the options and arguments ("partition_idle_time",
    "snapshot.num-retained.min", "tag X"), so that an operator knows what to change.
    """

    what: str
    why: str
    count: int = 1
    bytes: int | None = None

    def to_json(self) -> dict[str, object]:
        """The reason as plans print it."""
        return {"what": self.what, "why": self.why, "count": self.count, "bytes": self.bytes}

    def line(self) -> str:
        """The reason for people: how many, where that is not said by the name of the one."""
        several = self.count > 1 or (self.count == 1 and self.what.split()[0].endswith("s"))
        amounts = [f"{self.count:,}"] if several else []
        amounts += [human_bytes(self.bytes)] if self.bytes is not None else []
        amount = f" ({', '.join(amounts)})" if amounts else ""
        return f"keep {self.what}{amount}: {self.why}"


def retained_files(held: Mapping[str, tuple[int, int]]) -> list[Retained]:
    """Files that stay because a reference needs them, from its label to their number and bytes."""
    return [
        Retained(what="files", why=label, count=count, bytes=size)
        for label, (count, size) in held.items()
    ]


class LossKind(StrEnum):
    """A kind of thing that a plan can take away; guards compare like with like."""

    FILES = "data files"
    BYTES = "bytes of data files"
    METADATA = "metadata files"
    SNAPSHOTS = "snapshots"
    CHANGELOGS = "changelogs"
    TAGS = "tags"
    BRANCHES = "branches"


@dataclass(frozen=True, slots=True)
class Loss:
    """How much of one kind of thing is gone after the plan, of how much there is now.

    `whole` is None where no share means anything: an expiry frees whatever has been superseded,
    however little of it is live.  `exact`: the share counts however few there are.
    """

    kind: LossKind
    part: int
    whole: int | None = None
    exact: bool = False

    def to_json(self) -> dict[str, object]:
        """The loss as plans print it."""
        return {"kind": str(self.kind), "part": self.part, "whole": self.whole}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How much a plan touches.

    Rewritten files are replaced by others with the same rows.  Deleted files are gone from storage,
    or for readers of the newest snapshot, with nothing in their place; they are of any kind, so
    guards look at `losses` instead.  `table_files` and `table_bytes` are the data files that the
    newest snapshot reads.  `needed` names files that the plan would delete although the newest
    snapshot needs them: with a sound plan there are none.
    """

    rewritten_files: int = 0
    rewritten_bytes: int = 0
    deleted_files: int = 0
    deleted_bytes: int = 0
    table_files: int = 0
    table_bytes: int = 0
    losses: tuple[Loss, ...] = ()
    needed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The effect as plans print it."""
        return {
            "rewritten_files": self.rewritten_files,
            "rewritten_bytes": self.rewritten_bytes,
            "deleted_files": self.deleted_files,
            "deleted_bytes": self.deleted_bytes,
            "table_files": self.table_files,
            "table_bytes": self.table_bytes,
            "losses": [loss.to_json() for loss in self.losses],
        }


class SingleUse:
    """The right to execute a plan, which can be taken a single time.

    Two plans never compare unequal because of it, and it is no part of what a plan prints.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = False

    def take(self, table: str) -> None:
        """Use the plan up; StalePlan if that happened before."""
        if self._taken:
            raise StalePlan("this plan was executed before; a plan is used once", table=table)
        self._taken = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleUse)

    def __hash__(self) -> int:
        return hash(SingleUse)


class Plan(Protocol):
    """What runner, guards and CLI need to know of any job's plan."""

    @property
    def table(self) -> str:
        """The table: "database.table"."""

    @property
    def pin(self) -> SnapshotPin | None:
        """The snapshot that the plan was made from; None when the table had none."""

    @property
    def once(self) -> SingleUse:
        """Taken right before the plan is executed."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""

    @property
    def failure(self) -> Exception | None:
        """Why a part of the plan could not be made; None for a plan that is made as a whole."""

    @property
    def goes_on(self) -> bool:
        """Whether its execution makes more work due, which needs a plan of its own."""

    @property
    def effect(self) -> Effect:
        """How much the plan touches."""

    @property
    def kept(self) -> Sequence[Retained]:
        """What stays, and why."""

    def to_json(self) -> Mapping[str, object]:
        """The whole plan as one JSON object."""

    def lines(self) -> Iterator[str]:
        """The plan for people, a line at a time, most important first."""
