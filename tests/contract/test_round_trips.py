"""How often a small run asks an object store, and what it asks at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lakes import Lake
from s3_store import s3_server, upload
from slow_store import CONDITIONAL_PUT, GET, LIST, PUT, SlowStore, slow_store

from paimon_core.retention import store_clock
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

COMMITS = 5
PATIENCE = 20.0


@pytest.fixture(scope="module")
def store() -> Iterator[SlowStore]:
    with s3_server() as server, slow_store(server) as proxy:
        yield proxy


@pytest.fixture
def root(store: SlowStore, tmp_path: Path) -> str:
    lake = Lake(tmp_path)
    for name in ("db.a", "db.b"):
        lake.primary_key(name)
        lake.fill(COMMITS, rows=20, name=name)
    made = store.new_root()
    upload(tmp_path, made)
    return made


def compact(store: SlowStore, root: str, table: str) -> Report:
    job = job_named("compact")
    report = run_table(
        RunRequest(
            job=job,
            warehouse=root,
            table=table,
            arguments=job.read_arguments({"strategy": "full"}),
            file_io_options=store.options,
        )
    )
    assert report.error is None, report.error
    assert report.after.files == 1
    return report


def test_a_small_table_takes_few_requests_after_the_first(
    store: SlowStore, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 300_000)
    store.clear()
    compact(store, root, "db.a")
    first = store.counts
    store.clear()
    compact(store, root, "db.b")
    again = store.counts
    # The clock and the conditional PUT of the store are checked once.
    assert (first[CONDITIONAL_PUT], again[CONDITIONAL_PUT]) == (3, 1)
    assert first[PUT] == again[PUT] + 1
    assert not [r for r in store.requests if ".clock." in r.key]
    assert again[LIST] <= 7
    assert sum(again.values()) <= 45, again
    # Nobody asks whether a snapshot exists in two requests.
    assert not [r for r in store.requests if r.kind == "head" and "/snapshot/" in r.key]


def test_manifests_of_a_snapshot_are_read_together(store: SlowStore, root: str) -> None:
    together = threading.Barrier(COMMITS, timeout=PATIENCE)
    lists = threading.Barrier(2, timeout=PATIENCE)
    seen: set[str] = set()
    lock = threading.Lock()

    def before(kind: str, key: str) -> None:
        name = key.rsplit("/", 1)[-1]
        with lock:
            new = name not in seen
            seen.add(name)
            at_first = len(seen) <= limit
        if kind == GET and new and at_first and name.startswith("manifest"):
            (lists if name.startswith("manifest-list-") else together).wait()

    # Up to the last manifest of the first plan: schema, hint, two snapshots, two lists, manifests.
    limit = 4 + 2 + 2 + COMMITS
    store.before = before
    try:
        compact(store, root, "db.a")
    finally:
        store.before = None
    assert len([name for name in seen if name.startswith("manifest-list-")]) >= 2
