"""What a writer removes after its commit, beside a job that shortens the history.

The writer holds no lease, so the job may meet its journal while it is at work.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker, read_rows
from failing_io import FailingFileIO, Trigger
from lakes import ENV, Lake, age_all
from lakes import append_to_branch as append

from paimon_core.reachability.release import journals
from paimon_core.table.open import open_table_at
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_maintenance.jobs.versions import inflight_commits

OPTIONS = {
    "write-only": "false",
    "snapshot.num-retained.max": "1",
    "snapshot.num-retained.min": "1",
    "snapshot.time-retained": "1 ms",
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    lake = Lake(tmp_path)
    lake.primary_key()
    return fill(lake)


def fill(lake: Lake) -> Lake:
    lake.fill(2)
    run(lake, "compact", "--engine", "local")
    lake.fill(3)
    return lake


def run(lake: Lake, job: str, *more: object) -> int:
    return caretaker("run", job, "db.t", "-w", lake.warehouse, "--force", *more).code


def maintain(lake: Lake, trigger: Trigger) -> AfterCommit:
    """What the writer does after a commit."""
    root = lake.table().root
    table = open_table_at(FailingFileIO(trigger), root, "db.t", dynamic_options=OPTIONS)
    after = AfterCommit(table, env=ENV)
    after.run(user="writer", identifier=7)
    return after


def is_whole(lake: Lake) -> bool:
    verified = caretaker("verify", "db.t", "-w", lake.warehouse)
    return verified.code == 0 and len(read_rows(lake.warehouse)) == 10


@pytest.mark.sampled
@pytest.mark.parametrize("target", [4, 5])
def test_a_rollback_at_any_moment_leaves_no_hollow_snapshot(target: int, tmp_path: Path) -> None:
    k = 0
    while True:
        lake = Lake(tmp_path / str(k))
        lake.primary_key()
        fill(lake)
        codes: list[int] = []

        def go_back(lake: Lake = lake, codes: list[int] = codes) -> None:
            codes.append(run(lake, "rollback", "--snapshot", target, "--safety-tag", "0 s"))

        trigger = Trigger(at=k, action=go_back)
        maintain(lake, trigger)
        if not trigger.fired:
            assert k > 6
            return
        assert codes[0] in (0, 2, 5), codes
        assert is_whole(lake), k
        k += 1


@pytest.mark.sampled
@pytest.mark.parametrize("commits", [1, 4])
def test_a_fast_forward_at_any_moment_loses_no_snapshot(commits: int, tmp_path: Path) -> None:
    """The numbers that expire belong to snapshots of the branch when the writer goes on."""
    k = 0
    while True:
        lake = Lake(tmp_path / str(k))
        lake.primary_key()
        run(lake, "create_branch", "--branch-name", "b")
        for _ in range(commits):
            append(lake, "b")
        lake.fill(4)
        codes: list[int] = []

        def move(lake: Lake = lake, codes: list[int] = codes) -> None:
            codes.append(run(lake, "fast_forward", "--branch-name", "b", "--safety-tag", "0 s"))

        trigger = Trigger(at=k, action=move)
        maintain(lake, trigger)
        if not trigger.fired or k > 14:
            assert k > 6
            return
        assert codes[0] in (0, 2, 5), codes
        assert is_whole(lake), k
        k += 1


def test_a_snapshot_that_is_not_the_one_that_was_read_is_put_back(lake: Lake) -> None:
    snapshots = lake.table().snapshots
    other = snapshots.get(2).identity
    assert not snapshots.delete_unchanged(2, b"what somebody read before")
    assert snapshots.get(2).identity == other
    found = snapshots.read(2)
    assert found is not None
    assert snapshots.delete_unchanged(2, found[0])
    assert not snapshots.exists(2)
    assert snapshots.delete_unchanged(2, found[0])
    assert not list((Path(lake.table().root) / "caretaker").glob(".snapshot*"))


def test_the_journal_of_a_dead_writer_is_finished_once_it_is_old(lake: Lake) -> None:
    """The writer dies when its snapshots are gone and their files are not."""
    trigger = Trigger()
    maintain(Lake(lake.warehouse), trigger)
    assert trigger.count
    lake.fill(3)
    first_file = trigger.calls.index("delete", 6)
    after = maintain(lake, Trigger(at=first_file, down=True))
    assert after.last is not None
    assert after.last.failure is not None
    table = lake.table()
    (path,) = (Path(table.root) / "caretaker" / "released").iterdir()
    assert journals(table) == []
    assert run(lake, "expire_snapshots", "--retain-max", 1, "--retain-min", 1) in (0, 3)
    assert path.exists()
    age_all(lake.warehouse)
    lake.fill(1)
    assert journals(table) == [str(path)]
    assert run(lake, "expire_snapshots", "--retain-max", 99) == 0
    assert not path.exists()
    assert is_whole(lake)


def test_no_changelog_is_left_of_what_a_rollback_took(tmp_path: Path) -> None:
    """The writer keeps changelogs longer than snapshots."""
    kept = {"changelog-producer": "input", "changelog.num-retained.min": "9"}
    kept |= {"changelog.num-retained.max": "99", "bucket": "1", "write-only": "true"}
    k = 0
    while True:
        lake = Lake(tmp_path / str(k))
        lake.create(options=kept)
        lake.fill(6)

        def go_back(lake: Lake = lake) -> None:
            run(lake, "rollback", "--snapshot", 4, "--safety-tag", "0 s")

        trigger = Trigger(at=k, action=go_back)
        maintain(lake, trigger)
        if not trigger.fired:
            assert k > 6
            return
        assert is_whole(lake), k
        k += 1
