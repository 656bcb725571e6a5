"""Rows beyond `record-level.expire-time` go when Java's compaction would let them go."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from replay import run_step

from oracle import Oracle

DAY = 86_400
TYPES = {
    "seconds": ("INT", lambda s: s),
    "long_seconds": ("BIGINT", lambda s: s),
    "millis": ("BIGINT", lambda s: s * 1000 + 999),
    "timestamp": ("TIMESTAMP(6)", lambda s: time.strftime("%Y-%m-%dT%H:%M:%S.5", time.gmtime(s))),
    "ltz": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        lambda s: time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(s)),
    ),
}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "full": {"changelog-producer": "full-compaction"},
    "lookup": {"changelog-producer": "lookup", "compaction.size-ratio": "-99"},
    "first": {"merge-engine": "first-row", "compaction.size-ratio": "-99"},
    "sum": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "changelog-producer": "lookup",
        "compaction.size-ratio": "-99",
    },
}


def steps(kind: str, time_type: str) -> list[dict[str, Any]]:
    sql, at = TYPES[time_type]
    now = int(time.time())
    old, new = at(now - 40 * DAY), at(now - 2 * DAY)

    def write(*rows: list[Any]) -> dict[str, Any]:
        return {"op": "write", "rows": list(rows)}

    def compact(*, full: bool) -> dict[str, Any]:
        return {"op": "compact", "full": full}

    expiring = {"key": "record-level.expire-time", "value": "30 d"}
    return [
        {
            "op": "create_table",
            "columns": [
                {"name": "k", "type": "INT NOT NULL"},
                {"name": "v", "type": "INT"},
                {"name": "t", "type": sql},
            ],
            "primary_keys": ["k"],
            "options": {
                "bucket": "1",
                "write-only": "true",
                "num-sorted-run.compaction-trigger": "30",
                "num-levels": "6",
                "record-level.time-field": "t",
                # A file of mere kilobytes counts as large, so that it can move up as it is.
                "target-file-size": "1 kb",
            }
            | KINDS[kind],
        },
        write([1, 1, old], [2, 1, new], [3, 1, None], [4, 1, old], [5, 1, old]),
        compact(full=True),
        {"op": "alter_table", "changes": [{"change": "set_option", **expiring}]},
        # Above lie expired rows of keys that come again, and of some that do not.
        write([1, 2, new], [2, 2, old], [6, 1, old], [7, 1, new]),
        compact(full=False),
        write([4, 3, old], [8, 3, None]),
        write([9, 3, old]),
        compact(full=False),
        write([20, 3, new]),
        compact(full=True),
        # Only the top level is left: its files are rewritten if they hold what is expired.
        compact(full=True),
    ]


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize(
    ("kind", "time_type"), [*((k, "seconds") for k in KINDS), *(("plain", t) for t in TYPES)]
)
def test_the_same_rows_expire(
    kind: str, time_type: str, oracle_1_4_2: Oracle, tmp_path: Path
) -> None:
    theirs = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    ours = {"warehouse": str(tmp_path / "ours"), "database": "db", "table": "t"}
    script = steps(kind, time_type)
    stream = {"op": "stream_read", "from": 1}
    java = oracle_1_4_2(
        [
            {**theirs, **s}
            for step in script
            for s in (step, {"op": "read"} if step["op"] == "compact" else None)
            if s
        ]
        + [{**theirs, **stream}]
    )
    reads = [a["rows"] for a in java if a["op"] == "read"]
    for step in script:
        result = run_step({**ours, **step})
        assert "error" not in result, result
        if step["op"] == "compact":
            assert run_step({**ours, "op": "read"})["rows"] == reads.pop(0)
    mine = run_step({**ours, **stream})
    assert [p["rows"] for p in mine["plans"]] == [p["rows"] for p in java[-1]["plans"]]
    keys = {row[1] for row in run_step({**ours, "op": "read"})["rows"]}
    # Rows go before they are merged, so key 2 is there again as it was before; but first-row still
    # knows the expired row of key 1 when the next one comes.
    assert keys == {1, 2, 3, 7, 8, 20} - ({1} if kind == "first" else set())
