"""A store that says of a file for a moment that it is missing, although it is there."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest
from command_line import caretaker
from disk import assert_whole
from failing_io import FailingFileIO, Trigger
from lakes import ENV, Lake

from paimon_core.errors import CorruptTable, PaimonError
from paimon_core.refs.tags import Tag
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.expiry_range import Retention
from paimon_core.retention.snapshots import apply_expiry, plan_expiry
from paimon_core.snapshot.line import gaps_in
from paimon_core.table.open import open_table, open_table_at
from paimon_maintenance.jobs.versions import inflight_commits
from paimon_maintenance.run import request

ALL_BUT_ONE = Retention(num_min=1, num_max=1, limit=99, older_than_millis=2**62)


class Blinking(FailingFileIO):
    """Files whose paths match are missing for reads `at` and, if `twice`, the next one, from 0."""

    def __init__(self, pattern: str, at: int, *, twice: bool = False) -> None:
        super().__init__(Trigger())
        self.pattern = pattern
        self.left = at
        self.wrong = (-1, -2) if twice else (-1,)

    def read_bytes(self, path: str) -> bytes:
        if re.search(self.pattern, path):
            self.left -= 1
            if self.left in self.wrong:
                raise FileNotFoundError(path)
        return super().read_bytes(path)


def test_expiry_leaves_no_snapshot_without_its_files(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake.primary_key()
    lake.fill(4)
    places, stale = tmp_path_factory.mktemp("places"), 0
    for k in itertools.count():
        place = Path(shutil.copytree(lake.warehouse, places / str(k)))
        io = Blinking(r"/snapshot-\d+$", k)
        table = open_table_at(io, open_table(str(place), "db.t").root, "db.t")
        try:
            plan = plan_expiry(table, ALL_BUT_ONE, now_millis=ENV.now_millis())
            assert plan is not None
            apply_expiry(table, plan.work, Deleting(ENV))
        except PaimonError:
            stale += 1
        assert not gaps_in(open_table(str(place), "db.t").snapshots.ids())
        assert_whole(place)
        if io.left >= 0:
            break
    assert stale


def test_a_rollback_leaves_no_snapshot_that_it_should_remove(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be the newest one, without its files."""
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)
    lake.primary_key()
    lake.fill(4)
    places, plain, stale = tmp_path_factory.mktemp("places"), request.open_table_of, 0
    for k in itertools.count():
        place = Path(shutil.copytree(lake.warehouse, places / str(k)))
        io = Blinking(r"/snapshot-[34]$", k)
        opened = open_table_at(io, open_table(str(place), "db.t").root, "db.t")
        monkeypatch.setattr(request, "open_table_of", lambda *_, made=opened, **__: made)
        ran = caretaker(
            *("run", "rollback", "db.t", "-w", place, "--snapshot", "2", "--safety-tag", "0 s")
        )
        monkeypatch.setattr(request, "open_table_of", plain)
        stale += ran.code != 0
        ids = open_table(str(place), "db.t").snapshots.ids()
        assert ids == [1, 2] if ran.code == 0 else not gaps_in(ids), (k, ran.err)
        assert_whole(place)
        if io.left >= 0:
            break
    assert stale


@pytest.mark.parametrize("kind", ["tag", "consumer"])
def test_what_keeps_a_snapshot_is_read_again(kind: str, lake: Lake) -> None:
    lake.primary_key()
    lake.fill(2)
    table = lake.table()
    table.tags.create(Tag("t", table.snapshots.get(1)))
    table.consumers.set("c", 1)
    io = Blinking(f"/{kind}-.$", 0, twice=True)
    blinking = open_table_at(io, table.root, "db.t")
    assert [tag.name for tag in blinking.tags.all()] == ["t"]
    assert [consumer.id for consumer in blinking.consumers.all()] == ["c"]
    assert io.left < -2


def test_a_file_that_stays_missing_stops_the_reader(lake: Lake) -> None:
    lake.primary_key()
    lake.fill(1)
    table = lake.table()
    table.tags.create(Tag("t", table.snapshots.get(1)))
    io = Blinking("/tag-t$", 0)
    io.wrong = tuple(range(-9, 0))
    with pytest.raises(CorruptTable, match="names t, but the store says that it is missing"):
        open_table_at(io, table.root, "db.t").tags.all()
