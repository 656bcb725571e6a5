"""Tags: a worked example, and our tags compared with Java's on copies of one table."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import replay
from command_line import caretaker
from disk import assert_no_leftovers, on_disk
from replay import run_step

from oracle import Oracle

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
HOUR = 3_600_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


class Table:
    def __init__(self, warehouse: Path) -> None:
        self.at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
        self.root = warehouse / "db.db" / "t"

    def do(self, op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **self.at, **fields})
        assert "error" not in result, result
        return result

    def tags(self) -> list[str]:
        return [t["name"] for t in self.do("tags")["tags"]]


def test_hourly_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    now = at("2023-10-07 15:20:00")
    clock = replace(replay.ENV, now_millis=lambda: now, local_millis=lambda: now, local_at=None)
    monkeypatch.setattr(replay, "ENV", clock)
    table.do(
        "create_table",
        columns=COLUMNS,
        primary_keys=["k"],
        options={
            "bucket": "1",
            "write-only": "true",
            "tag.automatic-creation": "process-time",
            "tag.creation-period": "hourly",
            "tag.creation-delay": "5 m",
            "tag.num-retained-max": "2",
            "sink.process-time-zone": "UTC",
        },
    )

    def commit(time: str) -> list[str]:
        nonlocal now
        now = at(f"2023-10-07 {time}:00")
        table.do("write", rows=[[1, time]])
        table.do("auto_tag")
        return table.tags()

    assert commit("15:20") == ["2023-10-07 14"]
    assert commit("15:30") == ["2023-10-07 14"]
    assert commit("15:59") == ["2023-10-07 14"]
    assert commit("16:04") == ["2023-10-07 14"]
    assert commit("16:05") == ["2023-10-07 14", "2023-10-07 15"]
    assert commit("16:50") == ["2023-10-07 14", "2023-10-07 15"]
    assert commit("17:05") == ["2023-10-07 15", "2023-10-07 16"]
    rows = table.do("read", tag="2023-10-07 15")["rows"]
    assert rows == [["+I", 1, "16:05"]]


def test_a_tag_frees_its_files_when_it_goes(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.do("create_table", columns=COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    for i in range(4):
        table.do("write", rows=[[i, "x"]])
        table.do("compact")
    table.do("create_tag", name="a", snapshot=2)
    table.do("create_tag", name="b", snapshot=2)
    table.do("create_tag", name="c", snapshot=5, time_retained="1 ms")
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert_no_leftovers(tmp_path)
    before = on_disk(table.root)
    table.do("delete_tag", name="a")
    assert on_disk(table.root) == before, "the snapshot has another tag"
    table.do("delete_tag", name="b")
    assert len(on_disk(table.root)) < len(before)
    assert_no_leftovers(tmp_path)
    assert len(table.do("read", tag="c")["rows"]) == 3
    table.do("auto_tag")
    assert table.tags() == []
    assert_no_leftovers(tmp_path)
    assert len(table.do("read")["rows"]) == 4


@pytest.mark.parametrize("seed", range(3))
def test_ours_beside_java(seed: int, oracle: Oracle, tmp_path: Path) -> None:
    """Watermarks make the time, so that both see the same."""
    rng = random.Random(seed)
    pristine = {"warehouse": str(tmp_path / "java"), "database": "db", "table": "t"}
    oracle.defaults(**pristine)
    options = {
        "bucket": "1",
        "write-only": "true",
        "tag.automatic-creation": "watermark",
        "tag.creation-period": rng.choice(["hourly", "daily", "two-hours"]),
        "tag.period-formatter": rng.choice(["with_dashes", "without_dashes"]),
        "tag.creation-delay": rng.choice(["0 s", "17 min"]),
        "tag.automatic-completion": rng.choice(["true", "false"]),
        "tag.num-retained-max": str(rng.randint(1, 5)),
        "sink.watermark-time-zone": rng.choice(["UTC", "Asia/Shanghai"]),
    }
    oracle([{"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}])
    shutil.copytree(tmp_path / "java", tmp_path / "ours")
    ours = Table(tmp_path / "ours")
    time = at("2023-10-07 10:00:00")
    for i in range(12):
        time += rng.randint(0, 40) * HOUR // 12
        for where in (pristine, ours.at):
            oracle.one("write", rows=[[i, "x"]], watermark=time, **where)
        if rng.random() < 0.4:
            oracle.one("auto_tag")
            ours.do("auto_tag")
    oracle.one("auto_tag")
    ours.do("auto_tag")
    theirs = {t["name"]: t["tag"]["id"] for t in oracle.one("tags")["tags"]}
    assert {t["name"]: t["tag"]["id"] for t in ours.do("tags")["tags"]} == theirs
    assert theirs
    # Java takes our tags for its own and goes on from there.
    oracle.one("write", rows=[[99, "x"]], watermark=time + 100 * HOUR)
    oracle.one("write", rows=[[99, "x"]], watermark=time + 100 * HOUR, **ours.at)
    oracle.one("auto_tag", **ours.at)
    oracle.one("auto_tag")
    assert oracle.one("tags", **ours.at)["tags"] is not None
    names = {t["name"] for t in oracle.one("tags", **ours.at)["tags"]}
    assert names == {t["name"] for t in oracle.one("tags")["tags"]}


def test_a_hollow_snapshot_gets_no_tag(tmp_path: Path) -> None:
    """Such a tag could not be read, and every job that deletes files would stop at it."""
    table = Table(tmp_path)
    table.do("create_table", columns=COLUMNS, options={"bucket": "-1"})
    for number in range(3):
        table.do("write", rows=[[number, "x"]])
    table.do("create_tag", name="there", snapshot=2)
    first = json.loads((table.root / "snapshot" / "snapshot-1").read_text())
    (table.root / "manifest" / first["deltaManifestList"]).unlink()
    for job, tag in (("create_tag", "hollow"), ("replace_tag", "there")):
        ran = caretaker("run", job, "db.t", "-w", tmp_path, "--tag", tag, "--snapshot", 1)
        assert ran.code == 7, ran.err
    assert table.tags() == ["there"]
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert_no_leftovers(tmp_path)
