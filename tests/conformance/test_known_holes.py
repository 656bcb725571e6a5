"""Known holes of upstream (apache/paimon): ours does not have them.

Whoever else works on the table and reads it afterwards is our own code, and Java where there is an
oracle.  The number in a test's name is upstream's issue or pull request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk import assert_no_leftovers, assert_whole, on_disk
from known_holes import COLUMNS, Party, each_call, run

from oracle import VERSIONS
from paimon_core.errors import CorruptTable, NotFound
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.job.report import Status
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem

ONE = {"retain_max": 1, "retain_min": 1}
NOW = 2**52
"""A time in milliseconds that everything is older than."""


@pytest.fixture(
    params=["ours", *(pytest.param(version, marks=pytest.mark.oracle) for version in VERSIONS)]
)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Party:
    """Our own code, and Java of each version."""
    if request.param == "ours":
        return Party(tmp_path)
    return Party(tmp_path, request.getfixturevalue(f"oracle_{request.param.replace('.', '_')}"))


def fill(other: Party, **options: str) -> None:
    """Four snapshots of one bucket, the last a compaction: only the first three hold old files."""
    told = {"bucket": "1", "write-only": "true", **options}
    other("create_table", columns=COLUMNS, primary_keys=["k"], options=told)
    for i in range(3):
        other("write", rows=[[0, f"v{i}"], [i + 1, "x"]])
    other("compact", full=True)


# --- tags and branches ----------------------------------------------------------------------------


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("calls", ["changes", "reads"])
def test_9220_a_tag_made_while_our_expiry_runs_can_be_read(calls: str, other: Party) -> None:
    """Java collects tags first, deletes files then: a tag in between is left without its files."""
    fill(other)
    before = other.rows(snapshot=2)
    made: list[bool] = []
    for report in each_call(
        other.warehouse,
        lambda: made.append(other.attempt("create_tag", name="late", snapshot=2)),
        lambda trigger: run(
            other.warehouse, "expire_snapshots", meanwhile=trigger, max_deletes=99, **ONE
        ),
        reads=calls == "reads",
    ):
        assert report.error is None, report.error
        assert bool(other.table.tags.names()) == made[-1]
        if made[-1]:
            assert other.rows(tag="late") == before
        assert len(other.rows()) == 4
        assert_no_leftovers(other.warehouse)
    assert set(made) == {True, False}


@pytest.mark.parametrize("calls", ["changes", "reads"])
def test_9220_our_tag_of_a_snapshot_that_expires_can_be_read_or_is_not_made(
    calls: str, other: Party
) -> None:
    fill(other)
    before = other.rows(snapshot=2)
    expiry = {"older_than_millis": NOW, "max_deletes": 99, **ONE} if other.oracle else ONE
    refused = 0
    for report in each_call(
        other.warehouse,
        lambda: other("expire_snapshots", **expiry),
        lambda trigger: run(other.warehouse, "create_tag", meanwhile=trigger, tag="t", snapshot=2),
        reads=calls == "reads",
    ):
        if report.error is None:
            assert other.rows(tag="t") == before
        else:
            refused += 1
            assert isinstance(report.error, NotFound | CorruptTable), report.error
            assert other.table.tags.names() == []
        assert_whole(other.warehouse)
    assert refused > 0
    assert other.rows(tag="t") == before, "nothing interfered with the last run"


@pytest.mark.sampled
def test_9220_our_tag_is_not_moved_to_a_snapshot_that_expires(other: Party) -> None:
    fill(other)
    other("create_tag", name="t", snapshot=4)
    before, moved = other.rows(tag="t"), other.rows(snapshot=2)
    expiry = {"older_than_millis": NOW, "max_deletes": 99, **ONE} if other.oracle else ONE
    refused = 0
    for report in each_call(
        other.warehouse,
        lambda: other("expire_snapshots", **expiry),
        lambda trigger: run(other.warehouse, "replace_tag", meanwhile=trigger, tag="t", snapshot=2),
        reads=True,
    ):
        if report.error is None:
            assert other.rows(tag="t") == moved
        else:
            refused += 1
            assert isinstance(report.error, NotFound | CorruptTable), report.error
            assert other.rows(tag="t") == before
        assert_whole(other.warehouse)
    assert refused > 0
    assert other.rows(tag="t") == moved, "nothing interfered with the last run"


def rows_of_branch_tag(other: Party) -> list[list[Any]]:
    """The rows of tag tb of branch b, read through main: Java does not find tags of branches."""
    file = other.root / "tag" / "tag-tb"
    file.write_bytes((other.root / "branch" / "branch-b" / "tag" / "tag-tb").read_bytes())
    try:
        return other.rows(tag="tb")
    finally:
        file.unlink()


def test_9867_tags_of_a_branch_keep_their_files(other: Party) -> None:
    """Java's expiry of a branch looks at the tags of main."""
    fill(other)
    other("create_tag", name="start", snapshot=2)
    other("create_branch", name="b", tag="start")
    other("write", branch="b", rows=[[0, "b"]])
    other("create_tag", branch="b", name="tb", snapshot=3)
    other("write", branch="b", rows=[[0, "newer"]])
    other("compact", branch="b", full=True)
    tagged, newest = rows_of_branch_tag(other), other.rows(branch="b")
    main = other.rows()
    expired = run(other.warehouse, "expire_snapshots", branch="b", max_deletes=99, **ONE)
    assert expired.error is None, expired.error
    assert expired.details["expired_snapshots"] == [2, 3, 4]
    assert rows_of_branch_tag(other) == tagged
    assert run(other.warehouse, "expire_snapshots", max_deletes=99, **ONE).error is None
    assert run(other.warehouse, "delete_tag", tag=["start"]).error is None
    assert rows_of_branch_tag(other) == tagged
    assert (other.rows(branch="b"), other.rows()) == (newest, main)
    assert_no_leftovers(other.warehouse)


@pytest.mark.parametrize("by", ["us", "other"])
def test_6272_a_branch_outlives_the_tag_from_which_it_begins(by: str, other: Party) -> None:
    """Java's deletion of tags does not look at branches."""
    fill(other)
    other("create_tag", name="t", snapshot=2)
    if by == "us":
        assert run(other.warehouse, "create_branch", branch_name="b", tag="t").error is None
    else:
        other("create_branch", name="b", tag="t")
    before = other.rows(branch="b")
    assert run(other.warehouse, "delete_tag", tag=["t"]).error is None
    assert run(other.warehouse, "expire_snapshots", max_deletes=99, **ONE).error is None
    assert other.table.snapshots.ids() == [4]
    remove_orphans(other.warehouse)
    assert other.rows(branch="b") == before
    other("write", branch="b", rows=[[50, "on"]])
    assert other.rows(branch="b") == sorted([*before, [50, "on"]], key=str)
    assert_no_leftovers(other.warehouse)


def remove_orphans(warehouse: Path) -> None:
    old = time.time() - 2 * 86_400
    for path in warehouse.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    report = run(warehouse, "remove_orphan_files", mode="delete")
    assert report.error is None, report.error


@pytest.mark.sampled
@pytest.mark.parametrize("job", ["expire_tags", "delete_tag"])
@pytest.mark.parametrize("what", ["base_manifest_list", "delta_manifest_list", "manifest"])
@pytest.mark.parametrize("neighbour", ["left", "right"])
def test_6479_a_tag_without_its_manifests_stops_the_expiry_of_its_neighbour(
    neighbour: str, what: str, job: str, other: Party
) -> None:
    """Java takes such a neighbour for one that needs no file, and deletes what it shares."""
    fill(other)
    for name, snapshot in (("left", 1), ("right", 3)):
        other("create_tag", name=name, snapshot=snapshot)
    other("create_tag", name="middle", snapshot=2, time_retained="1 ms")
    assert run(other.warehouse, "expire_snapshots", max_deletes=99, **ONE).error is None
    intact = "left" if neighbour == "right" else "right"
    tagged, newest = other.rows(tag=intact), other.rows()
    table = other.table
    broken = table.tags.get(neighbour).snapshot
    name = getattr(broken, what, None) or other_manifest(table, broken)
    Path(table.paths.manifest(name)).unlink()
    before = on_disk(other.root)
    time.sleep(0.01)
    arguments = {} if job == "expire_tags" else {"tag": ["middle"]}
    report = run(other.warehouse, job, **arguments)
    assert isinstance(report.error, CorruptTable), report.error
    assert on_disk(other.root) == before
    assert set(table.tags.names()) == {"left", "middle", "right"}
    if what != "manifest":  # which others need, too
        assert (other.rows(tag=intact), other.rows()) == (tagged, newest)


def other_manifest(table: Any, snapshot: Any) -> str:
    from paimon_core.scan.manifests import delta_manifests

    return str(delta_manifests(table, snapshot)[0].file_name)


# --- orphans --------------------------------------------------------------------------------------


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("calls", ["changes", "reads"])
def test_7710_commits_and_expiry_beside_our_orphan_job(calls: str, other: Party) -> None:
    """With one snapshot retained, every snapshot that Java listed may be gone when it is read."""
    fill(other)
    assert run(other.warehouse, "expire_snapshots", max_deletes=99, **ONE).error is None
    other("write", rows=[[90, "uncommitted"]], commit=False)
    orphans = on_disk(other.root)
    old = time.time() - 2 * 86_400

    def age() -> None:
        for path in other.root.rglob("*"):
            if path.is_file():
                os.utime(path, (old, old))

    def commit_and_expire() -> None:
        other("write", rows=[[50, "new"]])
        other("compact", full=True)
        fields = {"older_than_millis": NOW, "max_deletes": 99} if other.oracle else {}
        other("expire_snapshots", **ONE, **fields)

    def job(trigger: Any) -> Any:
        age()
        return run(other.warehouse, "remove_orphan_files", meanwhile=trigger, mode="delete")

    assert orphans
    done = set()
    for report in each_call(other.warehouse, commit_and_expire, job, reads=calls == "reads"):
        done.add(report.status)
        assert len(other.rows()) == 5
        assert_whole(other.warehouse)
    assert Status.SUCCESS in done


# --- rewrites -------------------------------------------------------------------------------------


class Interfering(LocalEngine):
    """Lets somebody else do something once the units have run, before their results are committed."""

    __slots__ = ("_interfere",)

    def __init__(self, interfere: Callable[[], object]) -> None:
        super().__init__()
        object.__setattr__(self, "_interfere", interfere)

    def run_units(self, *args: Any, **kwargs: Any) -> Any:
        results = super().run_units(*args, **kwargs)
        self._interfere()  # type: ignore[attr-defined] # set above, past the frozen class
        return results


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_7595_appends_beside_our_sort_survive(partitioned: str, other: Party) -> None:
    """Java's sort is an overwrite: it deletes what was appended since it read."""
    columns = [*COLUMNS, {"name": "dt", "type": "STRING NOT NULL"}]
    options = {"bucket": "-1", "write-only": "true", "compaction.min.file-num": "2"}
    keys = ["dt"] if partitioned else []
    other("create_table", columns=columns, partition_keys=keys, options=options)
    for i in range(3):
        other("write", rows=[[i * 10 + j, "x", f"d{j % 2}"] for j in range(10)])
    late = [[100, "late", "d0"], [101, "late", "d2"]]

    def append() -> None:
        for row in late:
            other("write", rows=[row])

    before = other.rows()
    report = run(
        other.warehouse,
        "sort_compact",
        services=RunServices(engine=Interfering(append)),
        order_by=["k"],
        order_strategy="order",
    )
    assert report.error is None, report.error
    assert report.snapshots
    assert other.rows() == sorted([*before, *late], key=str)
    assert_whole(other.warehouse)


def vectors(other: Party) -> list[str]:
    """The data files that have a deletion vector in the newest snapshot, live or not."""
    table = other.table
    return [
        r.data_file
        for e in table.index_entries(table.latest_or_not_found())
        if e.index_file.index_type == DELETION_VECTORS_INDEX
        for r in e.index_file.dv_ranges or ()
    ]


def test_8783_our_full_compaction_leaves_no_vector_of_a_file_that_is_gone(other: Party) -> None:
    """Java 1.4 rewrites files of the top level alone without dropping their vectors."""
    fill(other, **{"deletion-vectors.enabled": "true"})
    other("write", rows=[{"kind": "-D", "values": [1, "x"]}])
    other("compact", full=False)
    assert len(vectors(other)) == 1
    rows = other.rows()
    assert run(other.warehouse, "compact", strategy="full").error is None
    assert vectors(other) == []
    assert check_table(other.table).findings == []
    assert other.rows() == rows


def test_8783_old_vectors_of_others_are_found(other: Party) -> None:
    fill(other, **{"deletion-vectors.enabled": "true"})
    other("write", rows=[{"kind": "-D", "values": [1, "x"]}])
    other("compact", full=False)
    rows = other.rows()
    other("compact", full=True)
    left = vectors(other)
    leaves = other.oracle is not None and other.oracle.version == "1.4.2"
    assert bool(left) == leaves
    found = check_table(other.table).findings
    assert {f.problem for f in found} == ({Problem.VECTOR_WITHOUT_FILE} if leaves else set())
    assert other.rows() == rows
    repaired = run(other.warehouse, "repair")
    assert repaired.status is (Status.SUCCESS if leaves else Status.NOTHING_TO_DO)
    assert vectors(other) == []
    newest = other.table.latest_or_not_found().id
    assert [f for f in check_table(other.table).findings if f.snapshot == newest] == []
    other("write", rows=[[60, "on"]])
    other("compact", full=True)
    assert other.rows() == sorted([*rows, [60, "on"]], key=str)


# --- partitions -----------------------------------------------------------------------------------


def test_9277_a_comma_in_a_partition_value_expires_no_other_partition(other: Party) -> None:
    """Java joins the values with commas, and drops the partition that it reads out of that."""
    columns = [
        COLUMNS[0],
        {"name": "area", "type": "STRING NOT NULL"},
        {"name": "dt", "type": "STRING NOT NULL"},
    ]
    other(
        "create_table",
        columns=columns,
        partition_keys=["area", "dt"],
        options={
            "bucket": "-1",
            "write-only": "true",
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyy-MM-dd",
        },
    )
    young, old = "2999-01-01", "2020-01-01"
    rows = [[1, f"eu,{young}", old], [2, "eu", young], [3, "us", young], [4, "a,b,c", young]]
    other("write", rows=rows)
    report = run(other.warehouse, "expire_partitions", expiration_time="10 d")
    assert report.error is None, report.error
    assert other.rows() == rows[1:]
    dropped = run(other.warehouse, "drop_partition", partitions=[r"area=a\,b\,c"])
    assert dropped.error is None, dropped.error
    assert other.rows() == rows[1:3]
    assert_whole(other.warehouse)


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("key", ["first", "second"])
def test_6439_partitions_by_date_expire(key: str, legacy: str, other: Party) -> None:
    """Java takes the day's number for a text that is no date, and expires nothing."""
    columns = [COLUMNS[0], {"name": "area", "type": "INT"}, {"name": "d", "type": "DATE"}]
    other(
        "create_table",
        columns=columns,
        partition_keys=["d", "area"] if key == "first" else ["area", "d"],
        options={
            "bucket": "-1",
            "write-only": "true",
            "partition.legacy-name": legacy,
            "partition.timestamp-pattern": "$d",
            "partition.timestamp-formatter": "yyyy-MM-dd",
        },
    )
    rows = [[1, 1, "2020-01-01"], [2, 1, "2999-12-31"], [3, 2, "1969-12-31"], [4, 2, None]]
    other("write", rows=rows)
    report = run(other.warehouse, "expire_partitions", expiration_time="1 d")
    assert report.error is None, report.error
    assert other.rows() == [rows[1], rows[3]]
    again = run(other.warehouse, "expire_partitions", expiration_time="1 d")
    assert again.status is Status.NOTHING_TO_DO
