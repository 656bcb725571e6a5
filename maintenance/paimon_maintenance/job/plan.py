"""The interface of plans: what a job will change, what it keeps, and why.

A plan is pinned to the *content* of one snapshot (a rollback reuses ids), runs at most once, and
has a text form (`lines`) and a JSON form (`to_json`).  Each job defines its own frozen plan class;
runner, guards and CLI use the protocol `Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from paimon_core.errors import StalePlan
from paimon_core.snapshot.snapshot import Snapshot
from paimon_maintenance.job.arguments import shown_arguments
from paimon_maintenance.job.text import human_bytes

T = TypeVar("T")
MOST_PRINTED: Final = 20
"""Lines of a list that a plan prints; its JSON has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPin:
    """The snapshot that a plan starts from: id, commit user, identifier, kind and time (ms)."""

    id: int
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotPin:
        """The pin of the snapshot."""
        return cls(
            id=snapshot.id,
            commit_user=snapshot.commit_user,
            commit_identifier=snapshot.commit_identifier,
            commit_kind=str(snapshot.commit_kind),
            time_millis=snapshot.time_millis,
        )

    def matches(self, snapshot: Snapshot) -> bool:
        """Whether this is the pinned snapshot, not another one with the same id."""
        return self == SnapshotPin.of(snapshot)

    def to_json(self) -> dict[str, object]:
        """The pin as JSON."""
        return {
            "id": self.id,
            "commit_user": self.commit_user,
            "commit_identifier": self.commit_identifier,
            "commit_kind": self.commit_kind,
            "time_millis": self.time_millis,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Something that a plan keeps, and the reason.

    `why` names the option, argument or reference ("partition_idle_time",
    "snapshot.num-retained.min", "tag X"), so that an operator knows what to change.
    """

    what: str
    why: str
    count: int = 1
    bytes: int | None = None

    def to_json(self) -> dict[str, object]:
        """The entry as JSON."""
        return {"what": self.what, "why": self.why, "count": self.count, "bytes": self.bytes}

    def line(self) -> str:
        """The entry as text, with the number and the size if there are several."""
        several = self.count > 1 or (self.count == 1 and self.what.split()[0].endswith("s"))
        amounts = [f"{self.count:,}"] if several else []
        amounts += [human_bytes(self.bytes)] if self.bytes is not None else []
        amount = f" ({', '.join(amounts)})" if amounts else ""
        return f"keep {self.what}{amount}: {self.why}"


def retained_files(held: Mapping[str, tuple[int, int]]) -> list[Retained]:
    """One entry per reference that keeps files; `held` maps its label to their number and bytes."""
    return [
        Retained(what="files", why=label, count=count, bytes=size)
        for label, (count, size) in held.items()
    ]


class LossKind(StrEnum):
    """The kind of a loss; guards check each kind separately."""

    FILES = "data files"
    BYTES = "bytes of data files"
    METADATA = "metadata files"
    SNAPSHOTS = "snapshots"
    CHANGELOGS = "changelogs"
    TAGS = "tags"
    BRANCHES = "branches"


@dataclass(frozen=True, slots=True)
class Loss:
    """The amount of one kind that a plan deletes, and the total amount.

    `whole` is None if a share means nothing: an expiry frees superseded files, regardless of how
    many are live.  `exact`: the share counts even for small numbers.
    """

    kind: LossKind
    part: int
    whole: int | None = None
    exact: bool = False

    def to_json(self) -> dict[str, object]:
        """The loss as JSON."""
        return {"kind": str(self.kind), "part": self.part, "whole": self.whole}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How much a plan changes.

    Rewritten files are replaced by files with the same rows.  Deleted files are removed from
    storage, or from the newest snapshot, without a replacement.  They are of any kind, so guards
    check `losses` instead.  `table_files` and `table_bytes` are the data files of the newest
    snapshot.  `needed` names deleted files that the newest snapshot needs: a correct plan has none.
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
        """The effect as JSON."""
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
    """A permit to execute a plan once.

    It does not affect the equality of plans and does not appear in their output.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = False

    def take(self, table: str) -> None:
        """Take the permit; StalePlan if it is already taken."""
        if self._taken:
            raise StalePlan("this plan has already been executed; make a new plan", table=table)
        self._taken = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleUse)

    def __hash__(self) -> int:
        return hash(SingleUse)


class Plan(Protocol):
    """The interface of a plan for runner, guards and CLI."""

    @property
    def table(self) -> str:
        """The table name: "database.table"."""

    @property
    def pin(self) -> SnapshotPin | None:
        """The snapshot that the plan starts from; None for a table without snapshots."""

    @property
    def once(self) -> SingleUse:
        """The permit, taken right before execution."""

    @property
    def is_empty(self) -> bool:
        """Whether the plan has no work."""

    @property
    def failure(self) -> Exception | None:
        """The error of a part that could not be planned; None for a complete plan."""

    @property
    def goes_on(self) -> bool:
        """Whether more work is due after the plan, which needs another plan."""

    @property
    def effect(self) -> Effect:
        """How much the plan changes."""

    @property
    def kept(self) -> Sequence[Retained]:
        """What the plan keeps, and why."""

    def to_json(self) -> Mapping[str, object]:
        """The plan as one JSON object; its long lists are lazy (`LazyList`)."""

    def lines(self) -> Iterator[str]:
        """The plan as text lines, most important first."""


def plan_json(
    plan: Plan, job: str, arguments: Mapping[str, object], **own: object
) -> dict[str, object]:
    """The JSON form of a plan: what all plans say, and what only this job's plans say."""
    return {
        "job": job,
        "table": plan.table,
        "arguments": shown_arguments(arguments),
        "snapshot": None if plan.pin is None else plan.pin.to_json(),
        "empty": plan.is_empty,
        "effect": plan.effect.to_json(),
        **own,
        "kept": [kept.to_json() for kept in plan.kept],
    }


def shortened(lines: Sequence[T], text: Callable[[T], str], *, noun: str) -> Iterator[str]:
    """The first lines of a long list, indented, and how many more there are."""
    for line in lines[:MOST_PRINTED]:
        yield f"  {text(line)}"
    if len(lines) > MOST_PRINTED:
        yield f"  ... and {len(lines) - MOST_PRINTED:,} more{' ' if noun else ''}{noun}"


def source_text(plan: Plan) -> str:
    """The snapshot that the plan starts from, for the first line of a plan."""
    return "no snapshot" if plan.pin is None else f"snapshot {plan.pin.id}"
