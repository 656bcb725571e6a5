"""Where a stream starts: long-lived changelogs by time, and rows that wait in a postpone bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake

from paimon_core import open_catalog


def followed(lake: Lake, **options: str) -> list[tuple[str, int]]:
    table = open_catalog(str(lake.warehouse)).get_table("db.t")
    told = {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}
    builder = table.copy(told).new_stream_read_builder().with_include_row_kind()
    read = builder.new_read()
    plans = builder.new_streaming_scan().available()
    found = [row for plan in plans for row in read.to_arrow(plan.splits()).to_pylist()]
    return [(row["_row_kind"], row["k"]) for row in found]


@pytest.mark.parametrize("option", ["scan_timestamp__millis", "scan_creation__time__millis"])
def test_a_time_in_long_lived_changelogs(option: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.t", changelog__producer="input")
    for key in range(4):
        lake.append({"k": [key], "v": ["v"]})
    times = [s.time_millis for s in lake.table().snapshots.all()]
    expiry = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
        "changelog.num-retained.min": "10",
        "changelog.num-retained.max": "10",
    }
    open_catalog(str(tmp_path)).get_table("db.t").copy(expiry).maintain()
    assert lake.table().changelogs.ids() == [1, 2, 3]
    assert [k for _, k in followed(lake, **{option: str(times[2])})] == [
        k for k in range(4) if times[k] >= times[2]
    ]


def test_rows_that_wait_in_the_postpone_bucket(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.primary_key("db.t", buckets=-2)
    table = open_catalog(str(tmp_path)).get_table("db.t")
    table.upsert({"k": [1, 2], "v": ["a", "b"]})
    table.upsert({"k": [1], "v": ["a"], "_row_kind": ["-D"]})
    assert followed(lake) == [("+I", 1), ("+I", 2), ("-D", 1)]
