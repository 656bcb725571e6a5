"""A writer whose table was dropped and created again while it wrote."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path

import known_holes
import pyarrow as pa
import pytest
from command_line import caretaker, read_rows
from disk import assert_whole
from failing_io import FailingFileIO, Trigger
from known_holes import each_call
from lakes import ENV, Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.base_check import is_final
from paimon_core.commit.committer import commit
from paimon_core.commit.overwrite import overwrite
from paimon_core.errors import CommitError, CommitStateUnknown, NotFound, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table_at
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.write.row_writer import RowWriter


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.log()
    lake.fill(2)
    return lake


def renew(lake: Lake, commits: int) -> None:
    """Drop the table, create it again, and let somebody else commit to it."""
    FileSystemCatalog(str(lake.warehouse)).drop_table("db.t")
    lake.log()
    for number in range(commits):
        lake.append({"k": [number], "v": ["theirs"]})


def written(table: FileStoreTable):
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["ours"]}))
    return writer.prepare_commit()


@pytest.mark.parametrize("commits", [0, 1, 2, 5])
def test_a_commit_for_the_old_table_is_refused_by_the_new_one(commits: int, lake: Lake) -> None:
    table = lake.table()
    messages = written(table)
    renew(lake, commits)
    with pytest.raises(NotFound, match="dropped and created again"):
        commit(table, messages, user="u", env=ENV)
    assert_theirs(lake, commits)


def test_an_overwrite_for_the_old_table_does_not_empty_the_new_one(lake: Lake) -> None:
    table = lake.table()
    messages = written(table)
    renew(lake, 2)
    with pytest.raises(NotFound, match="dropped and created again"):
        overwrite(table, messages, user="u", env=ENV)
    assert_theirs(lake, 2)


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 4])
def test_a_table_that_is_renewed_at_any_moment_of_a_commit(commits: int, lake: Lake) -> None:
    k = 0
    while True:
        trigger = Trigger(at=k, action=lambda: renew(lake, commits))
        table = lake.table()
        messages = written(table)
        failing = open_table_at(FailingFileIO(trigger), table.root, "db.t")
        try:
            commit(failing, messages, user="u", env=ENV)
        except (NotFound, CommitError):
            assert trigger.fired
        if not trigger.fired:
            assert k > 3
            return
        assert_theirs(lake, commits)
        k += 1


@pytest.mark.parametrize("reads", [False, True])
def test_maintenance_after_a_commit_expires_nothing_of_a_new_table(
    lake: Lake, *, reads: bool
) -> None:
    retained = {f"snapshot.num-retained.{end}": "1" for end in ("min", "max")}
    options = {"write-only": "false", "snapshot.time-retained": "1 ms", **retained}
    tried = 0
    for at in itertools.count(step=3 if reads else 1):
        trigger = Trigger(reads=reads, action=lambda: renew(lake, 4))
        lake.fill(1)
        root = lake.table().root
        table = open_table_at(FailingFileIO(trigger), root, "db.t", dynamic_options=options)
        trigger.calls.clear()
        trigger.at = at
        AfterCommit(table, env=ENV).run(user="u", identifier=1)
        if not trigger.fired:
            break
        assert_theirs(lake, 4)
        tried += 1
    assert tried > 3


def test_a_table_that_is_dropped_at_any_moment_of_a_commit_keeps_no_hint(lake: Lake) -> None:
    """Java cannot read a new table with the hint of the old one."""
    catalog = FileSystemCatalog(str(lake.warehouse))
    hints = []
    for k in itertools.count():
        trigger = Trigger(at=k, action=lambda: catalog.drop_table("db.t"))
        table = lake.table()
        messages = written(table)
        failing = open_table_at(FailingFileIO(trigger), table.root, "db.t")
        with suppress(NotFound, CommitError):
            commit(failing, messages, user="u", env=ENV)
        if not trigger.fired:
            break
        hints.append([p.name for p in Path(table.root).rglob("LATEST")])
        renew(lake, 2)
    assert len(hints) > 3
    assert not any(hints)


@pytest.mark.parametrize("new", [False, True])
def test_a_commit_that_went_with_a_renamed_table_is_not_called_failed(
    lake: Lake, *, new: bool
) -> None:
    """Whoever runs it again under the new name would have its rows twice."""
    catalog = FileSystemCatalog(str(lake.warehouse))

    def rename() -> None:
        catalog.rename_table("db.t", "db.u")
        if new:
            lake.log()

    went_along = []
    for k in itertools.count():
        trigger = Trigger(at=k, action=rename)
        table = lake.table()
        messages = written(table)
        failing = open_table_at(FailingFileIO(trigger), table.root, "db.t")
        error = None
        try:
            commit(failing, messages, user="u", env=ENV)
        except PaimonError as e:
            error = e
        if not trigger.fired:
            break
        went_along.append(catalog.get_table("db.u").snapshots.latest_id() == 3)
        assert isinstance(error, CommitStateUnknown) == went_along[-1], (k, error)
        catalog.drop_table("db.u")
        catalog.drop_table("db.t", if_exists=True)
        lake.log()
        lake.fill(2)
    assert set(went_along) == {False, True}


def test_statistics_of_the_old_table_do_not_come_into_the_new_one(lake: Lake) -> None:
    """The new table has none of their files."""
    for report in each_call(
        lake.warehouse,
        lambda: renew(lake, 2),
        lambda trigger: known_holes.run(lake.warehouse, "analyze", meanwhile=trigger),
        reads=True,
    ):
        assert report.error is None or isinstance(report.error, PaimonError), report.error
        assert_whole(lake.warehouse)


def test_a_snapshot_of_somebody_else_is_not_taken_back(lake: Lake) -> None:
    """The writer has made snapshot 3, and looks back after the table was renewed."""
    table = lake.table()
    base = table.snapshots.get(2)
    (made,) = commit(table, written(table), user="u", env=ENV)
    renew(lake, 3)
    with pytest.raises(CommitStateUnknown):
        is_final(table, None, made)
    assert_theirs(lake, 3)
    with pytest.raises((NotFound, CommitError)):
        is_final(table, base, made)
    assert_theirs(lake, 3)


def assert_theirs(lake: Lake, commits: int) -> None:
    assert lake.table().snapshots.ids() == list(range(1, commits + 1))
    assert sorted(r[1:] for r in read_rows(lake.warehouse)) == [
        [i, "theirs"] for i in range(commits)
    ]
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0
    assert Path(lake.table().root).is_dir()
