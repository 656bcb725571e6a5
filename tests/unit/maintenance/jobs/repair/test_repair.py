"""Every repair: planned, done, verified, done once, and left alone when it was not asked for."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from broken_tables import (
    CASES,
    broken_tag,
    live_paths,
    lost_consumers,
    lost_file,
    overlap,
    sound,
    stale_vector,
    wrong_hints,
)
from failing_io import FailingFileIO, Trigger
from lakes import ENV, Lake

import paimon_maintenance.run.request
from paimon_core.errors import GuardTripped, InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.job.lazy_list import json_parts
from paimon_maintenance.job.report import Report, Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem


def request(lake: Lake, job: str = "repair", *, force: bool = False, **arguments: object):
    found = job_named(job)
    return RunRequest(
        job=found,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=found.read_arguments(arguments),
        force=force,
    )


def repair(lake: Lake, *repairs: str, force: bool = False) -> Report:
    return run_table(request(lake, force=force, **({"repairs": list(repairs)} if repairs else {})))


def problems(lake: Lake) -> set[Problem]:
    return {f.problem for f in check_table(lake.table()).findings}


def rows(lake: Lake) -> list[dict[str, object]]:
    table = lake.table()
    found = [r for b in read_table(table, table.snapshots.latest()) for r in b.to_pylist()]
    return sorted(found, key=str)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    sound(lake)
    return lake


SAFE = ("rewrite_hint", "reset_consumer", "correct_sizes", "drop_vectors")


@pytest.mark.parametrize("case", CASES)
def test_each_repair_is_planned_done_and_done_once(case, lake):
    breaks, problem, name = CASES[case]
    breaks(lake)
    assert problem in problems(lake)
    plan = plan_table(request(lake, repairs=[name]))
    assert not plan.is_empty
    assert problem in problems(lake)
    report = repair(lake, name)
    assert report.status is Status.SUCCESS, report.error
    assert report.details["repaired"]
    # Older snapshots need the lost file still; the newest does not.
    left = {f.problem for f in check_table(lake.table()).findings if f.snapshot == latest(lake)}
    assert left == set()
    if name != "remove_unexisting_files":
        assert problems(lake) == set()
    assert repair(lake, name).status is Status.NOTHING_TO_DO


def latest(lake: Lake) -> int:
    return lake.table().latest_or_not_found().id


@pytest.mark.parametrize("case", [c for c, (_, _, name) in CASES.items() if name not in SAFE])
def test_what_gives_something_up_waits_to_be_asked_for(case, lake):
    breaks, _, name = CASES[case]
    breaks(lake)
    report = repair(lake)
    assert report.status is Status.NOTHING_TO_DO
    plan = plan_table(request(lake))
    assert any(f"--repair {name}" in k.why for k in plan.kept)


def test_a_sound_table_needs_nothing(lake):
    assert repair(lake).status is Status.NOTHING_TO_DO
    (kept,) = plan_table(request(lake)).kept
    assert kept.line() == "keep everything: verify finds no problems"


def test_consumers_go_to_the_nearest_snapshot(lake):
    lost_consumers(lake)
    repair(lake)
    assert {c.id: c.next_snapshot for c in lake.table().consumers.all()} == {
        "behind": 2,
        "ahead": 5,
        "fine": 3,
    }


def test_a_consumer_that_moved_since_stays(lake):
    from paimon_maintenance.jobs.repair.fixes import ConsumerFix

    lost_consumers(lake)
    table = lake.table()
    old = table.consumers.get("behind")
    table.consumers.set("behind", 4)
    fixed = ConsumerFix(branch=table, consumer=old, why="").apply(user="u", env=ENV)
    assert fixed.text == ""
    assert table.consumers.get("behind").next_snapshot == 4


def test_a_broken_tag_that_was_made_anew_since_stays(lake):
    from paimon_maintenance.jobs.repair.steps import apply, make

    broken_tag(lake)
    table = lake.table()
    plan = make(table, {"repairs": ["delete_reference"]}, None)
    Path(table.paths.tag("bad")).write_text(snapshot_to_json(table.snapshots.get(2)))
    apply(table, plan, RunContext(run_id="r", commit_user="u", env=ENV, engine=None, local=None))
    assert table.tags.names() == ["bad"]


def test_rows_of_a_lost_file_are_gone_and_the_others_are_there(lake):
    before = rows(lake)
    table = lake.table()
    lost = scan_files(table, table.latest_or_not_found())[0]
    Path(table.paths.data_file(lost.partition, lost.bucket, lost.file)).unlink()
    report = run_table(request(lake, "remove_unexisting_files"))
    assert report.status is Status.SUCCESS, report.error
    assert report.snapshots == (5,)
    assert table.snapshots.get(5).commit_kind is CommitKind.OVERWRITE
    assert len(rows(lake)) == len(before) - lost.file.row_count
    assert run_table(request(lake, "remove_unexisting_files")).status is Status.NOTHING_TO_DO


def test_a_file_that_comes_back_before_the_commit_stays(lake):
    from paimon_maintenance.jobs.repair.lost_files import remove_lost

    table = lake.table()
    live = scan_files(table, table.latest_or_not_found())
    assert remove_lost(table, live, user="u", env=ENV) is None
    assert table.latest_or_not_found().id == 4


def test_many_lost_files_trip_the_guard(lake):
    for path in live_paths(lake.table()):
        path.unlink()
    for job, arguments in (
        ("remove_unexisting_files", {}),
        ("repair", {"repairs": ["remove_unexisting_files"]}),
    ):
        report = run_table(request(lake, job, **arguments))
        assert isinstance(report.error, GuardTripped)
    assert run_table(request(lake, "remove_unexisting_files", force=True)).status is Status.SUCCESS
    assert rows(lake) == []


def test_a_read_that_fails_calls_nothing_missing(lake, monkeypatch):
    lost_file(lake)
    asked = request(lake, "remove_unexisting_files")
    right = plan_table(asked).to_json()["actions"]
    counter = Trigger(reads=True)
    use_failing_io(monkeypatch, counter)
    plan_table(asked)
    for at in range(counter.count):
        use_failing_io(monkeypatch, Trigger(at=at, reads=True, down=True))
        with suppress(OSError):
            assert plan_table(asked).to_json()["actions"] == right


def test_overlapping_files_are_merged_again(lake):
    overlap(lake)
    repair(lake, "move_down")
    values = {r["k"]: r["v"] for r in rows(lake)}
    assert len(rows(lake)) == len(values) == 12
    assert {values[k] for k in (1, 2, 11)} == {"new"}
    levels = {e.file.level for e in scan_files(lake.table(), lake.table().snapshots.latest())}
    assert 0 in levels


def test_vectors_of_live_files_stay(lake):
    stale_vector(lake)
    before = rows(lake)
    report = repair(lake, "drop_vectors")
    table = lake.table()
    newest = table.latest_or_not_found()
    assert report.snapshots == (newest.id,)
    assert newest.commit_kind is CommitKind.COMPACT
    (vectors,) = vector_files(table, newest).values()
    live = {e.file.file_name for e in scan_files(table, newest)}
    assert {r.data_file for f in vectors for r in f.dv_ranges} <= live
    assert rows(lake) == before


def test_unknown_repairs_are_refused(lake):
    with pytest.raises(InvalidArgument, match="'everything' is not one of rewrite_hint"):
        plan_table(request(lake, repairs=["everything"]))


def test_what_nothing_repairs_is_listed_with_what_to_do(lake):
    table = lake.table()
    path = table.paths.manifest(table.latest_or_not_found().delta_manifest_list)
    Path(path).unlink()
    plan = plan_table(request(lake))
    assert plan.is_empty
    assert any("missing_manifest_list" in k.what and "rollback" in k.why for k in plan.kept)


def test_branches_are_repaired_as_well(lake):
    lake.table().tags.create(__tag(lake))
    report = run_table(request(lake, "create_branch", branch_name="b", tag="t"))
    assert report.status is Status.SUCCESS, report.error
    branch = lake.table().snapshots.of_branch("b")
    hint = Path(branch.paths.snapshot_dir) / "LATEST"
    hint.write_text("77")
    assert Problem.WRONG_HINT in problems(lake)
    repair(lake)
    assert problems(lake) == set()


def __tag(lake: Lake):
    from paimon_core.refs.tags import Tag

    return Tag("t", lake.table().latest_or_not_found())


# --- failures -----------------------------------------------------------------------------------


def use_failing_io(monkeypatch: pytest.MonkeyPatch, trigger: Trigger) -> None:
    def opened(warehouse: str, name: str, **options: object) -> FileStoreTable:
        root = open_table(warehouse, name).root
        return open_table_at(FailingFileIO(trigger), root, name)

    monkeypatch.setattr(paimon_maintenance.run.request, "open_table_of", opened)


def test_the_plan_is_json(lake):
    lost_file(lake)
    wrong_hints(lake)
    told = json.loads("".join(json_parts(plan_table(request(lake)).to_json())))
    assert {f["problem"] for f in told["details"]["findings"]} == {
        "missing_data_file",
        "wrong_hint",
    }


def test_the_size_of_another_list_is_not_believed(lake: Lake) -> None:
    """With it in the snapshot, jobs would delete what the list of the snapshot names."""
    lake.fill(2)
    table = lake.table()
    last = table.latest_or_not_found()
    mine, other = (
        Path(table.paths.manifest(table.snapshots.get(n).base_manifest_list))
        for n in (last.id - 1, last.id)
    )
    mine.write_bytes(other.read_bytes())
    assert "wrong_size" in {f.problem for f in check_table(lake.table()).findings}
    plan = plan_table(request(lake, repairs=["correct_sizes"]))
    assert plan.is_empty
