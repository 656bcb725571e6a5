"""The steps that built the golden tables, run over our core: the same rows at each step.

Then both versions of Java read the result, at every snapshot, and continue: it writes, compacts
and expires, and we read that.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from oracle import Oracle

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = sorted(p.parent.name for p in (GOLDEN / "1.4.2").glob("*/expected.json"))
BY_2_0 = {"seq_field_desc"}
"""1.4.2's writers leave the wrong row of several with one key in one commit; ours are as 2.0's."""
IN_ORDER = {"postpone"}
"""The oracle replays postponed files in any order, Flink and we in that of their creation."""
OTHER_CUTS = {"expired", "expired_tag_consumer", "levels", "dedup_per_level"}
"""Encoded sizes decide when they are compacted."""
OTHER_HINT = {"tags_branches_ff"}
"""Java's fast-forward leaves EARLIEST behind at a snapshot that is no longer the first; ours not."""

Row = list[Any]


@dataclass(frozen=True)
class Replayed:
    """Our table, and the snapshot after each step; None after steps that made none."""

    at: dict[str, str]
    steps: list[dict[str, Any]]
    results: list[dict[str, Any]]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Replayed]:
    @cache
    def get(name: str) -> Replayed:
        at = {"warehouse": str(tmp_path_factory.mktemp(name)), "database": "db", "table": "t"}
        steps = expected(name)["build"]
        results = [run_step({**step, **at}) for step in steps]
        failed = [r for r in results if "error" in r]
        assert not failed, failed
        return Replayed(at, steps, results)

    return get


@cache
def expected(name: str) -> dict[str, Any]:
    version = "2.0.0" if name in BY_2_0 else "1.4.2"
    told: dict[str, Any] = json.loads((GOLDEN / version / name / "expected.json").read_text())
    return told


def last_write_wins(steps: list[dict[str, Any]], until: int) -> list[Row]:
    """The rows of a deduplicate table with key k, by the steps up to a compaction."""
    rows: dict[Any, dict[str, Any]] = {}
    for step in steps[:until]:
        if step["op"] == "write":
            rows |= {row["values"][0]: row for row in step["rows"]}
    kept = [[r["kind"], *r["values"]] for r in rows.values() if r["kind"] in ("+I", "+U")]
    return sorted(kept, key=lambda row: json.dumps(row, separators=(",", ":")))


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_rows_at_each_step(name: str, replayed: Callable[[str], Replayed]) -> None:
    ours, java = replayed(name), expected(name)
    reads, compared = java["reads"], 0
    postponed: list[Row] | None = None
    for number, (step, result, told) in enumerate(
        zip(ours.steps, ours.results, java["build_results"], strict=True)
    ):
        mine, theirs = result.get("snapshot"), told.get("snapshot")
        if mine is None and theirs is None:
            continue
        if name not in OTHER_CUTS:
            assert mine == theirs, (number, step["op"])
        if name in IN_ORDER and step["op"] == "compact":
            postponed = last_write_wins(ours.steps, number)
        read = run_step({"op": "read", "snapshot": mine, **ours.at})
        if f"snapshot-{theirs}" not in reads or read.get("type") == "NotFound":
            continue  # expired, or rolled back, on one of the two sides
        rows = reads[f"snapshot-{theirs}"]["rows"] if postponed is None else postponed
        assert read["rows"] == rows, (number, step["op"])
        compared += 1
    for what, told in reads.items():
        kind, _, which = what.partition("-")
        if kind != "snapshot":
            read = run_step({"op": "read", **ours.at, **({kind: which} if which else {})})
            rows = told["rows"] if postponed is None else postponed
            assert (read["columns"], read["types"]) == (told["columns"], told["types"])
            assert read["rows"] == rows, what
            compared += 1
    assert compared


@pytest.mark.sampled
@pytest.mark.parametrize("name", [n for n in NAMES if n not in OTHER_CUTS | IN_ORDER | OTHER_HINT])
def test_changes_of_each_step(name: str, replayed: Callable[[str], Replayed]) -> None:
    """Streams and changelogs of our table are those of Java's, where snapshots have its numbers."""
    ours, java = replayed(name), expected(name)
    for which, told in (java.get("stream") or {}).items():
        first = int(which.removeprefix("from-"))
        mine = run_step({"op": "stream_read", "from": first, **ours.at})
        if mine.get("type") == "NotFound":
            continue  # where Java's own expiry after each commit left other changelogs
        assert mine.get("plans") == told["plans"], (which, mine.get("error"))


def test_a_branch_has_a_schema_of_its_own(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "INT"}]
    add = {"change": "add_column", "name": "n", "type": "STRING"}
    steps: list[dict[str, Any]] = [
        {"op": "create_table", "columns": columns, "primary_keys": ["k"], "options": {"bucket": 1}},
        {"op": "write", "rows": [[1, 1]]},
        {"op": "create_branch", "name": "b"},
        {"op": "alter_table", "branch": "b", "changes": [add]},
        {"op": "write", "branch": "b", "rows": [[2, 2, "new"]]},
        {"op": "write", "rows": [[3, 3]]},
    ]
    assert [r for r in [run_step({**at, **step}) for step in steps] if "error" in r] == []
    assert run_step({**at, "op": "read"})["rows"] == [["+I", 1, 1], ["+I", 3, 3]]
    assert run_step({**at, "op": "read", "branch": "b"})["rows"] == [["+I", 2, 2, "new"]]


# --- Java on our table ----------------------------------------------------------------------------


def snapshot_ids(at: dict[str, str]) -> list[int]:
    return [s["id"] for s in run_step({"op": "snapshots", **at})["snapshots"]]


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", NAMES)
def test_java_reads_it_and_goes_on(
    name: str, oracle: Oracle, replayed: Callable[[str], Replayed], tmp_path: Path
) -> None:
    ours = replayed(name)
    shutil.copytree(ours.at["warehouse"], tmp_path, dirs_exist_ok=True)
    at = {**ours.at, "warehouse": str(tmp_path)}
    oracle.defaults(**at)
    ids = snapshot_ids(at)
    steps: list[dict[str, Any]] = [{"op": "read"}]
    steps += [{"op": "read", "snapshot": i} for i in ids]
    again = next(s for s in reversed(ours.steps) if s["op"] == "write")
    goes_on = [{**again, "commit_user": "java", "branch": None}]
    goes_on += [s for s in ours.steps if s["op"] == "compact"][:1]
    expire = {
        "op": "expire_snapshots",
        "retain_max": 2,
        "retain_min": 1,
        "time_retained": "1 ms",
    }
    read = [run_step({**step, **at}) for step in steps]
    answers = oracle([*steps, *goes_on, {"op": "read"}, expire, {"op": "read"}])
    for step, our, answer in zip(steps, read, answers, strict=False):
        assert our["rows"] == answer["rows"], step
    after = run_step({"op": "read", **at})
    assert after.get("rows") == answers[-1]["rows"] == answers[-3]["rows"], after.get("error")
