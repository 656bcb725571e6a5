"""`verify` calls a table broken where Java cannot read it, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker

from oracle import Oracle, OracleError
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import system_environment
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Problem, Severity

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]


@pytest.fixture
def root(oracle: Oracle, tmp_path: Path) -> Path:
    """Four snapshots under two schemas; tag t on snapshot 1, branch b at it."""
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "1", "write-only": "true"}
    change = {"change": "add_column", "name": "w", "type": "INT"}
    steps: list[dict[str, Any]] = [
        {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options},
        {"op": "write", "rows": [[1, "a"]]},
        {"op": "write", "rows": [[2, "b"]]},
        {"op": "create_tag", "name": "t", "snapshot": 1},
        {"op": "create_branch", "name": "b", "tag": "t"},
        {"op": "alter_table", "changes": [change]},
        {"op": "write", "rows": [[3, "c", 3]]},
        {"op": "write", "rows": [[4, "d", 4]]},
    ]
    oracle(steps)
    return tmp_path / "db.db" / "t"


def latest(text: str) -> Callable[[Path], None]:
    return lambda root: (root / "snapshot" / "LATEST").write_text(text) and None


def earliest(text: str) -> Callable[[Path], None]:
    return lambda root: (root / "snapshot" / "EARLIEST").write_text(text) and None


def gone(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def replaced(name: str, field: str, value: object) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        content = json.loads((root / name).read_text())
        (root / name).write_text(json.dumps(content | {field: value}))

    return change


CASES: dict[str, Callable[[Path], None]] = {
    "whole": lambda _: None,
    "latest beyond the newest": latest("5"),
    "latest far beyond the newest": latest("51"),
    "latest behind": latest("2"),
    "latest unreadable": latest("x"),
    "latest negative": latest("-4"),
    "no latest": lambda root: (root / "snapshot" / "LATEST").unlink(missing_ok=True),
    "earliest behind": earliest("3"),
    "earliest beyond": earliest("9"),
    "earliest unreadable": earliest("?"),
    "schema of the newest": gone("schema/schema-1"),
    "schema of the tag": gone("schema/schema-0"),
    "schema of the branch": gone("branch/branch-b/schema/schema-0"),
    "latest of the branch": lambda root: latest("7")(root / "branch" / "branch-b"),
    "newest under an unknown schema": replaced("snapshot/snapshot-4", "schemaId", 9),
    "tag under an unknown schema": replaced("tag/tag-t", "schemaId", 9),
    "branch under an unknown schema": replaced(
        "branch/branch-b/snapshot/snapshot-1", "schemaId", 9
    ),
    "torn tag": lambda root: (root / "tag" / "tag-t").write_text("{") and None,
    "torn newest": lambda root: (root / "snapshot" / "snapshot-4").write_text("") and None,
}


def readable(oracle: Oracle) -> bool:
    """Whether Java reads the newest snapshot, the tag, and all snapshots of both branches."""
    wanted: list[dict[str, Any]] = [{}, {"tag": "t"}, {"branch": "b"}]
    wanted.append({"branch": "b", "snapshot": 1})
    wanted += [{"snapshot": n} for n in (1, 2, 3, 4)]
    for version in wanted:
        try:
            oracle.rows(**version)
        except OracleError:
            return False
    return True


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
def test_broken_is_what_java_cannot_read(case: str, root: Path, oracle: Oracle) -> None:
    CASES[case](root)
    ran = caretaker("verify", "db.t", "-w", root.parent.parent)
    assert ran.code in (0, 7), ran.err
    assert (ran.code == 0) == readable(oracle), ran.out + ran.err


@pytest.mark.sampled
@pytest.mark.parametrize("case", [c for c in CASES if "latest" in c or "earliest" in c])
def test_a_repaired_hint_lets_java_read_and_write(case: str, root: Path, oracle: Oracle) -> None:
    CASES[case](root)
    assert caretaker("run", "repair", "db.t", "-w", root.parent.parent).code in (0, 3)
    assert check_table(open_table(str(root.parent.parent), "db.t")).findings == []
    assert readable(oracle)
    oracle.one("write", rows=[[9, "z", 9]])
    oracle.one("write", rows=[[9, "z"]], branch="b")
    assert [r[1] for r in oracle.rows()] == [1, 2, 3, 4, 9]


def test_a_branch_whose_files_java_deleted_with_its_tag(root: Path, oracle: Oracle) -> None:
    """Java's deletion of tags does not look at branches."""
    oracle.one("compact", full=True)
    oracle.one("expire_snapshots", retain_max=1, retain_min=1, older_than_millis=2**52)
    assert caretaker("verify", "db.t", "-w", root.parent.parent).code == 0
    oracle.one("delete_tag", name="t")
    with pytest.raises(OracleError):
        oracle.rows(branch="b")
    found = check_table(open_table(str(root.parent.parent), "db.t")).findings
    errors = [f for f in found if f.severity is Severity.ERROR]
    assert errors
    assert {f.branch for f in errors} == {"b"}
    assert [r[1] for r in oracle.rows()] == [1, 2, 3, 4]


def test_a_key_that_java_reads_twice(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "10"}
    steps: list[dict[str, Any]] = [
        {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options},
        {"op": "write", "rows": [[i, "a"] for i in range(35)]},
        {"op": "write", "rows": [{"kind": "-D", "values": [i, "a"]} for i in range(0, 35, 5)]},
        {"op": "compact", "full": True},
        {"op": "write", "rows": [[i, "b"] for i in range(0, 35, 3)]},
    ]
    oracle(steps)
    table = open_table(str(tmp_path), "db.t")
    whole = check_table(table, Scope(keys=True))
    assert whole.findings == []
    assert whole.checked["keys"] > 0
    entry = scan_files(table, table.latest_or_not_found())[0]
    file = replace(entry.file, file_name="data-twin-0.parquet", level=0)
    twin = Path(table.paths.data_file(entry.partition, entry.bucket + 1, file))
    source = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    twin.write_bytes(Path(source).read_bytes())
    commit_changes(
        table,
        lambda _: ManifestChanges(files=(replace(entry, bucket=entry.bucket + 1, file=file),)),
        CommitRequest(user="another", kind=CommitKind.APPEND, check=False),
        env=system_environment(),
    )
    keys = [r[1] for r in oracle.rows()]
    twice = len(keys) - len(set(keys))
    assert twice > 0
    (finding,) = check_table(table, Scope(keys=True)).findings
    assert finding.problem is Problem.KEY_IN_TWO_BUCKETS
    assert finding.message.startswith(f"{twice} key")


def test_a_first_snapshot_whose_changelog_java_took(oracle: Oracle, tmp_path: Path) -> None:
    """Java's expiry of main deletes the changelog of the snapshot from which a branch begins."""
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    oracle([{"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}])
    oracle([{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(4)])
    oracle.one("create_tag", name="t", snapshot=2)
    oracle.one("create_branch", name="b", tag="t")
    oracle.one("expire_snapshots", retain_max=1, retain_min=1, older_than_millis=2**52)
    assert [r[1] for r in oracle.rows(branch="b")] == [0, 1]
    (note,) = check_table(open_table(str(tmp_path), "db.t")).findings
    assert (note.problem, note.severity) == (Problem.LOST_CHANGELOG, Severity.INFO)
    assert (note.branch, note.snapshot, note.repair) == ("b", 2, None)
    assert caretaker("verify", "db.t", "-w", tmp_path).code == 0
    assert caretaker("run", "repair", "db.t", "-w", tmp_path).code == 3
    oracle.one("write", rows=[[9, "on"]], branch="b", compact=False)
    assert [r[1] for r in oracle.rows(branch="b")] == [0, 1, 9]
