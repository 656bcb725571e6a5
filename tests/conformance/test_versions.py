"""Going back, branches and manifests: ours, and Java beside it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, read_rows
from disk import assert_no_leftovers, assert_whole, on_disk
from replay import run_step
from sql_sessions import Sql

from oracle import Oracle
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]


class Table:
    def __init__(self, warehouse: Path, *, create: bool = True) -> None:
        self.warehouse = warehouse
        self.at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
        self.root = warehouse / "db.db" / "t"
        if create:
            options = {"bucket": "1", "write-only": "true", "manifest.merge-min-count": "3"}
            self.do("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
            for i in range(4):
                self.do("write", rows=[[i, "x"]])
            self.do("compact")  # 5
            self.do("create_tag", name="t2", snapshot=2)
            self.do("create_tag", name="t4", snapshot=4)
            self.do("write", rows=[[9, "x"]])

    def do(self, op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **self.at, **fields})
        assert "error" not in result, result
        return result

    def numbers(self, **fields: Any) -> list[int]:
        return [r[1] for r in self.do("read", **fields)["rows"]]

    def snapshots(self) -> list[int]:
        return [s["id"] for s in self.do("snapshots")["snapshots"]]

    def tags(self) -> list[str]:
        return [t["name"] for t in self.do("tags")["tags"]]

    def run(self, name: str, **arguments: object) -> Report:
        job = job_named(name)
        return run_table(
            RunRequest(
                job=job,
                warehouse=str(self.warehouse),
                table="db.t",
                arguments=job.read_arguments(arguments),
                force=True,
            )
        )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_back_to_a_snapshot(table: Table) -> None:
    before = on_disk(table.root)
    table.do("rollback_to", snapshot=3)
    assert table.snapshots() == [1, 2, 3]
    assert table.tags() == ["t2"]
    assert table.numbers() == [0, 1, 2]
    assert len(on_disk(table.root)) < len(before)
    assert_no_leftovers(table.warehouse)
    table.do("write", rows=[[5, "again"]])
    assert table.snapshots() == [1, 2, 3, 4]
    assert table.numbers() == [0, 1, 2, 5]


def test_back_to_a_tag_whose_snapshot_is_gone(table: Table) -> None:
    """A worked example: later snapshots and tags are removed with their files."""
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert table.snapshots() == [6]
    table.do("rollback_to", tag="t2")
    assert table.snapshots() == [2]
    assert table.tags() == ["t2"]
    assert table.numbers() == [0, 1]
    assert_no_leftovers(table.warehouse)


def test_back_to_a_tag_whose_changelog_is_gone(tmp_path: Path, oracle: Oracle) -> None:
    """Java makes the snapshot again with a changelog that no longer exists; ours without."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    oracle([{"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}])
    oracle([{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(4)])
    table = Table(tmp_path, create=False)
    table.do("create_tag", name="t2", snapshot=2)
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    table.do("rollback_to", tag="t2")
    assert [r[1] for r in oracle.rows()] == [0, 1]
    assert_no_leftovers(tmp_path)
    oracle([{"op": "write", "rows": [[7, "on"]], "compact": False}])
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert [r[1] for r in oracle.rows()] == [0, 1, 7]
    assert_no_leftovers(tmp_path)


def test_the_safety_tag_leads_back(table: Table) -> None:
    report = table.run("rollback", snapshot=1)
    safety = report.details["safety_tag"]
    assert table.numbers() == [0]
    assert_no_leftovers(table.warehouse)
    assert table.run("rollback_to_as_latest", tag=safety).error is None
    assert table.numbers() == [0, 1, 2, 3, 9]
    assert table.snapshots() == [1, 2]
    assert_no_leftovers(table.warehouse)


def test_a_tag_of_another_history_is_no_way_back(table: Table) -> None:
    safety = table.run("rollback", snapshot=2).details["safety_tag"]  # of snapshot 6
    # The numbers in between are gone ...
    report = table.run("rollback", tag=safety)
    assert "the snapshots between it and 6 are missing" in str(report.error)
    assert "rollback_to_as_latest" in str(report.error)
    # ... and later on 6 is another snapshot.
    for number in range(20, 25):
        table.do("write", rows=[[number, "new"]])
    assert table.snapshots() == [1, 2, 3, 4, 5, 6, 7]
    report = table.run("rollback", tag=safety)
    assert "snapshot 6 of table db.t has been replaced" in str(report.error)
    assert table.numbers() == [0, 1, 20, 21, 22, 23, 24]
    assert table.run("rollback_to_as_latest", tag=safety).error is None
    assert table.numbers() == [0, 1, 2, 3, 9]


def test_back_to_the_next_number_keeps_what_is_earlier(table: Table) -> None:
    (table.root / "snapshot" / "EARLIEST").write_text("1")
    safety = table.run("rollback", snapshot=5).details["safety_tag"]
    assert table.run("rollback", tag=safety).error is None
    assert table.snapshots() == [1, 2, 3, 4, 5, 6]
    assert (table.root / "snapshot" / "EARLIEST").read_text() == "1"
    assert_whole(table.warehouse)


def test_the_safety_tag_leads_back_from_a_fast_forward(table: Table, oracle: Oracle) -> None:
    before = table.numbers()
    table.do("create_branch", name="b", tag="t2")
    table.do("write", branch="b", rows=[[80, "b"]])
    safety = table.run("fast_forward", branch_name="b").details["safety_tag"]
    assert table.numbers() == [0, 1, 80]
    assert safety in table.tags()
    kept = oracle([{"op": "read", **table.at, "tag": safety}])[0]["rows"]
    assert [r[1] for r in kept] == before
    assert_no_leftovers(table.warehouse)
    # A second branch is no reason to lose it.
    table.do("create_branch", name="b2", tag="t2")
    assert "safety_tag" in table.run("fast_forward", branch_name="b2").details
    assert table.run("rollback_to_as_latest", tag=safety).error is None
    assert table.numbers() == before
    assert_no_leftovers(table.warehouse)


def test_no_safety_tag_that_main_could_not_read_after_a_fast_forward(table: Table) -> None:
    table.do("create_branch", name="b", tag="t2")
    table.do("alter_table", changes=[{"change": "add_column", "name": "x", "type": "INT"}])
    table.do("write", rows=[[50, "new", 1]])
    report = table.run("fast_forward", branch_name="b")
    assert report.error is None
    assert "safety_tag" not in report.details
    assert table.numbers() == [0, 1]
    assert_no_leftovers(table.warehouse)


def test_a_commit_since_the_plan_stops_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    import paimon_maintenance.jobs.versions.rollback as module

    steps = job_named("rollback").load()
    assert steps.recheck is not None
    real = module.find_garbage

    def and_commit(*args: Any) -> Any:
        table.do("write", rows=[[66, "new"]])
        return real(*args)

    monkeypatch.setattr(module, "find_garbage", and_commit)
    report = table.run("rollback", snapshot=1)
    assert type(report.error).__name__ == "StalePlan"
    assert 66 in table.numbers()


def test_as_latest_and_on(table: Table, oracle: Oracle) -> None:
    assert table.run("rollback_to_as_latest", snapshot=2).error is None
    assert table.snapshots() == [1, 2, 3, 4, 5, 6, 7]
    assert table.numbers() == [0, 1]
    assert [r[1] for r in oracle.defaults(**table.at).rows()] == [0, 1]
    assert table.run("rollback_to_as_latest", snapshot=2).status is Status.NOTHING_TO_DO
    # Files that were deleted and came back are not garbage, whatever expires.
    table.do("expire_snapshots", retain_max=3, retain_min=1, max_deletes=99)
    assert table.numbers() == [0, 1]
    assert_no_leftovers(table.warehouse)
    table.do("write", rows=[[70, "x"]])
    table.do("compact")
    table.do("expire_snapshots", retain_max=1, retain_min=1, max_deletes=99)
    assert [r[1] for r in oracle.rows()] == [0, 1, 70]
    assert_no_leftovers(table.warehouse)


def test_deletion_vectors_that_come_back_outlive_the_expiry_of_java(
    oracle: Oracle, tmp_path: Path
) -> None:
    """The data files are the same; only the file of the deletion vectors comes back."""
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    sql = Sql(tmp_path)
    sql("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (k INT) TBLPROPERTIES ('deletion-vectors.enabled' = 'true');
        INSERT INTO t VALUES (1), (2), (3);
        DELETE FROM t WHERE k = 1;
        DELETE FROM t WHERE k = 2
    """)
    table = Table(tmp_path, create=False)
    assert table.run("rollback_to_as_latest", snapshot=2).error is None
    # The oldest snapshot that is left, 3, does not have the file.
    oracle([{"op": "expire_snapshots", "retain_max": 2, "retain_min": 1, "max_deletes": 99}])
    assert [r[1:] for r in oracle.rows()] == [[2], [3]]
    assert [r[1:] for r in read_rows(tmp_path)] == [[2], [3]]
    assert_whole(tmp_path)


def test_java_sees_files_that_were_deleted_and_come_back(oracle: Oracle, tmp_path: Path) -> None:
    """Java applies deletions of all manifests to all additions, whatever their order."""
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    oracle.defaults(**at)
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
    oracle(
        [
            {**create, "options": {"bucket": "1", "write-only": "true"}},
            {"op": "write", "rows": [[1, "a"]]},
            {"op": "write", "rows": [[2, "b"]]},
            {"op": "compact", "full": True},
        ]
    )
    job = job_named("rollback_to_as_latest")
    report = run_table(
        RunRequest(
            job=job,
            warehouse=str(tmp_path),
            table="db.t",
            arguments=job.read_arguments({"snapshot": 2}),
        )
    )
    assert report.error is None
    assert [r[1] for r in oracle.rows()] == [1, 2]


def test_branches(table: Table, oracle: Oracle) -> None:
    oracle.defaults(**table.at)
    assert table.run("create_branch", branch_name="b", tag="t4").error is None
    table.do("write", branch="b", rows=[[80, "b"]])
    oracle([{"op": "write", "branch": "b", "rows": [[81, "java"]], "compact": False}])
    assert table.run("rename_branch", branch_name="b", target_branch="c").error is None
    table.do("delete_tag", name="t4")
    table.do("delete_tag", name="t2")
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert_no_leftovers(table.warehouse)
    assert [r[1] for r in oracle.rows(branch="c")] == [0, 1, 2, 3, 80, 81]
    assert table.run("delete_branch", branch_name="c").error is None
    assert table.do("branches")["branches"] == []
    assert table.numbers() == [0, 1, 2, 3, 9]
    assert_no_leftovers(table.warehouse)
    for wrong in ({"branch_name": "c"}, {"branch_name": "main"}):
        assert table.run("delete_branch", **wrong).error is not None


def test_a_branch_from_a_tag_whose_changelog_is_gone(tmp_path: Path, oracle: Oracle) -> None:
    """Its snapshot names no changelog, so a stream that begins there goes on."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    oracle([{"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}])
    oracle([{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(4)])
    table = Table(tmp_path, create=False)
    table.do("create_tag", name="t2", snapshot=2)
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert table.run("create_branch", branch_name="b", tag="t2").error is None
    oracle([{"op": "write", "branch": "b", "rows": [[7, "on"]], "compact": False}])
    assert [r[1] for r in oracle.rows(branch="b")] == [0, 1, 7]
    plans = oracle.one("stream_read", branch="b", max_plans=9, **{"from": 2})["plans"]
    assert [r[1] for plan in plans for r in plan["rows"]][-1:] == [7]
    assert_no_leftovers(tmp_path)


def test_a_branch_without_schema_can_be_deleted(table: Table) -> None:
    """As Java leaves it when it is stopped while it makes one: tag and snapshot come first there."""
    table.run("create_branch", branch_name="b", tag="t2")
    shutil.rmtree(table.root / "branch" / "branch-b" / "schema")
    expiry = table.run("expire_snapshots", retain_max=1, retain_min=1)
    assert type(expiry.error).__name__ == "CorruptTable"
    assert table.run("delete_branch", branch_name="b").error is None
    assert table.run("expire_snapshots", retain_max=1, retain_min=1).error is None
    assert_no_leftovers(table.warehouse)


def test_fast_forward_beside_java(tmp_path: Path, oracle: Oracle) -> None:
    ours = Table(tmp_path / "ours")
    ours.do("create_branch", name="b", tag="t4")
    for number in (80, 81):
        ours.do("write", branch="b", rows=[[number, "b"]])
    ours.do("create_tag", branch="b", name="t5b", snapshot=5)
    shutil.copytree(tmp_path / "ours", tmp_path / "java")
    java = {**ours.at, "warehouse": str(tmp_path / "java")}
    oracle.defaults(**java)
    oracle([{"op": "fast_forward", "name": "b"}])
    ours.do("fast_forward", name="b")
    assert ours.snapshots() == sorted(s["id"] for s in oracle.one("snapshots")["snapshots"])
    assert ours.tags() == sorted(t["name"] for t in oracle.one("tags")["tags"])
    assert oracle.rows(**ours.at) == oracle.rows() != []
    assert_no_leftovers(tmp_path / "ours")
    assert ours.run("fast_forward", branch_name="b").status is Status.NOTHING_TO_DO
    # Main and the branch share snapshots now: each keeps the files of the other.
    for branch in ("main", "b"):
        ours.do("compact", branch=None if branch == "main" else branch)
    ours.do("expire_snapshots", retain_max=1, retain_min=1)
    assert_no_leftovers(tmp_path / "ours")
    assert [r[1] for r in oracle.rows(branch="b", **ours.at)] == [0, 1, 2, 3, 80, 81]


def test_manifests(table: Table, oracle: Oracle) -> None:
    rows = table.do("read")["rows"]
    report = table.run("compact_manifest")
    assert report.error is None
    assert report.details["manifests"] == 1
    manifests = table.do("manifests")
    assert sum(m["deleted"] for m in manifests["base"]["manifests"]) == 0
    assert manifests["delta"]["manifests"] == []
    assert table.do("read")["rows"] == rows
    assert oracle.defaults(**table.at).rows() == rows
    assert table.run("compact_manifest").status is Status.NOTHING_TO_DO
    assert_whole(table.warehouse)


@pytest.mark.parametrize("target", [{"snapshot": 3}, {"tag": "t2"}, {"tag": "t4"}])
@pytest.mark.parametrize("expired", [False, True])
def test_ours_beside_java(
    target: dict[str, Any],
    expired: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    oracle: Oracle,
) -> None:
    if expired and "snapshot" in target:
        # Only a tag outlives the snapshot it names.
        pytest.skip("the snapshot has expired")
    ours = Table(tmp_path / "ours")
    if expired:
        ours.do("expire_snapshots", retain_max=1, retain_min=1)
    shutil.copytree(tmp_path / "ours", tmp_path / "java")
    java = {**ours.at, "warehouse": str(tmp_path / "java")}
    oracle.defaults(**java)
    oracle([{"op": "rollback_to", **target}])
    ours.do("rollback_to", **target)
    assert ours.snapshots() == sorted(s["id"] for s in oracle.one("snapshots")["snapshots"])
    assert ours.tags() == sorted(t["name"] for t in oracle.one("tags")["tags"])
    assert oracle.rows(**ours.at) == oracle.rows()
    assert_no_leftovers(tmp_path / "ours")
    for at in (java, ours.at):
        oracle([{"op": "write", "rows": [[55, "on"]], "compact": False, **at}])
    assert oracle.rows(**ours.at) == oracle.rows()


def test_back_to_a_watermark(tmp_path: Path) -> None:
    table = Table(tmp_path, create=False)
    table.do("create_table", columns=COLUMNS, options={"bucket": "-1", "write-only": "true"})
    for number, watermark in enumerate((None, 1000, 2000, 3000)):
        table.do("write", rows=[[number, "x"]], watermark=watermark)
    assert type(table.run("rollback", watermark=999).error).__name__ == "NotFound"
    report = table.run("rollback", watermark=2999)
    assert report.error is None
    assert report.details["rolled_back_to"] == 3
    assert table.numbers() == [0, 1, 2]
    both = table.run("rollback", watermark=1, snapshot=2)
    assert "set exactly one of" in str(both.error)


def test_branches_as_the_procedures_take_them(table: Table) -> None:
    """Several at once, what exists is left alone if asked, and no branch that readers need goes."""
    for name in ("a", "b", "c"):
        table.do("create_branch", name=name, tag="t2")
        table.do("write", branch=name, rows=[[77, name]])
    taken = table.run("create_branch", branch_name="a", tag="t4")
    assert type(taken.error).__name__ == "ReferenceExists"
    ignored = table.run("create_branch", branch_name="a", tag="t4", ignore_if_exists=True)
    assert ignored.status is Status.NOTHING_TO_DO
    for option in ("scan.fallback-branch", "scan.primary-branch"):
        change = {"change": "set_option", "key": option, "value": "c"}
        table.do("alter_table", changes=[change])
        refused = table.run("delete_branch", branch_name="b,c")
        assert type(refused.error).__name__ == "InvalidArgument"
        table.do("alter_table", changes=[{"change": "remove_option", "key": option}])
    for target in ("a", "b"):
        to_itself = table.run("rename_branch", branch_name="a", target_branch=target)
        assert type(to_itself.error).__name__ == "ReferenceExists"
    report = table.run("delete_branch", branch_name="a,b")
    assert report.details["deleted_branches"] == ["a", "b"]
    assert table.do("branches")["branches"] == ["c"]
    assert_no_leftovers(table.warehouse)


def test_words_of_the_procedures(table: Table) -> None:
    """Their own names of the arguments are taken too; --branch is theirs where they have it."""
    at = ("-w", table.warehouse, "--json")
    for words in (
        ("create_branch", "--branch", "b", "--tag", "t2"),
        ("rename_branch", "--from-branch", "b", "--to-branch", "d"),
        ("create_branch", "--branch", "d", "--name", "e"),
        ("compact", "--engine", "local"),
        ("delete_branch", "--branch", "d,e"),
        ("reset_consumer", "--consumer-id", "c", "--next-snapshot-id", "3"),
        ("rollback", "--snapshot-id", "5", "--force"),
        ("compact_manifest", "--options", "manifest.target-file-size=1 kb,bucket=1"),
    ):
        branch = "$branch_d" if words[0] == "compact" else ""
        ran = caretaker("run", words[0], f"db.t{branch}", *at, *words[1:])
        assert ran.code == 0, ran.err
        assert ran.json["status"] == "success"
    assert table.do("branches")["branches"] == []
    assert caretaker("inspect", "db.t$branch_no", *at).json["error"]["type"] == "NotFound"
    for name, more in (("db.t$branch_b", ("--branch", "c")), ("db.t$files", ())):
        assert caretaker("plan", "compact", name, *at, *more).code == 2


@pytest.mark.parametrize("protected", [True, False])
def test_javas_expiry_spares_what_came_back(
    protected: bool,  # noqa: FBT001 - a parameter of the test
    oracle: Oracle,
    tmp_path: Path,
) -> None:
    """Without the tag Java deletes live files, which is why there is one."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
    writes = [{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(3)]
    oracle([create | {"options": {"bucket": "1"}}, *writes, {"op": "compact"}])
    table = Table(tmp_path, create=False)
    report = table.run("rollback_to_as_latest", snapshot=2)
    tag = report.details["protecting_tag"]
    assert table.tags() == [tag]
    if not protected:
        table.do("delete_tag", name=tag)
    oracle([{"op": "write", "rows": [[7, "on"]], "compact": False}])
    oracle([{"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}])
    assert table.snapshots() == [6]
    if not protected:
        assert caretaker("verify", "db.t", "-w", tmp_path).code == 7
        return
    assert [r[1] for r in oracle.rows()] == [0, 1, 7] == table.numbers()
    table.do("delete_tag", name=tag)
    assert [r[1] for r in oracle.rows()] == [0, 1, 7]
    assert_whole(tmp_path)


def test_javas_deletion_of_the_tag_spares_what_came_back(oracle: Oracle, tmp_path: Path) -> None:
    """Java looks at the neighbours of a tag that it deletes, and at the oldest snapshot."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
    writes = [{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(3)]
    tag = {"op": "create_tag", "name": "mine", "snapshot": 2}
    expire = {"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}
    oracle([create | {"options": {"bucket": "1"}}, *writes, tag, {"op": "compact"}, expire])
    table = Table(tmp_path, create=False)
    assert table.run("rollback_to_as_latest", tag="mine").error is None
    oracle([{"op": "delete_tag", "name": "mine"}])
    assert [r[1] for r in oracle.rows()] == [0, 1] == table.numbers()
    assert_whole(tmp_path)


def test_javas_expiry_spares_the_tag_whose_content_came_back(
    oracle: Oracle, tmp_path: Path
) -> None:
    """It keeps the files of the nearest older tag alone, which is another one by then."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
    writes = [{"op": "write", "rows": [[i, "x"]], "compact": False} for i in range(4)]
    tags = [{"op": "create_tag", "name": f"of {i}", "snapshot": i} for i in (2, 4)]
    steps = [*writes[:2], {"op": "compact"}, writes[2], *tags]
    oracle([create | {"options": {"bucket": "1"}}, *steps])
    table = Table(tmp_path, create=False)
    report = table.run("rollback_to_as_latest", tag="of 2")
    assert report.error is None
    assert table.run("rollback_to_as_latest", tag="of 2").status is Status.NOTHING_TO_DO
    oracle([{"op": "compact", "full": True}, writes[3]])
    oracle([{"op": "expire_snapshots", "retain_max": 1, "retain_min": 1}])
    for name in table.tags():
        (read,) = oracle([{"op": "read", "tag": name}])
        assert len(read["rows"]) == (3 if name == "of 4" else 2)
    assert caretaker("verify", "db.t", "-w", tmp_path).code == 0
    table.run("delete_tag", tag=[t for t in table.tags() if t.startswith("rollback-to")])
    assert_whole(tmp_path)


def test_files_that_change_their_level_again(oracle: Oracle, tmp_path: Path) -> None:
    """Up by a compaction, down as the latest, up again: Java once did not see them any more."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
    options = {"bucket": "1", "compaction.small-file-ratio": "0"}
    write = {"op": "write", "rows": [[i, "x" * 50] for i in range(50)], "compact": False}
    oracle([create | {"options": options}, write, {"op": "compact"}])
    table = Table(tmp_path, create=False)
    report = table.run("rollback_to_as_latest", snapshot=1)
    assert report.error is None
    assert report.snapshots == (3, 4)
    levels = [(f["level"], f["file"]) for f in table.do("files")["files"]]
    oracle([{"op": "compact"}])
    moved = [(f["level"], f["file"]) for f in table.do("files")["files"]]
    assert [f for _, f in moved] == [f for _, f in levels]
    assert moved != levels
    assert len(oracle.rows()) == 50
    assert_whole(tmp_path)


def test_a_branch_that_java_failed_to_make_blocks_nothing(
    oracle_1_4_2: Oracle, tmp_path: Path
) -> None:
    """Java 1.4 copies the tag, then fails as the tag's snapshot has expired."""
    table = Table(tmp_path)
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    (answer,) = oracle_1_4_2(
        [{"op": "create_branch", **table.at, "name": "b", "tag": "t2"}], check=False
    )
    assert "NoSuchFile" in answer["cause_type"]
    assert oracle_1_4_2.defaults(**table.at).one("branches")["branches"] == ["b"]
    table.do("write", rows=[[5, "y"]])
    table.do("expire_snapshots", retain_max=1, retain_min=1)
    assert len(table.snapshots()) == 1
    assert [r[1:] for r in oracle_1_4_2.rows(tag="t2")] == [[0, "x"], [1, "x"]]
