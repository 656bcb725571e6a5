"""Golden tables are rescaled without a change of their rows, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, in_order, read_rows

GOLDEN = Path(__file__).parents[4] / "golden"
NAMES = sorted(
    (p.parent.parent.name, p.parent.name)
    for p in GOLDEN.glob("*/*/expected.json")
    if p.parent.parent.name == "1.4.2"
    # What the versions of Java write or read differently.
    or p.parent.name in ("deletion_vectors", "first_row", "seq_field_desc", "rescaled")
)
FEATURE = 4
REFUSED = {
    "append_unaware": "bucket=-1 (unaware buckets)",
    "dynamic_bucket": "bucket=-1 (dynamic buckets)",
    "row_tracking": "bucket=-1 (unaware buckets), row-tracking.enabled",
}
"""Tables without a number of buckets; others that begin so are of the same kind."""
UNTOLD = {"changelog_full_compaction", "changelog_lookup"}
"""Java left level-0 files whose changes are not in the changelog."""
LEVEL_0_SHOWS = {"deletion_vectors", "first_row"}
"""Batch reads skip level 0; rewritten rows show."""
BROKEN_BY_JAVA = {"orphans"}
"""Java's expiry took a changelog manifest list that a branch still names."""


def values(rows: list[list[Any]]) -> list[list[Any]]:
    return in_order([row[1:] for row in rows])


@pytest.mark.sampled
@pytest.mark.one_java
@pytest.mark.parametrize(("version", "name"), NAMES)
def test_rows_stay(golden: Any, version: str, name: str) -> None:
    table = golden(name, version, copy=True)
    files = caretaker("files", "db.t", "-w", table.warehouse, "--json")
    ran = caretaker(
        *("run", "rescale", "db.t", "-w", table.warehouse, "--engine", "local"),
        *("--bucket-num", "7", "--json"),
    )
    if ran.code == FEATURE:
        feature = ran.json["error"]["feature"]
        assert feature == REFUSED.get(name, "bucket=-1 (unaware buckets)")
        assert caretaker("files", "db.t", "-w", table.warehouse, "--json").out == files.out
        return
    if name in UNTOLD and ran.code not in (0, 3):
        assert "not in the changelog yet" in ran.json["error"]["message"]
        return
    assert ran.code == 0, ran.err
    latest = values(table.expected["reads"]["latest"]["rows"])
    found = values(read_rows(table.warehouse))
    if name in LEVEL_0_SHOWS:
        assert len(found) >= len(latest)
    else:
        assert found == latest
    live = caretaker("files", "db.t", "-w", table.warehouse, "--json").json["files"]
    assert {f["total_buckets"] for f in live} <= {7, -2}
    if name not in BROKEN_BY_JAVA:
        verified = caretaker("verify", "db.t", "-w", table.warehouse, "--json")
        assert verified.code == 0, verified.out
