"""Migrations from Hive that end early, or meet others: no row is lost, and none is there twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from hive_tables import ROWS, Hive, write
from metastore_process import HiveMetastore

from paimon_core.catalog.hive import migrate
from paimon_core.catalog.hive.foreign_table import ForeignTable
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.metastore import Metastore
from paimon_core.errors import AlreadyExists, CommitConflict, CommitStateUnknown, StorageError
from paimon_core.io.local import LocalFileIO
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import CALLS

CHANGES = (
    *("open_output", "write_bytes", "create_if_absent", "overwrite"),
    *("delete", "delete_many", "delete_dir", "rename", "make_dirs"),
)


@pytest.fixture
def hive(hive_metastore: HiveMetastore, tmp_path: Path) -> Hive:
    return Hive(hive_metastore.options, f"db_{abs(hash(tmp_path))}")


def test_files_that_come_meanwhile(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hive.table("t")
    write(folder / "x", ROWS)
    imported = migrate._import

    def slow(*given: Any) -> Any:
        taken = imported(*given)
        write(folder / "y", [{"id": "3", "name": "late"}])
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "_import", slow)
        with pytest.raises(CommitConflict, match="somebody wrote to the Hive table"):
            hive.migrate("t")
    assert (folder / "x").exists()
    assert hive.rows("t_paimon_") == ["1", "2"]
    hive.migrate("t")
    assert hive.rows("t") == ["1", "2", "3"]


def test_two_calls_at_once(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    write(hive.table("t") / "x", ROWS)
    commit = migrate._commit
    with monkeypatch.context() as patched:

        def slow(*given: Any) -> None:
            patched.setattr(migrate, "_commit", commit)
            hive.migrate("t", target="p", delete_origin=False)
            commit(*given)

        patched.setattr(migrate, "_commit", slow)
        with pytest.raises(CommitConflict, match="another call has migrated the same files"):
            hive.migrate("t", target="p")
    assert hive.rows("p") == ["1", "2"]
    hive.migrate("t", target="p")
    assert hive.rows("p") == ["1", "2"]


def test_a_call_that_fails_does_not_drop_what_another_one_fills(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hive.table("t") / "x", ROWS)
    commit, adopt = migrate._commit, migrate.adopt_file
    copied, failed = threading.Event(), threading.Event()

    def waits(*given: Any) -> None:
        copied.set()
        assert failed.wait(60)
        commit(*given)

    def fails(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(migrate, "adopt_file", adopt)
        monkeypatch.setattr(migrate, "_commit", waits)
        other.start()
        assert copied.wait(60)
        raise StorageError("no room")

    other = threading.Thread(target=lambda: hive.migrate("t", target="p"))
    monkeypatch.setattr(migrate, "adopt_file", fails)
    with pytest.raises(StorageError, match="no room"):
        hive.migrate("t", target="p")
    failed.set()
    other.join()
    assert hive.rows("p") == ["1", "2"]
    assert not hive.exists("t")


def test_a_copy_that_is_gone_keeps_its_original(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write(hive.table("t") / "x", ROWS)
    imported = migrate._import

    def loses(*given: Any) -> Any:
        taken = imported(*given)
        (copy,) = (p for p in Path(hive.opened("p").root).rglob("*.parquet"))
        copy.unlink()
        return taken

    monkeypatch.setattr(migrate, "_import", loses)
    with pytest.raises(CommitConflict, match="copies are missing"):
        hive.migrate("t", target="p")
    assert original.exists()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_target_whose_history_expired_is_not_filled_twice(
    hive: Hive, monkeypatch: pytest.MonkeyPatch, *, compacted: bool
) -> None:
    """After a call that was killed before it deleted the source's files."""
    folder = hive.table("t")
    numbers = ["1", "2", "3", "4", "5"]
    for number in numbers:
        write(folder / f"f{number}", [{"id": number}])
    with monkeypatch.context() as patched:
        patched.setattr(ForeignTable, "delete_files", _killed)
        with pytest.raises(Killed):
            hive.migrate("t", target="p")
    assert hive.rows("p") == numbers
    table, lake = f"{hive.database}.p", str(Path(hive.folder).parent)
    expire = ("expire_snapshots", "--retain-max", "1", "--retain-min", "1")
    for job in (("compact", "--strategy", "full"), expire) if compacted else ():
        done = caretaker("run", job[0], table, "-w", lake, "--force", *job[1:])
        assert done.code == 0, done
    if not compacted:
        hive.migrate("t", target="p")
    else:
        with pytest.raises(CommitStateUnknown, match="may have the rows already") as refusal:
            hive.migrate("t", target="p")
        assert hive.rows("t") == hive.rows("p") == numbers
        assert refusal.value.file is not None
        for file in folder.iterdir():
            file.unlink()
        hive.migrate("t", target="p")
        assert not Path(refusal.value.file).exists()
    assert hive.rows("p") == numbers
    assert not hive.exists("t")


class Killed(BaseException):
    """The process ends: nothing that it would do later happens."""


def _killed(*_: Any, **__: Any) -> None:
    raise Killed


class Kill:
    """Kills at the n-th change of a file or of the metastore, before or after it took effect."""

    def __init__(self, patched: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.left, self._after, self.dead = at, after, False
        for name in CHANGES:
            patched.setattr(LocalFileIO, name, self._counted(getattr(LocalFileIO, name)))
        call = HiveClient.call
        counted = self._counted(call)

        def called(client: HiveClient, name: str, *given: Any) -> Any:
            return (call if CALLS[name].reads else counted)(client, name, *given)

        patched.setattr(HiveClient, "call", called)

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed
            self.left -= 1
            if self.left == 0 and not self._after:
                self.dead = True
                raise Killed
            result = change(*given, **named)
            if self.left == 0:
                self.dead = True
                raise Killed
            return result

        return counted


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_step(hive: Hive, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """All rows are in the source or in the target, and the same call finishes the work."""
    hive.catalog = HiveCatalog.connect({**hive.catalog.options, "lock.enabled": "false"})
    hive.metastore = Metastore(hive.catalog.options)
    wanted = ["1", "2", "3"]
    at, done = 0, False
    while not done:
        at += 1
        name = f"t{at}{after}".lower()
        folder = hive.table(name)
        for number in wanted:
            write(folder / f"f{number}", [{"id": number}])
        with monkeypatch.context() as patched:
            kill = Kill(patched, at, after=after)
            try:
                hive.migrate(name)
                done = True
            except Killed:
                done = False
        if kill.dead:
            of_hive, ours = hive.rows(name), hive.rows(f"{name}_paimon_")
            assert set(of_hive) | set(ours) == set(wanted), at
            assert ours in ([], wanted), at
            if hive.exists(f"{name}_paimon_") or not hive.is_done(name):
                try:
                    hive.migrate(name)
                except AlreadyExists:  # killed between the schema and the entry, as it says
                    assert not hive.exists(f"{name}_paimon_")
                    hive.catalog.repair(f"{hive.database}.{name}_paimon_")
                    hive.migrate(name)
        assert hive.is_done(name), at
        assert hive.rows(name) == wanted, at
        assert not hive.exists(f"{name}_paimon_")
    assert at > 10
