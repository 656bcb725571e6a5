"""Java and Caretaker on one HDFS: commits side by side, killed committers, and jobs that delete."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from catalog_rows import COLUMNS, RETRIES, append, append_one_by_one
from disk import needed_by
from store_emulators import hdfs_cluster

from oracle import Oracle
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.io.file_io import FileIO
from paimon_core.io.hdfs import HdfsFileIO
from paimon_core.reachability.references import all_references
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_maintenance.verify.check import check_table

COMMITS = 15
WRITERS = 2
FEW = {"retain_max": 1, "retain_min": 1, "older_than": "2100-01-01"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as url:
        yield f"{url}/lake"


@pytest.fixture
def java(oracle_1_4_2: Oracle, warehouse: str) -> Oracle:
    catalog = {"metastore": "filesystem", "warehouse": warehouse}
    return oracle_1_4_2.defaults(catalog=catalog, database="db", table="t")


def _write(warehouse: str, first: int) -> None:
    append_one_by_one(FileSystemCatalog(warehouse, {}), "db.t", range(first, first + COMMITS))


def _killed_at_its_rename(warehouse: str, *, sent: bool) -> None:
    """A committer that dies right before, or right after, the rename that makes its snapshot."""
    rename = HdfsFileIO.create_if_absent

    def die(io: HdfsFileIO, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" not in path:
            return rename(io, path, data)
        if not sent:
            io.write_bytes(path.replace("/snapshot-", "/.snapshot-") + ".killed.tmp", data)
        else:
            rename(io, path, data)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    with patch.object(HdfsFileIO, "create_if_absent", die):
        append(FileSystemCatalog(warehouse, {}).get_table("db.t"), [501 if sent else 500])


def _run(warehouse: str, job: str, **arguments: Any) -> Report:
    definition = job_named(job)
    report = run_table(
        RunRequest(
            job=definition,
            warehouse=warehouse,
            table="db.t",
            arguments=definition.read_arguments(arguments),
            force=True,
        )
    )
    assert report.error is None, report.error
    return report


def _below(io: FileIO, folder: str) -> set[str]:
    found = set()
    for entry in io.list_dir(folder):
        found |= _below(io, entry.path) if entry.is_dir else {entry.path}
    return found


def test_commits_and_jobs_beside_java(java: Oracle, warehouse: str) -> None:
    java.one("create_database")
    java.one("create_table", columns=COLUMNS, options=RETRIES)
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(warehouse, 100 * i)) for i in range(WRITERS)]
    theirs = threading.Thread(
        target=lambda: java([{"op": "write", "rows": [[1000 + i, "j"]]} for i in range(COMMITS)])
    )
    for one in (*writers, theirs):
        one.start()
    for one in (*writers, theirs):
        one.join(240)
    assert [one.exitcode for one in writers] == [0] * WRITERS
    expected = {first + i for first in (0, 100, 1000) for i in range(COMMITS)}
    assert sorted(row[1] for row in java.rows()) == sorted(expected)
    table = FileSystemCatalog(warehouse, {}).get_table("db.t")
    assert table.snapshots.ids() == list(range(1, (WRITERS + 1) * COMMITS + 1))

    for sent in (False, True):
        killed = spawn.Process(
            target=_killed_at_its_rename, args=(warehouse,), kwargs={"sent": sent}
        )
        killed.start()
        killed.join(120)
        assert killed.exitcode == -signal.SIGKILL
    expected.add(501)
    assert sorted(row[1] for row in java.rows()) == sorted(expected)

    _run(warehouse, "compact", strategy="full")
    _run(warehouse, "expire_snapshots", **FEW)
    time.sleep(1.5)
    _run(warehouse, "remove_orphan_files", older_than="1 s", allow_young=True)
    table = FileSystemCatalog(warehouse, {}).get_table("db.t")
    assert check_table(table).findings == []
    assert sorted(row[1] for row in java.rows()) == sorted(expected)
    needed = needed_by(table, all_references(table))
    left = {f for f in _below(table.io, table.root) if "/bucket-" in f or "/manifest/" in f}
    assert left == needed
    assert {s.name for s in table.io.list_dir(f"{table.root}/snapshot")} == {
        f"snapshot-{table.snapshots.latest_id()}",
        "EARLIEST",
        "LATEST",
    }
    java.one("write", rows=[[2000, "after"]])
    java.one("compact")
    append(table, [2001])
    assert sorted(row[1] for row in java.rows()) == sorted({*expected, 2000, 2001})
