"""Stores that check or record deletions do so for deletions of many files too."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_core.catalog import lock
from paimon_core.catalog.rest import token_io
from paimon_core.errors import CorruptTable, StorageError, UnsupportedFeature
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.delegating import DelegatingFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.io.local import LocalFileIO
from paimon_core.names import Boundary
from paimon_core.table.owned_io import CatalogOwnedFileIO
from paimon_maintenance.storage.ledger import Ledger, LedgerFileIO

assert lock
assert token_io


def subclasses(of: type) -> list[type]:
    return [s for c in of.__subclasses__() for s in (c, *subclasses(c))]


def test_who_overrides_delete_overrides_delete_many() -> None:
    found = [c for c in subclasses(DelegatingFileIO) if not c.__module__.startswith("tests")]
    assert {ConfinedFileIO, CatalogOwnedFileIO, LedgerFileIO} <= set(found)
    for wrapper in found:
        assert ("delete" in vars(wrapper)) == ("delete_many" in vars(wrapper)), wrapper


def test_every_method_of_the_protocol_is_passed_on() -> None:
    names = {n for n, _ in inspect.getmembers(FileIO) if not n.startswith("_")}
    assert names <= set(vars(DelegatingFileIO))


def test_nothing_outside_the_table_is_deleted(tmp_path: Path) -> None:
    inside, outside = tmp_path / "t" / "f", tmp_path / "f"
    inside.parent.mkdir()
    for path in (inside, outside):
        path.write_text("1")
    io = ConfinedFileIO(LocalFileIO(), Boundary(str(tmp_path / "t")))
    with pytest.raises(CorruptTable):
        io.delete_many([str(inside), str(outside)])
    assert inside.exists()
    assert outside.exists()
    assert io.delete_many([str(inside)]) == [True]


class Newest:
    owner = "the catalog"

    def latest(self, _branch: str) -> object:
        return type("Snapshot", (), {"id": 2})()


def test_the_catalog_keeps_its_newest_snapshot(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    for i in (1, 2):
        (tmp_path / f"snapshot/snapshot-{i}").write_text("1")
    io = CatalogOwnedFileIO(LocalFileIO(), str(tmp_path), Newest())  # type: ignore[arg-type]
    paths = [f"{tmp_path}/snapshot/snapshot-{i}" for i in (1, 2)]
    with pytest.raises(UnsupportedFeature):
        io.delete_many(paths)
    assert io.delete_many(paths[:1]) == [True]


class Failing(DelegatingFileIO):
    def __init__(self) -> None:
        self.inner = LocalFileIO()  # type: ignore[misc]

    def delete_many(self, paths: object) -> list[bool]:
        raise StorageError(f"no reply for {paths}")


def test_the_ledger_counts_deletions_of_many_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    ledger = Ledger()
    io = ledger.watch(LocalFileIO(), str(tmp_path), None)
    assert io.delete_many([f"{tmp_path}/{n}" for n in ("a", "b", "c")]) == [True, True, False]
    assert ledger.changes().deleted_files == 2
    assert not ledger.changes().unsure
    assert isinstance(io, LedgerFileIO)
    with pytest.raises(StorageError):
        replace(io, inner=Failing()).delete_many([f"{tmp_path}/d", f"{tmp_path}/e"])
    assert set(ledger.changes().unsure) == {"d", "e"}
