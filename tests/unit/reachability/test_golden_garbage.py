"""On every golden table: what goes with all but the newest snapshot, found both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from disk import needed_by, on_disk

from paimon_core.reachability.files import Metadata
from paimon_core.reachability.garbage import find_garbage
from paimon_core.reachability.mentioned import Mentioned
from paimon_core.reachability.name_set import NameSet
from paimon_core.reachability.references import RefKind, all_references, without
from paimon_core.table.open import open_table

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = sorted(
    f"{p.parent.name}/{p.name}" for p in GOLDEN.glob("*/*") if (p / "warehouse").is_dir()
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLES)
def test_both_ways(name: str) -> None:
    table = open_table(str(GOLDEN / name / "warehouse"), "db.t")
    references = all_references(table)
    newest = table.snapshots.latest_id() or 0
    for kinds in ((RefKind.SNAPSHOT,), tuple(RefKind)):
        going = [
            r
            for r in references
            if r.table.branch == "main" and r.kind in kinds and r.snapshot.id < newest
        ]
        staying = without(references, going)
        quick = {f.path for f in find_garbage(table, going, staying, Metadata(table)).files}
        assert quick == needed_by(table, going) - needed_by(table, staying)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLES)
def test_nothing_needed_is_an_orphan(name: str) -> None:
    table = open_table(str(GOLDEN / name / "warehouse"), "db.t")
    needed = {Path(p).name for p in needed_by(table, all_references(table))}
    there = {Path(p).name for p in on_disk(Path(table.root))}
    mentioned = Mentioned(table, NameSet.of(there))
    mentioned.look()
    left = {n for n in there if n in mentioned.candidates}
    assert not left & needed
    assert bool(left) == (name.partition("/")[2] in {"orphans", "rollback", "tags_branches_ff"}), (
        left
    )
