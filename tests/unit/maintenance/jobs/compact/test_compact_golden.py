"""Every golden table is compacted without a change of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker, in_order, read_rows

GOLDEN = Path(__file__).parents[4] / "golden"

NAMES = sorted((p.parent.parent.name, p.parent.name) for p in GOLDEN.glob("*/*/expected.json"))
BROKEN_BY_JAVA = {"orphans"}
"""Java's expiry took a changelog manifest list that a branch still names."""


def values(rows):
    return in_order([row[1:] for row in rows])


@pytest.mark.sampled
@pytest.mark.one_java
@pytest.mark.parametrize(("version", "name"), NAMES)
@pytest.mark.parametrize("strategy", ["full", "minor"])
def test_rows_stay_and_the_table_is_clean(golden, version, name, strategy):
    table = golden(name, version, copy=True)
    command = ["run", "compact", "db.t", "-w", table.warehouse, "--engine", "local", "--json"]
    ran = caretaker(*command, "--strategy", strategy)
    report = ran.json
    assert ran.code in (0, 3), ran.err
    # Compaction makes +I of +U, in Java too: the values are what must stay.
    if name != "postpone":  # where compaction is what makes rows visible
        latest = table.expected["reads"]["latest"]["rows"]
        assert values(read_rows(table.warehouse)) == values(latest)
    for read, java in table.expected["reads"].items():
        what, _, which = read.partition("-")
        if what in ("snapshot", "tag", "branch"):
            rows = read_rows(table.warehouse, f"--{what}", which)
            assert rows == in_order(java["rows"]), read
    if name not in BROKEN_BY_JAVA:
        verified = caretaker("verify", "db.t", "-w", table.warehouse, "--json")
        assert verified.code == 0, verified.out
    if ran.code == 0:
        assert report["after"]["files"] <= report["before"]["files"]
        *moved, snapshot = report["snapshots"]
        assert len(moved) == (name == "postpone" and strategy == "full")
        after = caretaker("files", "db.t", "-w", table.warehouse, "--json").json
        assert after["snapshot"] == snapshot
    if strategy == "full":
        second = caretaker(*command)
        assert second.code == 3, second.out
        assert second.json["status"] == "nothing_to_do"
