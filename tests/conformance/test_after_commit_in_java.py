"""After the same commits with the same options, ours leaves the same versions as Java's writer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers

from oracle import Oracle
from paimon_core import Schema, Table, open_catalog

HOUR = 3_600_000
START = 1_704_067_200_000
"""2024-01-01 00:00:00 UTC."""


@dataclass(frozen=True)
class Case:
    """A table's options, and a step of the oracle's that both do before commit N."""

    options: dict[str, str]
    keys: tuple[str, ...] = ("k",)
    partitions: tuple[str, ...] = ()
    before: dict[int, dict[str, Any]] = field(default_factory=dict)
    commits: int = 5
    pause_before_last: float = 0


RETAIN_ONE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
HOURLY = {
    "tag.automatic-creation": "watermark",
    "tag.creation-period": "hourly",
    "sink.watermark-time-zone": "UTC",
}
CASES = {
    "one snapshot": Case(RETAIN_ONE),
    "one snapshot, append": Case(RETAIN_ONE | {"bucket": "-1"}, keys=()),
    "by number": Case({"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}),
    "by time": Case({"snapshot.num-retained.min": "3", "snapshot.time-retained": "1 ms"}),
    "not too many at once": Case(
        RETAIN_ONE | {"snapshot.expire.limit": "1", "num-sorted-run.compaction-trigger": "3"}
    ),
    "postponed": Case(
        RETAIN_ONE | HOURLY | {"bucket": "-2", "consumer.expiration-time": "1 ms"},
        before={3: {"op": "set_consumer", "id": "c", "next_snapshot": 2}},
    ),
    "write-only": Case(RETAIN_ONE | {"write-only": "true"}),
    "a consumer holds": Case(
        RETAIN_ONE, before={3: {"op": "set_consumer", "id": "c", "next_snapshot": 2}}
    ),
    "a consumer expires": Case(
        RETAIN_ONE | {"consumer.expiration-time": "1 ms"},
        before={3: {"op": "set_consumer", "id": "c", "next_snapshot": 2}},
    ),
    "changelogs live longer": Case(
        RETAIN_ONE
        | {
            "changelog-producer": "input",
            "changelog.num-retained.min": "3",
            "changelog.num-retained.max": "4",
        }
    ),
    "tags": Case(RETAIN_ONE | HOURLY | {"tag.num-retained-max": "3"}),
    "tags over their time": Case(
        RETAIN_ONE | HOURLY | {"tag.default-time-retained": "4 s"}, commits=3, pause_before_last=4.5
    ),
    "partitions": Case(
        RETAIN_ONE
        | {
            "partition.expiration-time": "1 d",
            "partition.expiration-check-interval": "0 ms",
            "partition.timestamp-formatter": "yyyyMMdd",
        },
        keys=("dt", "k"),
        partitions=("dt",),
    ),
    "partitions at the end of a batch only": Case(
        {
            "partition.expiration-time": "1 d",
            "end-input.check-partition-expire": "true",
            "partition.timestamp-formatter": "yyyyMMdd",
        },
        keys=("dt", "k"),
        partitions=("dt",),
    ),
}
COLUMNS = {"k": "INT", "v": "STRING", "dt": "STRING"}


def rows(number: int) -> list[dict[str, Any]]:
    day = "99991231" if number % 2 else "20240101"
    return [{"k": k, "v": f"{number}", "dt": day} for k in range(number, number + 3)]


def commit(table: Table, number: int) -> None:
    builder = table.new_stream_write_builder().with_commit_user("writer")
    with builder.new_write() as write, builder.new_commit() as one:
        write.write_dicts(rows(number))
        result = one.commit(
            write.prepare_commit(), number, watermark=START + number * HOUR + HOUR // 2
        )
        if result.maintained is not None:
            assert result.maintained.failure is None


def left(table: Table) -> dict[str, Any]:
    core = table.core
    return {
        "snapshots": [(s.id, str(s.commit_kind), s.commit_identifier) for s in table.snapshots()],
        "tags": [(t.name, t.snapshot.id) for t in table.tags()],
        "changelogs": core.changelogs.ids(),
        "consumers": [(c.id, c.next_snapshot) for c in table.consumers()],
        "rows": sorted(tuple(r.values()) for r in table.to_dicts()),
        "rows of tags": {
            t.name: sorted(tuple(r.values()) for r in table.to_dicts(tag=t.name))
            for t in table.tags()
        },
    }


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", CASES)
def test_the_same_is_left(name: str, oracle: Oracle, tmp_path: Path) -> None:
    case = CASES[name]
    options = {"bucket": "1"} | case.options
    schema = Schema.of(
        COLUMNS, partition_keys=case.partitions, primary_keys=case.keys, options=options
    )
    tables = {}
    for side in ("java", "ours"):
        catalog = open_catalog(str(tmp_path / side), timezone="UTC")
        catalog.create_database("db")
        tables[side] = catalog.create_table("db.t", schema)
    at = {"database": "db", "table": "t"}
    for number in range(1, case.commits + 1):
        if number == case.commits:
            time.sleep(case.pause_before_last)
        step = case.before.get(number)
        if step is not None:
            oracle([{**step, **at, "warehouse": str(tmp_path / side)} for side in tables])
            time.sleep(0.02)
        commit(tables["ours"], number)
        oracle(
            [
                {
                    "op": "write",
                    **at,
                    "warehouse": str(tmp_path / "java"),
                    "rows": [list(r.values()) for r in rows(number)],
                    "commit_user": "writer",
                    "identifier": number,
                    "watermark": START + number * HOUR + HOUR // 2,
                    "wait": True,
                }
            ]
        )
        time.sleep(0.003)
    theirs, ours = left(tables["java"]), left(tables["ours"])
    assert ours == theirs
    assert len(ours["snapshots"]) < 2 * case.commits
    if name != "write-only":
        assert_no_leftovers(tmp_path / "ours")
