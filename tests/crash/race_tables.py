"""The tables of races.py: small ones, each with tags, a branch and the litter of a failed writer."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from evolving_tables import DELETING, delete_rows_of, groups_of, update_columns
from harness import do

from paimon_core.table.open import open_table

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
DAYS = ("2024-01-01", "2999-01-01")


def build(
    warehouse: Path, options: Mapping[str, str], *, keyed: bool = True, shared: bool = True
) -> None:
    """Six snapshots without the expired first ones, three tags, a branch of two commits.

    `shared`: whether the branch begins with a snapshot of main; otherwise both begin at 1.
    """
    do(
        warehouse,
        "create_table",
        columns=COLUMNS,
        primary_keys=["k", "dt"] if keyed else [],
        partition_keys=["dt"],
        options={"write-only": "true", **options},
    )
    _write(warehouse, 0)
    do(warehouse, "create_tag", name="old", snapshot=1)
    _write(warehouse, 1)
    do(warehouse, "create_tag", name="kept", snapshot=2)
    if "deletion-vectors.enabled" not in options:
        # Java's compactions expire tags, without a look at branches that share their files.
        do(warehouse, "create_tag", name="short", snapshot=1, time_retained="1 ms")
    do(warehouse, "compact", full=True)
    # The newest changelog is always kept, so `expire_changelogs` needs two of them.
    retained = 1 if "changelog-producer" in options else 2
    if shared:
        do(warehouse, "expire_snapshots", retain_max=retained, retain_min=retained)
    do(warehouse, "create_branch", name="b", **({"tag": "kept"} if shared else {}))
    for i in (20, 21):
        _write(warehouse, i, branch="b")
    for i in (2, 3, 4):
        _write(warehouse, i)
    _litter(warehouse)


def _write(warehouse: Path, number: int, **where: str) -> None:
    rows = [[number, f"v{number}", day] for day in DAYS] + [[100, f"v{number}", DAYS[0]]]
    do(warehouse, "write", rows=rows, **where)


def _litter(warehouse: Path) -> None:
    """Files that a failed writer left behind two days ago; all others are as old, too."""
    do(warehouse, "write", rows=[[77, "lost", DAYS[0]]], commit=False)
    _age(warehouse)


def _age(warehouse: Path) -> None:
    old = time.time() - 2 * 86_400
    for folder in (warehouse, outside_of(warehouse)):
        for path in folder.rglob("*"):
            if path.is_file():
                os.utime(path, (old, old))


def outside_of(warehouse: Path) -> Path:
    """The folder of data files outside the warehouse: the same one for a table and its copies."""
    return warehouse.parent / "outside"


def externally(*, keyed: bool) -> Callable[[Path], None]:
    def made(warehouse: Path) -> None:
        paths = {
            "data-file.external-paths": f"file://{outside_of(warehouse)}",
            "data-file.external-paths.strategy": "round-robin",
        }
        build(warehouse, {"bucket": "1" if keyed else "-1", **paths}, keyed=keyed)

    return made


def copy_table(source: Path, to: Path) -> Path:
    """A copy of a table; the one before it has lost the files outside."""
    outside, kept = outside_of(source), source.parent / "outside-as-made"
    if outside.exists() and not kept.exists():
        shutil.copytree(outside, kept)
    if kept.exists():
        shutil.rmtree(outside)
        shutil.copytree(kept, outside)
    return Path(shutil.copytree(source, to))


def keyed(**options: str) -> Callable[[Path], None]:
    return lambda warehouse: build(warehouse, {"bucket": "1", **options})


def apart() -> Callable[[Path], None]:
    return lambda warehouse: build(warehouse, {"bucket": "1"}, shared=False)


def appended(**options: str) -> Callable[[Path], None]:
    return lambda warehouse: build(warehouse, {"bucket": "-1", **options}, keyed=False)


def evolving(warehouse: Path) -> None:
    """Rows of the first day that have neighbouring ids, updates of columns, and deleted rows."""
    build(warehouse, {**DELETING, "write-only": "true"}, keyed=False)
    for i in (5, 6, 7):
        do(warehouse, "write", rows=[[i, f"v{i}", DAYS[0]]])
    for number in (0, -1):
        table = open_table(str(warehouse), "db.t")
        group = groups_of(table)[number]
        update_columns(table, group, v=["updated"] * group[0].file.row_count)
    table = open_table(str(warehouse), "db.t")
    delete_rows_of(table, groups_of(table)[2], [0])
    _age(warehouse)


LONG_CHANGELOGS = {"changelog.num-retained.min": "9", "changelog.num-retained.max": "99"}
POSTPONED = ("vectors", "postponed", "clustered", "indexed keys")
"""Tables whose rows show once they are compacted."""
TABLES: Mapping[str, Callable[[Path], None]] = {
    "primary key": keyed(),
    "branch of its own": apart(),
    "append": appended(),
    "vectors": keyed(**{"deletion-vectors.enabled": "true"}),
    "changelog": keyed(**{"changelog-producer": "input", **LONG_CHANGELOGS}),
}
ALL_TABLES: Mapping[str, Callable[[Path], None]] = {
    **TABLES,
    "postponed": keyed(bucket="-2"),
    "clustered": keyed(
        **{
            "deletion-vectors.enabled": "true",
            "pk-clustering-override": "true",
            "clustering.columns": "v",
        }
    ),
    "indexed keys": keyed(**{"deletion-vectors.enabled": "true", "pk-btree.index.columns": "v"}),
    "external": externally(keyed=True),
    "external append": externally(keyed=False),
    "data evolution": evolving,
}
