"""Jobs on tables of a REST catalog, beside Java: all their commits are the server's."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from catalog_rows import COLUMNS, RETRIES

from oracle import Oracle, RestServer
from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.open import open_catalog
from paimon_core.catalog.rest.commit import RestSnapshotCommit
from paimon_core.errors import StorageError, UnsupportedFeature
from paimon_core.remote.rest_client import RestClient
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_maintenance.storage.ledger import Ledger


@pytest.fixture
def database(tmp_path: Path, rest_server: RestServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps({"rest": rest_server.options}))
    return f"db_{abs(hash(tmp_path))}"


@pytest.fixture
def ours(rest_server: RestServer) -> Catalog:
    return open_catalog(rest_server.options)


@pytest.fixture
def java(oracle_1_4_2: Oracle, rest_server: RestServer, database: str) -> Oracle:
    java = oracle_1_4_2.defaults(catalog=rest_server.options, database=database, table="t")
    columns = [*COLUMNS, {"name": "dt", "type": "STRING"}]
    options = {**RETRIES, "bucket": "2", "write-only": "true"}
    java.one("create_database")
    java.one(
        "create_table",
        columns=columns,
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options=options,
    )
    for i in range(6):
        java.one("write", rows=[[i, "java", "a"], [100, f"v{i}", "a"], [i, "java", "b"]])
    return java


def _run(job: str, database: str, **arguments: Any) -> Report:
    definition = job_named(job)
    return run_table(
        RunRequest(
            job=definition,
            warehouse="catalog:rest",
            table=f"{database}.t",
            arguments=definition.read_arguments(arguments),
            force=True,
        )
    )


def test_jobs_keep_the_rows_and_java_goes_on(
    java: Oracle, ours: Catalog, rest_server: RestServer, database: str
) -> None:
    rows = java.rows()
    compacted = _run("compact", database, strategy="full")
    assert compacted.error is None
    assert compacted.snapshots == (7,)
    assert compacted.changes.snapshots == (7,)
    assert java.rows() == rows
    expired = _run(
        "expire_snapshots", database, retain_max=1, retain_min=1, older_than="2100-01-01"
    )
    assert expired.error is None
    assert [s["id"] for s in java.one("snapshots")["snapshots"]] == [7]
    java.one("write", rows=[[1000, "java", "c"]])
    assert _run("create_tag", database, tag="kept").error is None
    assert "kept" in json.dumps(java.one("tags")["tags"])
    dropped = _run("drop_partition", database, partitions=["dt=b"])
    assert dropped.error is None
    left = [row for row in rows if row[3] == "a"]
    assert java.rows() == sorted([*left, ["+I", 1000, "java", "c"]], key=json.dumps)
    java.one("write", rows=[[1001, "java", "c"]])
    assert len(java.rows()) == len(left) + 2
    snapshots = ours.get_table(f"{database}.t").snapshots
    commits = [r for r in rest_server.requests() if database in r["path"]]
    commits = [r for r in commits if r["path"].endswith("/commit") and r["status"] == 200]
    assert len(commits) == snapshots.latest_id()


def test_a_handle_of_a_run_reaches_executors_without_its_ledger(
    java: Oracle, ours: Catalog, database: str
) -> None:
    definition = job_named("compact")
    request = RunRequest(
        job=definition,
        warehouse="catalog:rest",
        table=f"{database}.t",
        arguments=definition.read_arguments({}),
    )
    ledger = Ledger()
    opened = request.open(ledger)
    there = pickle.loads(pickle.dumps(opened))
    assert there.snapshots.latest_id() == 6
    assert type(there.snapshots.snapshot_commit) is RestSnapshotCommit
    with pytest.raises(UnsupportedFeature):
        there.io.write_bytes(there.paths.snapshot(7), b"")


def test_branches_and_rollback_are_the_catalogs(java: Oracle, ours: Catalog, database: str) -> None:
    name = f"{database}.t"
    java.one("create_tag", name="four", snapshot=4)
    created = _run("create_branch", database, branch_name="side", tag="four")
    assert created.error is None, created.error
    java.one("write", branch="side", rows=[[7, "side", "a"]])
    side = java.rows(branch="side")
    assert len(side) != len(java.rows())

    moved = _run("fast_forward", database, branch_name="side")
    assert moved.error is None, moved.error
    assert java.rows() == side
    assert _run("rename_branch", database, branch_name="side", target_branch="b").error is None
    assert java.one("branches")["branches"] == ["b"]
    java.one("write", rows=[[8, "java", "b"]])

    back = _run("rollback", database, snapshot=4)
    assert back.error is None, back.error
    assert [s["id"] for s in java.one("snapshots")["snapshots"]] == [1, 2, 3, 4]
    assert ours.get_table(name).snapshots.latest_id() == 4
    assert java.rows(branch="b") == side
    deleted = _run("delete_branch", database, branch_name=["b"])
    assert deleted.error is None, deleted.error
    assert java.one("branches")["branches"] == []
    java.one("write", rows=[[9, "java", "c"]])
    assert ["+I", 9, "java", "c"] in java.rows()
    assert ours.get_table(name).snapshots.latest_id() == 5


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        ("repair", {"repair": ["rewrite_hint"]}),
    ],
)
def test_jobs_that_would_change_the_history_are_refused_without_a_change(
    java: Oracle, ours: Catalog, database: str, job: str, arguments: dict[str, Any]
) -> None:
    table = ours.get_table(f"{database}.t")
    before = _files(Path(table.root))
    report = _run(job, database, **arguments)
    assert isinstance(report.error, UnsupportedFeature), report.error
    assert "REST catalog" in str(report.error)
    assert _files(Path(table.root)) == before
    java.one("write", rows=[[1, "java", "c"]])
    assert len(java.one("snapshots")["snapshots"]) == 7
    assert table.snapshots.latest_id() == 7


@pytest.mark.parametrize(
    ("job", "arguments"), [("rollback", {"snapshot": 4}), ("fast_forward", {"branch_name": "side"})]
)
def test_an_empty_answer_is_no_proof(
    java: Oracle,
    ours: Catalog,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
    arguments: dict[str, Any],
) -> None:
    """A proxy that does not reach the server may answer 200 all the same."""
    java.one("create_tag", name="four", snapshot=4)
    assert _run("create_branch", database, branch_name="side", tag="four").error is None
    java.one("write", branch="side", rows=[[7, "side", "a"]])
    rows = java.rows()
    with monkeypatch.context() as patch:
        patch.setattr(RestClient, "post", lambda *_, **__: {})
        report = _run(job, database, **arguments)
    assert isinstance(report.error, StorageError)
    assert "still the newest" in str(report.error)
    assert java.rows() == rows
    assert _run(job, database, **arguments).error is None
    assert java.rows() != rows


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(root)): f.read_bytes()
        for f in root.rglob("*")
        if f.is_file() and f.name not in ("LATEST", "EARLIEST")
    }


def test_a_commit_that_bypasses_the_catalog_stays_unseen(
    java: Oracle, ours: Catalog, database: str
) -> None:
    """What another program writes into the folder is no snapshot of the table."""
    table = ours.get_table(f"{database}.t")
    stray = Path(table.paths.snapshot(7))
    stray.write_bytes(Path(table.paths.snapshot(6)).read_bytes())
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == 6
    stray.unlink()
    with pytest.raises(UnsupportedFeature, match="makes the commits"):
        table.snapshots._create_with_hint(latest)
    assert not stray.exists()
