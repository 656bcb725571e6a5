"""Random litter in a table: the orphan job removes what a plain model says, and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from disk import assert_whole, on_disk, referenced
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import Lake
from long_run import examples

from paimon_core.reachability.keep import create_kept
from paimon_core.refs.tags import Tag
from paimon_core.table.open import open_table
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

OLD = time.time() - 2 * 86_400
FOLDERS = ("dt=day0/bucket-0", "dt=day0/bucket-7", "dt=day9/bucket-0", "manifest", "index")
REMOVED = {
    "dt": ("data-{}-0.parquet", "changelog-{}-0.parquet", "data-{}-1.orc", ".data-{}.tmp"),
    "manifest": ("manifest-{}-0", "manifest-list-{}-1", "index-manifest-{}-0"),
    "index": ("index-{}-0",),
}
KEPT = ("notes-{}.txt", "data-{}.managed.blob", "part-{}")
LITTER = st.lists(
    st.tuples(
        st.sampled_from(FOLDERS),
        st.integers(0, 4),
        st.integers(0, 10**6),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: one[2],
)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table with several snapshots and a tag."""
    warehouse = tmp_path_factory.mktemp("lived")
    lake = Lake(warehouse)
    lake.primary_key(partitioned=True)
    lake.fill(3)
    table = lake.table()
    create_kept(table, Tag("kept", table.latest_or_not_found()))
    lake.fill(1)
    return warehouse


def run(warehouse: Path) -> Report:
    job = job_named("remove_orphan_files")
    arguments = job.read_arguments({})
    request = RunRequest(
        job=job, warehouse=str(warehouse), table="db.t", arguments=arguments, force=True
    )
    return run_table(request)


@settings(deadline=None, max_examples=examples(25))
@given(LITTER, st.booleans())
def test_the_job_removes_old_files_that_nothing_needs(
    lived: Path,
    litter: list[tuple[str, int, int, bool, bool]],
    all_are_old: bool,  # noqa: FBT001 - an example
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "w"
        shutil.copytree(lived, warehouse)
        root = Path(open_table(str(warehouse), "db.t").root)
        kept = referenced(warehouse)
        if all_are_old:
            for path in map(Path, kept):
                os.utime(path, (OLD, OLD))
        removed = 0
        for place, pattern, number, is_old, is_known in litter:
            patterns = REMOVED[place.partition("=")[0]] if is_known else KEPT
            path = root / place / patterns[pattern % len(patterns)].format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"litter")
            if is_old:
                os.utime(path, (OLD, OLD))
            if is_old and is_known:
                removed += 1
            elif not path.name.startswith("."):
                kept.add(str(path))
        report = run(warehouse)
        assert on_disk(root) == kept
        details = report.details if removed else {"deleted_files": 0}
        assert details["deleted_files"] == removed
        assert_whole(warehouse)
