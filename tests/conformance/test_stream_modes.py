"""Streams by options, and consumers that Java and we carry on for each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replay import rows_of

from oracle import Oracle
from paimon_core.errors import PaimonError
from paimon_core.table.open import open_table
from paimon_core.table.source.stream import stream_of

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "none": (["k"], {"bucket": "2", "write-only": "true"}),
    "full": (
        ["k"],
        {"bucket": "1", "changelog-producer": "full-compaction", "write-only": "true"},
    ),
    "append": ([], {"bucket": "-1", "write-only": "true"}),
}


def history(name: str) -> Iterator[dict[str, Any]]:
    keys, options = TABLES[name]
    yield {"op": "create_table", "columns": COLUMNS, "primary_keys": keys, "options": options}
    yield {"op": "write", "rows": [[1, "a"], [2, "b"]], "compact": False}
    yield {"op": "write", "rows": [[2, "B"], [3, "c"]], "compact": False, "watermark": 100}
    yield {"op": "compact"}
    yield {"op": "write", "rows": [[4, "d"]], "compact": False, "watermark": 200}
    yield {"op": "overwrite", "rows": [[5, "e"]], "partition": {}}
    yield {"op": "write", "rows": [[6, "f"]], "compact": False, "watermark": 300}
    yield {"op": "compact"}


def wanted(times: dict[int, int], *, keyed: bool) -> Iterator[dict[str, str]]:
    for mode in ("latest", "latest-full", "compacted-full"):
        yield {"scan.mode": mode}
    if keyed:
        yield {"scan.mode": "compacted-full", "full-compaction.delta-commits": "3"}
    for snapshot in ("1", "3", "7", "99"):
        yield {"scan.snapshot-id": snapshot}
        yield {"scan.snapshot-id": snapshot, "scan.mode": "from-snapshot-full"}
    for millis in (times[1] - 5, times[2], times[4], times[max(times)] + 5):
        yield {"scan.timestamp-millis": str(millis)}
        yield {"scan.file-creation-time-millis": str(millis)}
        yield {"scan.creation-time-millis": str(millis)}
    for bound in (99, 100, 250, 300):
        yield {"scan.bounded.watermark": str(bound)}
        yield {"scan.bounded.watermark": str(bound), "scan.snapshot-id": "1"}
        yield {"scan.bounded.watermark": str(bound), "scan.mode": "latest"}
    yield {"scan.watermark": "100"}
    yield {"incremental-between": "1,2"}
    yield {"scan.snapshot-id": "1", "streaming-read-append-overwrite": "true"}
    yield {"scan.snapshot-id": "1", "streaming-read-overwrite": "true"}
    yield {"consumer-id": "nobody", "scan.snapshot-id": "2"}
    yield {"consumer-id": "known", "scan.snapshot-id": "2"}
    yield {"consumer-id": "known", "consumer.ignore-progress": "true"}


def ours(warehouse: Path, options: dict[str, str], *, until: int, ack: bool = False) -> Any:
    try:
        table = open_table(str(warehouse), "db.t", dynamic_options=options)
        stream = stream_of(table)
        plans = []
        while stream.scan.next_snapshot is None or stream.scan.next_snapshot <= until:
            at = stream.scan.next_snapshot
            plan = stream.plan()
            if plan.ended:
                break
            rows = list(rows_of(stream.read(plan), table.schema.row_type, bits=False))
            plans.append([plan.next_snapshot, sorted(map(json.dumps, rows))])
            if plan.is_empty and stream.scan.next_snapshot == at:
                break
            if ack:
                stream.acknowledge(plan)
    except PaimonError as e:
        return f"{type(e).__name__}: {e}"
    return plans


def javas(answer: dict[str, Any]) -> Any:
    return [[p["next_snapshot"], sorted(map(json.dumps, p["rows"]))] for p in answer["plans"]]


@pytest.mark.parametrize("name", TABLES)
def test_streams_are_javas(name: str, oracle_1_4_2: Oracle, tmp_path: Path) -> None:
    oracle = oracle_1_4_2.defaults(warehouse=tmp_path, database="db", table="t")
    oracle([{"op": "create_database"}, *history(name)])
    oracle.one("set_consumer", id="known", next_snapshot=4)
    times = {s.id: s.time_millis for s in open_table(str(tmp_path), "db.t").snapshots.all()}
    until = max(times)
    options = list(wanted(times, keyed=name != "append"))
    answers = oracle([{"op": "stream_read", "options": o} for o in options], check=False)
    wrong = []
    for asked, java in zip(options, answers, strict=True):
        mine = ours(tmp_path, asked, until=until)
        if "error" in java:
            if not isinstance(mine, str):
                wrong.append((asked, "Java refuses: " + java["error"], mine))
        elif mine != javas(java):
            wrong.append((asked, javas(java), mine))
    assert not wrong, "\n".join(map(str, wrong))


def differences(oracle: Oracle, warehouse: Path, options: list[dict[str, str]]) -> list[Any]:
    """Where our streams with these options differ from Java's: options, Java's plans, ours."""
    until = open_table(str(warehouse), "db.t").snapshots.latest_id() or 0
    answers = oracle([{"op": "stream_read", "options": o} for o in options])
    both = (
        (o, javas(a), ours(warehouse, o, until=until))
        for o, a in zip(options, answers, strict=True)
    )
    return [
        (o, rows_only(java), rows_only(mine))
        for o, java, mine in both
        if rows_only(java) != rows_only(mine)
    ]


def rows_only(plans: Any) -> Any:
    return [p for p in plans if p[1]] if isinstance(plans, list) else plans


@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_streams_of_postponed_rows_are_javas(producer: str, oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    columns = [*COLUMNS, {"name": "p", "type": "INT NOT NULL"}]
    oracle(
        [
            {"op": "create_database"},
            {
                "op": "create_table",
                "columns": columns,
                "primary_keys": ["k", "p"],
                "partition_keys": ["p"],
                "options": {"bucket": "-2", "changelog-producer": producer},
            },
            {"op": "write", "rows": [[1, "a", 0], [2, "b", 1]]},
            {"op": "write", "rows": [{"kind": "-D", "values": [1, "a", 0]}, [3, "c", 1]]},
            {"op": "compact", "num_buckets": 2},
            {"op": "write", "rows": [[2, "B", 1], [4, "d", 0]]},
            {"op": "overwrite", "partition": {"p": "1"}, "rows": [[9, "z", 1]]},
            {"op": "write", "rows": [[5, "e", 0]]},
        ]
    )
    options = [{"scan.mode": "latest-full"}, {"scan.mode": "compacted-full"}]
    for snapshot in open_table(str(tmp_path), "db.t").snapshots.all():
        options.append({"scan.file-creation-time-millis": str(snapshot.time_millis)})
        for mode in ("from-snapshot", "from-snapshot-full"):
            start = {"scan.mode": mode, "scan.snapshot-id": str(snapshot.id)}
            options.append(start)
            if producer != "lookup":
                options.append({**start, "streaming-read-overwrite": "true"})
    assert not differences(oracle, tmp_path, options)


def test_streams_start_in_long_lived_changelogs_as_javas(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    kept = {"changelog.num-retained.max": "100", "changelog.num-retained.min": "10"}
    kept |= {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    made = {"bucket": "1", "changelog-producer": "input", "changelog.time-retained": "1 h", **kept}
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": made}
    writes = [{"op": "write", "rows": [[i, f"v{i}"]], "compact": False} for i in range(5)]
    oracle([{"op": "create_database"}, create, *writes])
    times = [s.time_millis for s in open_table(str(tmp_path), "db.t").snapshots.all()]
    soon = {"snapshot.time-retained": "1 ms"}
    oracle.one("expire_snapshots", as_commit=True, options=soon)
    table = open_table(str(tmp_path), "db.t")
    assert (table.changelogs.ids(), table.snapshots.ids()) == ([1, 2, 3, 4], [5])
    options = [
        {key: str(at + more)}
        for at in times
        for more in (-1, 0, 1)
        for key in ("scan.timestamp-millis", "scan.creation-time-millis")
    ]
    assert not differences(oracle, tmp_path, options)


def test_a_consumer_is_carried_on_in_turns(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    name, (keys, options) = "none", TABLES["none"]
    assert name in TABLES
    oracle(
        [
            {"op": "create_database"},
            {"op": "create_table", "columns": COLUMNS, "primary_keys": keys, "options": options},
        ]
    )
    told = {"consumer-id": "job"}
    seen: list[str] = []
    for turn in range(6):
        oracle.one("write", rows=[[turn, f"v{turn}"], [turn + 100, "x"]], compact=False)
        if turn % 3 == 1:
            oracle.one("compact")
        latest = open_table(str(tmp_path), "db.t").snapshots.latest_id() or 0
        if turn % 2:
            plans = javas(oracle.one("stream_read", options=told, ack=True, until=latest))
        else:
            plans = ours(tmp_path, told, until=latest, ack=True)
        seen += [row for _, rows in plans for row in rows]
        (kept,) = oracle.one("consumers")["consumers"].values() or [None]
        assert open_table(str(tmp_path), "db.t").consumers.get("job").next_snapshot == latest + 1
        assert str(latest + 1) in json.dumps(kept)
    assert sorted(seen) == sorted(
        json.dumps(["+I", k, v]) for t in range(6) for k, v in ((t, f"v{t}"), (t + 100, "x"))
    )
