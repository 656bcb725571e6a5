"""Repairs: the table is broken before; after, no more is than a clean run leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import broken_tables
from harness import Case, State, do, rows
from lakes import Lake


def broken(name: str) -> Callable[[Path], None]:
    def build(warehouse: Path) -> None:
        lake = Lake(warehouse)
        broken_tables.sound(lake)
        broken_tables.CASES[name][0](lake)

    return build


def state(warehouse: Path) -> State:
    """What can be read of a table whose references may be unreadable."""
    root = warehouse / "db.db" / "t"
    return {
        "rows": rows(warehouse),
        "consumers": do(warehouse, "consumers")["consumers"],
        "references": sorted(
            p.name for d in ("snapshot", "tag") for p in (root / d).glob("[!.]*-*")
        ),
    }


CASES = {
    **{
        f"repair {name}": Case(
            job="repair",
            arguments={"repairs": [repair]},
            build=broken(name),
            state=state,
            leaves=True,
        )
        for name, (_, _, repair) in broken_tables.CASES.items()
    },
    "remove_unexisting_files": Case(
        job="remove_unexisting_files", build=broken("lost_file"), state=state, leaves=True
    ),
}
