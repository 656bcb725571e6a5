"""BatchScan reads by `scan.*` and `incremental-*` options, as Java reads with the same options."""

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
from paimon_core.table.source.batch_scan import batch_scan_of, read_batch

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "d", "type": "DOUBLE"},
]
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "none": (["k"], {"bucket": "2"}),
    "full": (["k"], {"bucket": "1", "changelog-producer": "full-compaction"}),
    "vectors": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "sums": (
        ["k"],
        {"bucket": "1", "merge-engine": "aggregation", "fields.d.aggregate-function": "sum"},
    ),
    "append": ([], {"bucket": "-1"}),
    "append_vectors": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
}
DIFFERENT_IN_2_0 = ("none", "vectors", "append_vectors")
TAG_OPTIONS = {"tag.automatic-creation": "none", "tag.creation-period": "daily"}


def history(name: str) -> Iterator[dict[str, Any]]:
    keys, options = TABLES[name]
    write_only = {} if name == "vectors" else {"write-only": "true"}
    at = {"table": name}
    yield {
        "op": "create_table",
        "columns": COLUMNS,
        "primary_keys": keys,
        "options": {**options, **write_only, **TAG_OPTIONS},
        **at,
    }

    def write(rows: list[Any], **more: Any) -> dict[str, Any]:
        return {"op": "write", "rows": rows, "compact": name == "vectors", **at, **more}

    yield write([[1, "a", 1.5], [2, "b", 2.5], [3, "c", None]], identifier=1, commit_user="w")
    yield write([[2, "B", 0.5], [4, "d", 4.5]], identifier=2, commit_user="w", watermark=100)
    yield {"op": "create_tag", "name": "2024-01-01", **at}
    if not keys:
        yield write([[5, "e", 5.5]], watermark=200)
    else:
        gone = {"kind": "-D", "values": [1, "a", 1.5]}
        yield write([[5, "e", 5.5], gone], watermark=200)
    yield {"op": "compact", **at}
    yield {"op": "create_tag", "name": "2024-01-02", **at}
    yield write([[3, "c", None], [6, "f", 6.5], [2, "B", 0.5]], watermark=300)
    yield {"op": "create_tag", "name": "manual", **at}
    yield {"op": "overwrite", "rows": [[7, "g", 7.5], [2, "b", 2.5]], "partition": {}, **at}
    yield {"op": "create_tag", "name": "2024-01-04", **at}


def wanted(times: dict[int, int], *, keyed: bool) -> Iterator[dict[str, str]]:
    last = max(times)
    yield {}
    for mode in ("latest", "full", "latest-full", "compacted-full"):
        yield {"scan.mode": mode}
    if keyed:
        yield {"scan.mode": "compacted-full", "full-compaction.delta-commits": "2"}
    for watermark in (1, 101, 200, 300, 301):
        yield {"scan.watermark": str(watermark)}
    for version in ("watermark-150", "2024-01-01", "2", "nope"):
        yield {"scan.version": version}
    yield {"scan.snapshot-id": "2", "scan.mode": "from-snapshot-full"}
    yield {"scan.tag-name": "manual"}
    yield {"scan.snapshot-id": "99"}
    for millis in (times[1], times[3], times[last] + 1):
        yield {"scan.timestamp-millis": str(millis)}
        yield {"scan.creation-time-millis": str(millis)}
        yield {"scan.file-creation-time-millis": str(millis)}
    yield {"scan.timestamp": "2100-01-01 00:00:00"}
    for mode in ("auto", "delta", "changelog", "diff"):
        how = {"incremental-between-scan-mode": mode}
        for start, end in ((0, last), (1, 3), (1, last)):
            yield {"incremental-between": f"{start},{end}", **how}
        yield {"incremental-between-timestamp": f"{times[1]},{times[3]}", **how}
        tags = {"incremental-between": "2024-01-01,2024-01-02"}
        yield {**tags, **how, "incremental-between-tag-to-snapshot": "true"}
    for between in ("2,2", "3,2", "2,99", "1,nope"):
        yield {"incremental-between": between}
    yield {"incremental-between-timestamp": f"{times[1] - 9},{times[last] + 9}"}
    for first, second in (("01", "02"), ("01", "04"), ("02", "02"), ("04", "01")):
        yield {"incremental-between": f"2024-01-{first},2024-01-{second}"}
    for tag in ("2024-01-01", "2024-01-02", "2024-01-04", "2024-01-03", "manual"):
        yield {"incremental-to-auto-tag": tag}


def ours(warehouse: Path, name: str, options: dict[str, str]) -> list[Any] | str:
    try:
        table = open_table(str(warehouse), f"db.{name}", dynamic_options=options)
        batch = batch_scan_of(table)
        rows = list(rows_of(read_batch(batch), batch.table.schema.row_type, bits=False))
    except PaimonError as e:
        return f"{type(e).__name__}: {e}"
    return sorted(rows, key=json.dumps)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLES)
def test_batches_are_javas(name: str, oracle: Oracle, tmp_path: Path) -> None:
    if oracle.version != "1.4.2" and name not in DIFFERENT_IN_2_0:
        pytest.skip("both versions read it the same way")
    oracle.defaults(warehouse=tmp_path, database="db")
    oracle([{"op": "create_database"}, *history(name)])
    table = open_table(str(tmp_path), f"db.{name}")
    times = {s.id: s.time_millis for s in table.snapshots.all()}
    options = list(wanted(times, keyed=bool(TABLES[name][0])))
    answers = oracle([{"op": "read", "table": name, "options": o} for o in options], check=False)
    wrong = []
    refused = 0
    for asked, java in zip(options, answers, strict=True):
        mine = ours(tmp_path, name, asked)
        if "error" in java:
            refused += 1
            if not isinstance(mine, str):
                wrong.append((asked, "Java refuses: " + java["error"], mine))
        elif mine != sorted(java["rows"], key=json.dumps):
            wrong.append((asked, java["rows"], mine))
    assert not wrong, "\n".join(map(str, wrong))
    assert refused < len(options) / 2


def test_partitions_in_the_order_of_a_sorted_plan(oracle: Oracle, tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    columns = [{"name": "k", "type": "INT"}, {"name": "p", "type": "INT"}]
    columns.append({"name": "s", "type": "STRING"})
    options = {"bucket": "-1", "scan.plan-sort-partition": "true"}
    oracle.one("create_table", columns=columns, partition_keys=["s", "p"], options=options)
    for s in ("b", "a", None, "é", "ab"):
        for p in (10, 9, None, -1):
            oracle.one("write", rows=[[0, p, s]], compact=False)
    theirs = [r[2:] for r in oracle.rows(sorted=False)]
    table = open_table(str(tmp_path), "db.t")
    ours_ = [
        r[2:] for r in rows_of(read_batch(batch_scan_of(table)), table.schema.row_type, bits=False)
    ]
    assert ours_ == theirs
    assert theirs[0] == [None, None]
