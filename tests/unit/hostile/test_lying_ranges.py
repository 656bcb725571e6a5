"""Manifest lists whose partition ranges are wrong: a reader that skips manifests misses live files.

No job may take such a file for garbage, nor lose or double its rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, caretaker, read_rows
from lakes import Lake, age_all

from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.manifest_list import read_manifest_list, write_manifest_list
from paimon_core.manifest.partition_stats import partition_stats
from paimon_core.types.binary_row import encode_row

JOBS: dict[str, tuple[object, ...]] = {
    "expire_snapshots": ("--retain-max", 1, "--retain-min", 1),
    "delete_tag": ("--tag", "t"),
    "rollback": ("--snapshot", 5, "--safety-tag", "0 s"),
    "rollback_to_as_latest": ("--tag", "t"),
    "fast_forward": ("--branch-name", "b", "--safety-tag", "0 s"),
    "delete_branch": ("--branch-name", "b"),
    "remove_orphan_files": ("--older-than", "1 d", "--mode", "delete"),
    "compact": ("--engine", "local", "--strategy", "full"),
    "compact_manifest": (),
    "rescale": ("--engine", "local", "--bucket-num", 2),
    "drop_partition": ("--partition", "dt=day1"),
    "maintain": ("--engine", "local"),
    "repair": (),
}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key(partitioned=True)
    lake.fill(2)
    assert run(lake, "compact", "--engine", "local").code == 0
    lake.fill(1)
    assert run(lake, "create_tag", "--tag", "t").code == 0
    assert run(lake, "create_branch", "--branch-name", "b", "--tag", "t").code == 0
    assert run(lake, "compact", "--engine", "local").code == 0
    lake.fill(2)
    return lake


def run(lake: Lake, job: str, *more: object) -> Ran:
    return caretaker("run", job, "db.t", "-w", lake.warehouse, "--force", *more)


def lie(lake: Lake, day: str) -> None:
    """Say in all lists that their manifests hold nothing but this day."""
    table = lake.table()
    types = table.schema.partition_type
    range_of_day = partition_stats([encode_row([day], types.types)], types)

    def lying(meta: ManifestFileMeta) -> ManifestFileMeta:
        return replace(meta, partition_stats=range_of_day)

    root = Path(table.root)
    known: dict[str, tuple[str, int]] = {}
    for path in (*root.rglob("snapshot/snapshot-*"), *root.rglob("tag/tag-*")):
        told: dict[str, Any] = json.loads(path.read_text())
        for key in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
            name = told.get(key)
            if name is None:
                continue
            if name not in known:
                metas = read_manifest_list(table.io, table.paths.manifest(name))
                known[name] = write_manifest_list(
                    table.io,
                    table.paths,
                    [lying(m) for m in metas],
                    options=table.options,
                    new_uuid=lambda: f"lie-{len(known)}",
                )
            told[key], told[f"{key}Size"] = known[name]
        path.write_text(json.dumps(told))
    age_all(lake.warehouse)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("day", ["day0", "nowhere"])
@pytest.mark.parametrize("job", JOBS)
def test_no_job_loses_a_live_file(job: str, day: str, lake: Lake) -> None:
    lie(lake, day)
    before = read_rows(lake.warehouse)
    versions = {
        f"--{kind}": read_rows(lake.warehouse, f"--{kind}", name)
        for kind, name in (("tag", "t"), ("branch", "b"))
    }
    ran = run(lake, job, *JOBS[job])
    assert "Traceback" not in ran.err
    assert ran.code in (0, 1, 3, 5, 7), ran.err
    if ran.code in (1, 7):
        assert str(lake.table().root) in ran.err
    verified = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert verified.code == 0, (ran.out, ran.err, verified.out)
    if job not in ("delete_tag", "fast_forward"):
        assert read_rows(lake.warehouse, "--tag", "t") == versions["--tag"]
    if job != "delete_branch":
        assert read_rows(lake.warehouse, "--branch", "b") == versions["--branch"]
    after = read_rows(lake.warehouse)
    if job == "drop_partition":
        assert len(after) in (5, 10)
    elif job not in ("rollback", "rollback_to_as_latest", "fast_forward"):
        assert after == before


def test_a_full_merge_brings_no_deleted_file_back(lake: Lake) -> None:
    """The manifests that add files have other partitions than those that delete them."""
    lie(lake, "nowhere")
    before = read_rows(lake.warehouse)
    lake.change_options("db.t", "manifest.full-compaction-threshold-size", "1 b")
    for _ in range(2):
        lake.fill(1)
        assert run(lake, "compact", "--engine", "local", "--strategy", "full").code in (0, 3, 5, 7)
        assert len(read_rows(lake.warehouse)) == len(before)
        assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
