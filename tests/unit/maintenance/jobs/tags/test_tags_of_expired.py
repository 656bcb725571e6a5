"""A tag that is written when its snapshot has just expired would keep nothing: it is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.refs.tags import Tag, TagStore
from paimon_maintenance.job.exit_codes import ExitCode


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Three snapshots; one expires right before a tag of it is written."""
    lake.primary_key(**{"tag.automatic-creation": "process-time"})
    lake.fill(3)

    def late(name: str) -> None:
        original = getattr(TagStore, name)

        def write(self: TagStore, tag: Tag) -> None:
            if tag.snapshot.id != 1:
                Path(self.paths.snapshot(tag.snapshot.id)).unlink(missing_ok=True)
            original(self, tag)

        monkeypatch.setattr(TagStore, name, write)

    late("create")
    late("replace")
    return lake


def test_an_automatic_tag_is_left_to_the_next_run(lake: Lake) -> None:
    (lake.warehouse / "db.db/t/snapshot/snapshot-1").unlink()
    ran = caretaker(
        *("run", "trigger_tag_automatic_creation", "db.t", "-w", lake.warehouse, "--json"),
        *("--engine", "local"),
    )
    assert ran.code == ExitCode.SUCCESS, ran.err
    assert ran.json["details"]["created_tags"] == []
    assert lake.table().tags.names() == []


def test_a_tag_made_by_hand_fails(lake: Lake) -> None:
    ran = caretaker(
        *("run", "create_tag", "db.t", "-w", lake.warehouse, "--tag", "x", "--snapshot", 2)
    )
    assert (ran.code, lake.table().tags.names()) == (ExitCode.USAGE, [])
    assert "expired while it was tagged" in ran.err


def test_a_replaced_tag_stays_where_it_was(lake: Lake) -> None:
    tag = ("-w", lake.warehouse, "--tag", "x", "--snapshot")
    assert caretaker("run", "create_tag", "db.t", *tag, 1).code == ExitCode.SUCCESS
    ran = caretaker("run", "replace_tag", "db.t", *tag, 2)
    assert ran.code == ExitCode.USAGE
    assert lake.table().tags.get("x").snapshot.id == 1
