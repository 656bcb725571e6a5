"""The changes of a run, for its report and for the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from paimon_maintenance.job.text import counted

T = TypeVar("T")
_NAMED: Final = 5
"""Number of names in a text; the JSON lists all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The net changes of a run, in order.

    `snapshots` are commits to the branch of the run.  `made` and `removed` are other metadata ("tag
    t", "snapshot 3 of branch b", "schema 2").  `unsure` names changes with an unknown outcome,
    because the storage did not answer.
    """

    snapshots: tuple[int, ...] = ()
    made: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    deleted_files: int = 0
    moved_files: int = 0
    unsure: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether the run certainly changed nothing."""
        return self == Changes()

    def since(self, earlier: Changes) -> Changes:
        """The changes of the run after these earlier ones."""

        def new(now: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
            known = set(before)
            return tuple(one for one in now if one not in known)

        return Changes(
            snapshots=new(self.snapshots, earlier.snapshots),
            made=new(self.made, earlier.made),
            removed=new(self.removed, earlier.removed),
            deleted_files=self.deleted_files - earlier.deleted_files,
            moved_files=self.moved_files - earlier.moved_files,
            unsure=new(self.unsure, earlier.unsure),
        )

    def to_json(self) -> dict[str, object]:
        """The changes as JSON for reports and the history."""
        return {
            "snapshots": list(self.snapshots),
            "made": list(self.made),
            "removed": list(self.removed),
            "deleted_files": self.deleted_files,
            "moved_files": self.moved_files,
            "unsure": list(self.unsure),
        }

    def text(self) -> str:
        """The changes as text: "committed snapshot 7; deleted 3 files"."""
        return text_of(self.to_json())


def text_of(changes: Mapping[str, object]) -> str:
    """The JSON of changes as text; "" if there are none."""

    def names(key: str) -> list[str]:
        found = changes.get(key)
        return [str(n) for n in found] if isinstance(found, list | tuple) else []

    def number(key: str) -> int:
        found = changes.get(key)
        return found if isinstance(found, int) else 0

    snapshots = names("snapshots")
    committed = f"snapshot{'s' if len(snapshots) > 1 else ''} {_listed(snapshots)}"
    parts = [
        f"committed {committed}" if snapshots else "",
        f"wrote {_listed(names('made'))}" if names("made") else "",
        f"removed {_listed(names('removed'))}" if names("removed") else "",
        f"deleted {counted(number('deleted_files'), 'files')}" if number("deleted_files") else "",
        f"moved {counted(number('moved_files'), 'files')}" if number("moved_files") else "",
        f"unknown: {_listed(names('unsure'))}" if names("unsure") else "",
    ]
    return "; ".join(part for part in parts if part)


def _listed(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
