"""Random histories and expiries: what is on disk afterwards is what is referenced."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from disk import assert_whole, on_disk, referenced
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from replay import run_step

from paimon_core.scan import columns
from paimon_core.table.open import open_table
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

STEPS = st.lists(
    st.sampled_from(["write", "write", "write", "compact", "overwrite", "drop", "tag", "expire"]),
    min_size=3,
    max_size=9,
)


@settings(deadline=None, max_examples=examples(12))
@given(STEPS, st.integers(1, 4), st.booleans())
def test_files_on_disk_are_those_that_are_referenced(
    steps: list[str],
    retained: int,
    changelog: bool,  # noqa: FBT001 - an example
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MOST_OBJECTS", 0)  # columns for tables of any size
        at = {"warehouse": folder, "database": "db", "table": "t"}

        def do(op: str, **fields: Any) -> None:
            result = run_step({"op": op, **at, **fields})
            assert "error" not in result, result

        producer = {"changelog-producer": "input"} if changelog else {}
        do(
            "create_table",
            columns=[
                {"name": "k", "type": "INT NOT NULL"},
                {"name": "v", "type": "STRING"},
                {"name": "dt", "type": "STRING NOT NULL"},
            ],
            primary_keys=["k", "dt"],
            partition_keys=["dt"],
            options={
                "bucket": "1",
                "write-only": "true",
                "manifest.merge-min-count": "3",
                **producer,
            },
        )
        for number, step in enumerate([*steps, "write", "expire"]):
            rows = [[i, f"v{number}", "ab"[(i + number) % 2]] for i in range(3)]
            match step:
                case "write":
                    do("write", rows=rows)
                case "overwrite":
                    do("overwrite", rows=rows[:1], partition={})
                case "compact":
                    do("compact")
                case "drop":
                    do("drop_partition", partitions=[{"dt": "a"}])
                case "tag":
                    latest = open_table(folder, "db.t").snapshots.latest_id()
                    if latest is not None:
                        do("create_tag", name=f"t{number}", snapshot=latest)
                case _:
                    table = open_table(folder, "db.t")
                    root = Path(table.root)
                    # An overwrite leaves changelog files that it does not commit.
                    orphans = on_disk(root) - referenced(Path(folder))
                    job = job_named("expire_snapshots")
                    arguments = job.read_arguments(
                        {"retain_max": retained, "retain_min": 1, "older_than": "0 s"}
                    )
                    report = run_table(
                        RunRequest(job=job, warehouse=folder, table="db.t", arguments=arguments)
                    )
                    assert report.error is None
                    assert on_disk(root) - orphans == referenced(Path(folder))
        assert_whole(Path(folder))
