"""What holds files moves to another name while a job reads what holds files: both are one reference."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import known_holes
import pytest
from disk import assert_whole
from failing_io import FailingFileIO, Trigger
from known_holes import each_call
from lakes import Lake, append_to_branch

from paimon_core.errors import CorruptTable, PaimonError
from paimon_core.reachability import release
from paimon_core.reachability.release import finish_interrupted, journals
from paimon_core.table.open import open_table_at
from paimon_maintenance.job.report import Report, Status

MOVES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "a tag": [("rename_tag", {"tag": "t", "target_tag": "a"})],
    "a tag to a branch": [
        ("create_branch", {"branch_name": "c", "tag": "t"}),
        ("delete_tag", {"tag": ["t"]}),
    ],
    "a branch": [("rename_branch", {"branch_name": "b", "target_branch": "a"})],
}


def run(lake: Lake, name: str, **arguments: Any) -> Report:
    report = known_holes.run(lake.warehouse, name, **arguments)
    assert report.status is Status.SUCCESS, report.error
    return report


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An expiry was interrupted before it deleted a file.

    Tag t holds files of snapshot 2, branch b those of snapshot 1 and its own.
    """
    lake.primary_key()
    lake.fill(1)
    run(lake, "create_tag", tag="start")
    run(lake, "create_branch", branch_name="b", tag="start")
    append_to_branch(lake, "b")
    run(lake, "delete_tag", tag=["start"])
    lake.fill(1)
    run(lake, "create_tag", tag="t")
    run(lake, "compact", strategy="full")
    lake.fill(1)

    def fail(*_: object) -> None:
        raise CorruptTable("the store is down")

    with monkeypatch.context() as patch:
        patch.setattr(release, "find_garbage", fail)
        known_holes.run(lake.warehouse, "expire_snapshots", retain_max=1, retain_min=1)
    assert list(Path(lake.table().root).glob("caretaker/released/*.json"))
    return lake


@pytest.mark.sampled
@pytest.mark.parametrize("move", MOVES)
def test_an_interrupted_run_is_finished_without_loss(move: str, lake: Lake) -> None:
    """Before every single read."""

    def other() -> None:
        for name, arguments in MOVES[move]:
            known_holes.run(lake.warehouse, name, **arguments)

    def finish(trigger: Trigger) -> None:
        table = open_table_at(FailingFileIO(trigger), lake.table().root, "db.t")
        with suppress(CorruptTable):
            finish_interrupted(table, journals(table))

    for _ in each_call(lake.warehouse, other, finish, reads=True):
        assert_whole(lake.warehouse)


def test_a_tag_is_replaced_without_loss(lake: Lake) -> None:
    """Its plan does not name the files that go."""
    run(lake, "create_tag", tag="z", snapshot=2)

    def other() -> None:
        known_holes.run(lake.warehouse, "rename_tag", tag="z", target_tag="a")

    for report in each_call(
        lake.warehouse,
        other,
        lambda trigger: known_holes.run(lake.warehouse, "replace_tag", meanwhile=trigger, tag="t"),
        reads=True,
    ):
        assert report.error is None or isinstance(report.error, PaimonError), report.error
        assert_whole(lake.warehouse)
