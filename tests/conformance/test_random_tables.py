"""Random tables through random lives, in Java and here; either reads what the other wrote.

CARETAKER_SWEEP=200 tries 200 seeds for each version of Java instead of a few.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from random_tables import RandomTable, random_table
from replay import run_step

SEEDS = range(int(os.environ.get("CARETAKER_SWEEP", "4")))
NOTHING_TO_COMPACT = "org.apache.paimon.table.source.EndOfScanException"


def rows(answer: Any) -> list[str]:
    assert "error" not in answer, answer
    return sorted(json.dumps(r) for r in answer["rows"])


def values(answer: Any) -> list[str]:
    """Without kinds: which of +I and +U a merge leaves depends on when files were compacted."""
    assert "error" not in answer, answer
    return sorted(json.dumps(r[1:]) for r in answer["rows"])


def ask(oracle: Any, place: Any, step: Any) -> Any:
    """The answer; a compaction that found nothing to do is none that failed."""
    (answer,) = oracle([{**place, **step}], check=False)
    assert answer.get("type", NOTHING_TO_COMPACT) == NOTHING_TO_COMPACT, (step["op"], answer)
    return answer


def java_life(oracle: Any, table: RandomTable, place: dict[str, str]) -> list[Any]:
    """What Java reads after each step."""
    reads = []
    for step in table.build:
        ask(oracle, place, step)
        created = step["op"] in ("create_database", "create_table")
        reads.append(None if created else ask(oracle, place, {"op": "read"}))
    return reads


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_table(oracle, seed, tmp_path: Path):
    table = random_table(seed, oracle.version)
    theirs = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    ours = {**theirs, "warehouse": str(tmp_path / "ours")}
    reads = java_life(oracle, table, theirs)
    for snapshot in ask(oracle, theirs, {"op": "snapshots"})["snapshots"]:
        read = {"op": "read", "snapshot": snapshot["id"]}
        java = rows(ask(oracle, theirs, read))
        assert rows(run_step({**theirs, **read})) == java, (str(table), snapshot["id"])
    for step, java in zip(table.build, reads, strict=True):
        answer = run_step({**ours, **step})
        assert "error" not in answer, (str(table), step["op"], answer)
        if java is not None:
            after = values(run_step({**ours, "op": "read"}))
            assert after == values(java), (str(table), step["op"])
    for snapshot in run_step({**ours, "op": "snapshots"})["snapshots"]:
        read = {"op": "read", "snapshot": snapshot["id"]}
        java = rows(ask(oracle, ours, read))
        assert java == rows(run_step({**ours, **read})), (str(table), snapshot["id"])
    # Java goes on where we stopped, and we read that.
    for step in (next(s for s in table.build[::-1] if s["op"] == "write"), {"op": "compact"}):
        ask(oracle, ours, step)
    java = rows(ask(oracle, ours, {"op": "read"}))
    assert rows(run_step({**ours, "op": "read"})) == java, str(table)
