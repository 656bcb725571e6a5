"""The same tree has the same orphans, however a store lists it: names first, with states, by prefix."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import Lake
from long_run import examples
from s3_store import S3Server, download, drop, s3_server, upload

from paimon_core.io.local import LocalFileIO
from paimon_core.reachability.keep import create_kept
from paimon_core.refs.tags import Tag
from paimon_core.table.open import open_table
from paimon_maintenance.job.guards import Guards
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table

NOW = int(time.time())
FOLDERS = (
    *("dt=day0/bucket-0", "dt=day9/bucket-1", "dt=day0", "dt=day0/bucket-x", "dt=day0/other"),
    *("manifest", "index", "statistics", "snapshot", "tag", "schema", "consumer", "changelog"),
    *("", "branch/branch-b/snapshot", "caretaker", "caretaker/quarantine/q", "bucket-0", "x=y/z"),
)
NAMES = (
    *("data-{}-0.parquet", "data-{}-0.zstd.parquet", "changelog-{}-1.orc", "notes-{}", "x{}"),
    *("manifest-{}-0", "manifest-list-{}-1", "index-manifest-{}-0", "index-{}-0", "stat-{}-0"),
    *(".snapshot-{}.tmp", "data-{}.managed.blob", "data-{}-0.blob", "data- %2F{}-0.avro"),
)
AGES = (0, 3600, 86_000, 87_000, 2 * 86_400, NOW, -86_400)
FILE = st.tuples(
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.integers(0, 3000),
    st.sampled_from(AGES),
)
LOCAL_ONLY = st.tuples(
    st.sampled_from(FOLDERS[:9]), st.sampled_from(NAMES), st.sampled_from(("link", "lost", "dir"))
)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table with several snapshots, a tag and a branch."""
    warehouse = tmp_path_factory.mktemp("lived")
    lake = Lake(warehouse)
    lake.primary_key(partitioned=True)
    lake.fill(3)
    table = lake.table()
    create_kept(table, Tag("kept", table.latest_or_not_found()))
    table.branches.create("b", tag="kept")
    lake.fill(1)
    return warehouse


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def found(warehouse: str, server: S3Server | None, *, unknown: bool) -> tuple[Any, ...]:
    """What a plan removes, keeps, and measures."""
    plan = plan_table(request(warehouse, server, unknown=unknown))
    root = f"{warehouse}/db.db/t/"
    work: Any = plan.work
    effect = replace(plan.effect, losses=())
    return (
        {(f.path.removeprefix(root), f.size, f.modified_millis // 1000) for f in work.files},
        {path.removeprefix(root) for path in work.unknown},
        astuple(effect),
        {loss.kind: (loss.part, loss.whole) for loss in plan.effect.losses},
        # A young file that is mentioned counts as either, but once.
        sum(kept.count for kept in plan.kept if kept.what == "files"),
        {(k.what, k.count, k.bytes) for k in plan.kept if k.what not in ("links", "files")},
    )


def request(warehouse: str, server: S3Server | None, *, unknown: bool) -> RunRequest:
    job = job_named("remove_orphan_files")
    return RunRequest(
        job=job,
        warehouse=warehouse,
        table="db.t",
        arguments=job.read_arguments({"unknown_kinds": unknown}),
        file_io_options={} if server is None else server.options,
        guards=Guards(),
        force=True,
    )


@settings(deadline=None, max_examples=examples(12))
@given(st.lists(FILE, max_size=25), st.lists(LOCAL_ONLY, max_size=5), st.booleans(), st.booleans())
def test_stores_agree(
    lived: Path,
    server: S3Server,
    litter: list[tuple[str, str, int, int, int]],
    others: list[tuple[str, str, str]],
    all_are_old: bool,  # noqa: FBT001 - an example
    unknown: bool,  # noqa: FBT001 - an example
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "w"
        shutil.copytree(lived, warehouse)
        root = Path(open_table(str(warehouse), "db.t").root)
        for path in root.rglob("*"):
            if path.is_file() and all_are_old:
                os.utime(path, (1_000_000_000, 1_000_000_000))
        for place, pattern, number, size, age in litter:
            path = root / place / pattern.format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(size))
            os.utime(path, (NOW - age, NOW - age))
        on_s3 = server.new_root()
        upload(warehouse, on_s3)
        for place, pattern, kind in others:
            path = root / place / pattern.format("other")
            if not path.parent.exists() or os.path.lexists(path):
                continue
            if kind == "dir":
                path.mkdir()
            else:
                path.symlink_to(lived if kind == "link" else "/nothing/is/here")
        names_first = found(str(warehouse), None, unknown=unknown)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalFileIO, "list_names", lambda *_: None)
            assert found(str(warehouse), None, unknown=unknown) == names_first
        assert found(on_s3, server, unknown=unknown) == names_first
        deleted = {path for path, _, _ in names_first[0]}
        left = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()} - deleted
        for place, store in ((str(warehouse), None), (on_s3, server)):
            report = run_table(request(place, store, unknown=unknown))
            assert report.error is None
        copy = Path(folder) / "copy"
        download(on_s3, copy)
        drop(on_s3)
        for after in (root, copy / "db.db" / "t"):
            now = {str(p.relative_to(after)) for p in after.rglob("*") if p.is_file()}
            assert {p for p in now if "leases" not in p} == {p for p in left if "leases" not in p}
