"""Limits on what one run may do without an explicit override.

A guard never changes a plan: the plan passes, or the guard raises GuardTripped with the numbers and
the flag that overrides it.  Rewritten data is not lost, so only deletions count.

Each plan lists its losses by kind (`Effect.losses`).  A kind trips a guard if the plan deletes

- more than `max_deleted_share` of it, and more than a small number that is always allowed; or
- more than the absolute limit that the policy sets for it.

The allowed numbers keep ordinary runs green: a young table loses most of its few files, and an
hourly expiry keeps one of two hundred snapshots.  No flag overrides the last guard: a plan must not
delete files that the newest snapshot needs.  See decision 0023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from paimon_core.errors import GuardTripped, InvalidArgument
from paimon_core.options import parse_memory_size
from paimon_maintenance.job.plan import Effect, Loss, LossKind, Plan
from paimon_maintenance.job.text import human_bytes

DEFAULT_MAX_DELETED_SHARE: Final = 0.5
FREE: Final[Mapping[LossKind, int]] = {
    LossKind.FILES: 10,
    LossKind.BYTES: 128 * 1024**2,
    LossKind.METADATA: 1000,
    LossKind.SNAPSHOTS: 1000,
    LossKind.CHANGELOGS: 1000,
    LossKind.TAGS: 100,
    LossKind.BRANCHES: 10,
}
"""Number of each kind that a plan may delete regardless of the share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The limits of a run; None: no absolute limit.

    `max_deleted_share` is the maximum share (0 to 1) of each kind.  `max_deleted_snapshots` applies
    to snapshots, changelogs and tags separately, `max_deleted_files` to data files and to metadata
    files.  `max_rewrite_bytes` limits the bytes to rewrite.
    """

    max_deleted_share: float = DEFAULT_MAX_DELETED_SHARE
    max_deleted_snapshots: int | None = None
    max_deleted_files: int | None = None
    max_deleted_bytes: int | None = None
    max_rewrite_bytes: int | None = None

    def to_json(self) -> dict[str, object]:
        """The limits that are not the defaults, under the policy's names; sizes in bytes."""
        limits: dict[str, object] = {
            "max_deleted_share": self.max_deleted_share,
            "max_deleted_snapshots": self.max_deleted_snapshots,
            "max_deleted_files": self.max_deleted_files,
            "max_deleted_bytes": self.max_deleted_bytes,
            "max_rewrite": self.max_rewrite_bytes,
        }
        default = {"max_deleted_share": DEFAULT_MAX_DELETED_SHARE}
        return {name: limit for name, limit in limits.items() if limit != default.get(name)}

    @classmethod
    def from_json(cls, limits: Mapping[str, object]) -> Guards:
        """The guards that these limits mean, under the policy's names; None: the default.

        Sizes are bytes or texts such as "500 gb".  InvalidArgument names a limit that is unknown or
        cannot be read.
        """
        unknown = sorted(limits.keys() - _READERS.keys())
        if unknown:
            raise InvalidArgument(
                f"there is no guard {', '.join(map(repr, unknown))} (known: {', '.join(_READERS)})"
            )
        read = {name: _read(name, value) for name, value in limits.items() if value is not None}
        if "max_rewrite" in read:
            read["max_rewrite_bytes"] = read.pop("max_rewrite")
        return cls(**read)

    def is_looser_than(self, other: Guards) -> bool:
        """Whether this lets a run do something that the other guards stop."""
        mine, theirs = astuple(self), astuple(other)
        return any(
            limit is not None and (own is None or own > limit)
            for own, limit in zip(mine, theirs, strict=True)
        )

    def check(self, plan: Plan, *, force: bool) -> None:
        """Raise GuardTripped if the plan exceeds a limit and `force` is not set."""
        _check_needed(plan)
        tripped = self.reasons(plan)
        if tripped and not force:
            raise GuardTripped("; ".join(tripped), table=plan.table)

    def reasons(self, plan: Plan) -> list[str]:
        """One sentence per exceeded guard; empty if the plan passes."""
        effect = plan.effect
        return [
            *(reason for loss in effect.losses for reason in self._of_loss(loss)),
            *self._of_rewrite(effect),
        ]

    def _of_loss(self, loss: Loss) -> Iterator[str]:
        part, whole = _amount(loss.kind, loss.part), loss.whole
        if whole is not None and loss.part > (0 if loss.exact else FREE[loss.kind]):
            share = loss.part / whole if whole else 1.0
            if share > self.max_deleted_share:
                yield (
                    f"the plan deletes {part} of {_amount(loss.kind, whole)} {loss.kind} "
                    f"({share:.0%}), above the limit of {self.max_deleted_share:.0%} "
                    f"(max_deleted_share)"
                )
        name, limit = self._limit(loss.kind)
        if limit is not None and loss.part > limit:
            yield (
                f"the plan deletes {part} {loss.kind}, above the limit of "
                f"{_amount(loss.kind, limit)} ({name})"
            )

    def _limit(self, kind: LossKind) -> tuple[str, int | None]:
        if kind is LossKind.BYTES:
            return "max_deleted_bytes", self.max_deleted_bytes
        if kind in (LossKind.FILES, LossKind.METADATA):
            return "max_deleted_files", self.max_deleted_files
        if kind is LossKind.BRANCHES:
            return "", None
        return "max_deleted_snapshots", self.max_deleted_snapshots

    def _of_rewrite(self, effect: Effect) -> Iterator[str]:
        limit = self.max_rewrite_bytes
        if limit is not None and effect.rewritten_bytes > limit:
            yield (
                f"the plan rewrites {human_bytes(effect.rewritten_bytes)}, above the limit of "
                f"{human_bytes(limit)} (--max-rewrite)"
            )


def _share(raw: object) -> float:
    share = float(str(raw))
    if not 0 <= share <= 1:
        raise InvalidArgument(f"{raw} is not between 0 and 1")
    return share


def _count(raw: object) -> int:
    number = int(str(raw))
    if number < 0:
        raise InvalidArgument(f"{raw} is negative")
    return number


def _size(raw: object) -> int:
    return parse_memory_size(str(raw))


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "max_deleted_share": _share,
    "max_deleted_snapshots": _count,
    "max_deleted_files": _count,
    "max_deleted_bytes": _size,
    "max_rewrite": _size,
}


def _read(name: str, raw: object) -> Any:
    try:
        return _READERS[name](raw)
    except ValueError as e:  # InvalidArgument is one
        reason = e.message if isinstance(e, InvalidArgument) else str(e)
        word = "--max-rewrite" if name == "max_rewrite" else name
        raise InvalidArgument(f"argument {word}: {reason}") from e


def _check_needed(plan: Plan) -> None:
    """GuardTripped if the plan deletes files of the newest snapshot.

    `--force` does not override it.
    """
    needed = plan.effect.needed
    if needed:
        raise GuardTripped(
            f"the plan deletes {len(needed):,} files that the newest snapshot needs, for example "
            f"{needed[0]}",
            table=plan.table,
            file=needed[0],
            next_step="--force does not override this guard: run `caretaker verify` on the table and "
            "report a bug in Caretaker",
        )


def _amount(kind: LossKind, number: int) -> str:
    return human_bytes(number) if kind is LossKind.BYTES else f"{number:,}"
