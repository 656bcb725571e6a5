"""Verification: clean tables are clean, and each kind of damage is found and named."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core.commit.committer import CommitRequest, commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.io.local import LocalFileIO
from paimon_core.manifest.data_file import FileKind
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Problem, Repair, Severity

GOLDEN = Path(__file__).parents[3] / "golden"
NAMES = sorted((p.parent.parent.name, p.parent.name) for p in GOLDEN.glob("*/*/expected.json"))
KNOWN = {
    # Java's expiry of main takes the changelog of a snapshot that only a branch keeps.
    "orphans": {Problem.LOST_CHANGELOG},
    # Java's fast-forward leaves EARLIEST behind the snapshots that it copies.
    "tags_branches_ff": {Problem.WRONG_HINT},
}


@pytest.mark.one_java
@pytest.mark.parametrize(("version", "name"), NAMES)
def test_tables_of_java_are_clean(golden, version, name):
    table = golden(name, version)
    found = check_table(open_table(str(table.warehouse), "db.t"))
    assert {f.problem for f in found.findings} == KNOWN.get(name, set())
    assert found.checked["files"] > 0
    assert found.checked["rows"] > 0


class ManyAtOnce(LocalFileIO):
    """Local files that are worth reading several at once, as those of object stores are."""

    @property
    def parallelism(self) -> int:
        return 8


@pytest.mark.parametrize("name", ["changelog_decoupled", "deletion_vectors", "orphans", "levels"])
def test_reading_ahead_finds_the_same(golden, name):
    root = str(golden(name).root)
    slow = check_table(open_table_at(LocalFileIO(), root, "db.t"))
    fast = check_table(open_table_at(ManyAtOnce(), root, "db.t"))
    assert fast.to_json() == slow.to_json()


def test_a_first_snapshot_without_its_changelog_is_a_note(golden):
    """Java's expiry of main takes the changelog of the snapshot from which a branch begins."""
    table = golden("orphans", copy=True)
    handle = open_table(str(table.warehouse), "db.t")
    found = check_table(handle)
    assert found.clean
    (note,) = found.findings
    assert (note.problem, note.severity, note.repair) == (
        Problem.LOST_CHANGELOG,
        Severity.INFO,
        None,
    )
    assert caretaker("verify", "db.t", "-w", table.warehouse).code == 0
    plan = caretaker("plan", "repair", "db.t", "-w", table.warehouse, "--json")
    assert plan.json["empty"] is True
    assert "rollback" not in json.dumps(plan.json["kept"])


def test_a_later_snapshot_without_its_changelog_is_broken(golden):
    table = golden("changelog_input", copy=True)
    handle = open_table(str(table.warehouse), "db.t")
    snapshot = next(s for s in reversed(handle.snapshots.all()) if s.changelog_manifest_list)
    assert snapshot.id > handle.snapshots.earliest_id()
    Path(handle.paths.manifest(snapshot.changelog_manifest_list)).unlink()
    found = check_table(handle)
    assert not found.clean
    assert {f.problem for f in found.findings} == {Problem.MISSING_MANIFEST_LIST}


@pytest.fixture
def lake(lake: Lake, tmp_path: Path) -> Lake:
    lake.primary_key(buckets=2, partitioned=True)
    lake.fill(3)
    caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local")
    lake.fill(1)
    return lake


def problems(lake: Lake) -> dict[Problem, int]:
    found = check_table(lake.table())
    counts: dict[Problem, int] = {}
    for finding in found.findings:
        counts[finding.problem] = counts.get(finding.problem, 0) + 1
        assert finding.message
        json.dumps(finding.to_json())
    return counts


def root(lake: Lake) -> Path:
    return Path(lake.table().root)


def newest_file(lake: Lake) -> Path:
    table = lake.table()
    entry = scan_files(table, table.snapshots.latest())[-1]
    return Path(table.paths.data_file(entry.partition, entry.bucket, entry.file))


def test_a_healthy_table_is_clean(lake):
    assert problems(lake) == {}


def test_a_missing_data_file(lake):
    newest_file(lake).unlink()
    found = check_table(lake.table())
    (finding,) = found.findings
    assert finding.problem is Problem.MISSING_DATA_FILE
    assert finding.severity is Severity.ERROR
    assert finding.repair is Repair.REMOVE_UNEXISTING_FILES
    assert finding.partition is not None
    assert finding.partition.startswith("dt=day")
    assert not found.clean


def test_a_truncated_data_file(lake):
    path = newest_file(lake)
    path.write_bytes(path.read_bytes()[:-10])
    assert problems(lake) == {Problem.WRONG_SIZE: 1, Problem.UNREADABLE: 1}


def test_rows_that_are_not_there(lake):
    path = newest_file(lake)
    pq.write_table(pq.read_table(path).slice(1), path)
    assert problems(lake)[Problem.WRONG_ROW_COUNT] == 1
    quick = check_table(lake.table(), Scope(rows=False))
    assert Problem.WRONG_ROW_COUNT not in {f.problem for f in quick.findings}


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("delta_manifest_list", Problem.MISSING_MANIFEST_LIST),
        ("base_manifest_list", Problem.MISSING_MANIFEST_LIST),
    ],
)
def test_a_missing_manifest_list(lake, what, problem):
    table = lake.table()
    name = getattr(table.snapshots.latest(), what)
    Path(table.paths.manifest(name)).unlink()
    assert problems(lake) == {problem: 1}


def test_a_missing_manifest_is_missed_by_every_snapshot_that_needs_it(lake):
    from paimon_core.scan.manifests import delta_manifests

    table = lake.table()
    (meta,) = delta_manifests(table, table.snapshots.get(1))
    Path(table.paths.manifest(meta.file_name)).unlink()
    assert problems(lake)[Problem.MISSING_MANIFEST] >= len(table.snapshots.ids())


def test_a_manifest_that_cannot_be_read(lake):
    from paimon_core.scan.manifests import delta_manifests

    table = lake.table()
    (meta,) = delta_manifests(table, table.snapshots.latest())
    path = Path(table.paths.manifest(meta.file_name))
    path.write_bytes(b"x" * meta.file_size)
    assert problems(lake) == {Problem.UNREADABLE: 1}


def test_a_missing_schema(lake):
    first = root(lake) / "schema" / "schema-0"
    (root(lake) / "schema" / "schema-1").write_text(
        first.read_text().replace('"id" : 0,', '"id" : 1,', 1)
    )
    first.unlink()
    found = check_table(lake.table())
    assert {f.problem for f in found.findings} == {Problem.MISSING_SCHEMA}


def test_a_missing_schema_is_missed_by_each_tag_that_needs_it(lake):
    """Its snapshots say so too, but a tag outlives them, and is repaired by itself."""
    for tag in ("a", "b"):
        caretaker("run", "create_tag", "db.t", "-w", lake.warehouse, "--tag", tag)
    test_a_missing_schema(lake)
    found = check_table(lake.table())
    assert {f.reference for f in found.findings if f.repair is Repair.DELETE_REFERENCE} == {
        "tag a",
        "tag b",
    }


def test_a_snapshot_that_cannot_be_read_hides_nothing_else(lake):
    (root(lake) / "snapshot" / "snapshot-2").write_text("{}")
    newest_file(lake).unlink()
    assert problems(lake) == {Problem.UNREADABLE: 1, Problem.MISSING_DATA_FILE: 1}


def test_wrong_hints(lake):
    snapshots = root(lake) / "snapshot"
    (snapshots / "LATEST").write_text("3")
    (snapshots / "EARLIEST").write_text("2")
    found = check_table(lake.table())
    assert [f.problem for f in found.findings] == [Problem.WRONG_HINT] * 2
    assert {f.repair for f in found.findings} == {Repair.REWRITE_HINT}
    assert found.clean


@pytest.mark.parametrize("told", ["51", "7"])
def test_a_hint_beyond_the_newest_snapshot_breaks_the_table(lake, told):
    """Java believes LATEST unless the next number exists, and then finds no such file."""
    hint = root(lake) / "snapshot" / "LATEST"
    hint.write_text(told)
    found = check_table(lake.table())
    (finding,) = found.findings
    assert (finding.problem, finding.severity) == (Problem.WRONG_HINT, Severity.ERROR)
    assert finding.repair is Repair.REWRITE_HINT
    assert "Java readers and writers fail" in finding.message
    assert caretaker("run", "repair", "db.t", "-w", lake.warehouse).code == 0
    assert hint.read_text() == "5"
    assert check_table(lake.table()).findings == []


def test_a_hint_of_a_table_without_snapshots(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key()
    hint = root(lake) / "snapshot" / "LATEST"
    hint.parent.mkdir(exist_ok=True)
    hint.write_text("3")
    (finding,) = check_table(lake.table()).findings
    assert (finding.problem, finding.severity) == (Problem.WRONG_HINT, Severity.ERROR)
    assert caretaker("run", "repair", "db.t", "-w", lake.warehouse).code == 0
    assert not hint.exists()


@pytest.mark.parametrize("told", ["", "x", "-3", "0", "4"])
def test_a_hint_that_readers_see_through_breaks_nothing(lake, told):
    (root(lake) / "snapshot" / "LATEST").write_text(told)
    found = check_table(lake.table())
    assert found.clean
    assert [(f.problem, f.repair) for f in found.findings] == [
        (Problem.WRONG_HINT, Repair.REWRITE_HINT)
    ]


def test_a_hint_below_a_gap_is_not_rewritten(lake):
    """Which side of the gap is the table is not for a hint to say."""
    (root(lake) / "snapshot" / "snapshot-4").unlink()
    hint = root(lake) / "snapshot" / "LATEST"
    hint.write_text("3")
    found = check_table(lake.table())
    (finding,) = [f for f in found.findings if f.problem is Problem.WRONG_HINT]
    assert finding.repair is None
    caretaker("run", "repair", "db.t", "-w", lake.warehouse)
    assert hint.read_text() == "3"


def test_a_commit_while_hints_are_compared_is_no_finding(lake, monkeypatch):
    from paimon_maintenance.verify import hints

    real, asked = hints._hint, []

    def and_commit(table, kind, name):
        if not asked:
            asked.append(name)
            lake.fill(1)
        return real(table, kind, name)

    monkeypatch.setattr(hints, "_hint", and_commit)
    assert check_table(lake.table()).findings == []
    assert asked


def test_hints_of_changelogs(golden):
    table = golden("changelog_decoupled", copy=True)
    handle = open_table(str(table.warehouse), "db.t")
    newest = max(handle.changelogs.ids())
    (Path(handle.paths.changelog_dir) / "LATEST").write_text(str(newest + 7))
    (finding,) = check_table(handle).findings
    assert (finding.problem, finding.repair) == (Problem.WRONG_HINT, Repair.REWRITE_HINT)
    assert caretaker("run", "repair", "db.t", "-w", table.warehouse).code == 0
    assert handle.changelogs.latest_id() == newest
    assert check_table(handle).findings == []


def test_missing_hints_are_no_finding(lake):
    for name in ("LATEST", "EARLIEST"):
        (root(lake) / "snapshot" / name).unlink(missing_ok=True)
    assert problems(lake) == {}


def test_a_gap_between_snapshots(lake):
    (root(lake) / "snapshot" / "snapshot-2").unlink()
    assert problems(lake) == {Problem.SNAPSHOT_GAP: 1}


def test_consumers_outside_the_snapshots(lake):
    (root(lake) / "snapshot" / "snapshot-1").unlink()
    (root(lake) / "snapshot" / "EARLIEST").write_text("2")
    lake.table().consumers.set("slow", 1)
    lake.table().consumers.set("fine", 6)
    lake.table().consumers.set("ahead", 9)
    assert problems(lake) == {Problem.STALE_CONSUMER: 1, Problem.CONSUMER_AHEAD: 1}


def commit_files(lake: Lake, change) -> None:
    """Commit the newest file of level 5 once more, changed, without the usual checks."""
    from dataclasses import replace

    table = lake.table()
    entry = next(e for e in scan_files(table, table.snapshots.latest()) if e.file.level == 5)
    twin = Path(table.paths.data_file(entry.partition, entry.bucket, entry.file))
    (twin.parent / "data-twin-0.parquet").write_bytes(twin.read_bytes())
    added = replace(
        entry, kind=FileKind.ADD, file=replace(entry.file, file_name="data-twin-0.parquet")
    )
    request = CommitRequest(user="u", kind=CommitKind.APPEND, check=False)
    commit_changes(table, lambda _: ManifestChanges(files=(change(added),)), request, env=ENV)


def test_keys_that_overlap_within_a_level(lake):
    commit_files(lake, lambda entry: entry)
    assert problems(lake) == {Problem.KEY_OVERLAP: 1}


def test_a_partition_with_two_bucket_numbers(lake):
    from dataclasses import replace

    commit_files(lake, lambda e: replace(e, total_buckets=7, file=replace(e.file, level=0)))
    found = check_table(lake.table())
    (finding,) = found.findings
    assert finding.problem is Problem.MIXED_BUCKETS
    assert finding.repair is Repair.RESCALE
    assert not found.clean


def test_a_total_that_is_not_the_sum(lake):
    path = root(lake) / "snapshot" / "snapshot-5"
    snapshot = json.loads(path.read_text())
    snapshot["totalRecordCount"] += 1
    path.write_text(json.dumps(snapshot))
    assert problems(lake) == {Problem.WRONG_RECORD_TOTAL: 1}


def test_only_some_snapshots(lake):
    newest_file(lake).unlink()
    assert check_table(lake.table(), Scope.of_snapshots({1})).clean
    assert not check_table(lake.table(), Scope.of_snapshots({5})).clean


def test_the_command_tells_it_in_json_and_by_its_exit_code(lake):
    clean = caretaker("verify", "db.t", "-w", lake.warehouse, "--json")
    assert clean.code == 0
    assert clean.json["clean"] is True
    newest_file(lake).unlink()
    broken = caretaker("verify", "db.t", "-w", lake.warehouse, "--json")
    assert broken.code == 7
    assert broken.json["findings"][0]["problem"] == "missing_data_file"
    text = caretaker("verify", "db.t", "-w", lake.warehouse)
    assert "BROKEN" in text.out
    many = caretaker("verify", "db.*", "-w", lake.warehouse, "--json")
    assert many.code == 7
    assert [t["table"] for t in many.json["tables"]] == ["db.t"]


def test_an_unreadable_consumer_is_found_and_can_be_reset(lake):
    where = ("db.t", "-w", lake.warehouse)
    path = Path(lake.table().paths.consumer("torn"))
    path.parent.mkdir()
    path.write_text("")
    lake.table().consumers.set("whole", 2)
    (finding,) = check_table(lake.table()).findings
    assert (finding.problem, finding.severity) == (Problem.UNREADABLE, Severity.ERROR)
    assert "reset_consumer" in finding.message
    reset = ("run", "reset_consumer", *where, "--consumer-id", "torn")
    assert caretaker(*reset, "--next-snapshot", 3).code == 0
    assert [c.next_snapshot for c in lake.table().consumers.all()] == [3, 2]
    path.write_text("{")
    assert caretaker(*reset).code == 0
    assert lake.table().consumers.ids() == ["whole"]


def test_a_branch_without_schema_is_found(lake):
    folder = Path(lake.table().paths.branch_dir("torn")) / "snapshot"
    folder.mkdir(parents=True)
    (folder / "snapshot-1").write_bytes(Path(lake.table().paths.snapshot(1)).read_bytes())
    found = check_table(lake.table())
    assert [f.problem for f in found.findings] == [Problem.MISSING_SCHEMA]
    assert "delete_branch" in found.findings[0].message
    assert found.findings[0].branch == "torn"
    assert found.checked["snapshots"] > 1, "main is still checked"
    where = ("db.t", "-w", lake.warehouse)
    assert caretaker("run", "repair", *where).code == 3
    assert caretaker("run", "delete_branch", *where, "--name", "torn").code == 0
    assert check_table(lake.table()).clean
