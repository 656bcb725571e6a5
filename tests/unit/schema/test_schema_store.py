from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from paimon_core.errors import CommitStateUnknown, CorruptTable, StorageError, TableGone
from paimon_core.io import read_retry
from paimon_core.io.local import LocalFileIO
from paimon_core.paths import TablePaths
from paimon_core.schema import store as store_module
from paimon_core.schema.schema_json import schema_to_json, schema_to_object
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataField
from paimon_core.types.sql import parse_type

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = TableSchema(
    id=0,
    fields=(DataField(id=0, name="k", type=parse_type("INT")),),
    highest_field_id=0,
    time_millis=1,
)


def _store(root: Path) -> SchemaStore:
    return SchemaStore(LocalFileIO(), TablePaths(root=str(root)), "db.t")


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_golden_schemas(version: str) -> None:
    for table in sorted((GOLDEN / version).iterdir()):
        expected = json.loads((table / "expected.json").read_text())["schemas"]
        expected.sort(key=lambda schema: schema["id"])  # Java lists them in any order
        store = _store(table / "warehouse/db.db/t")
        assert [schema_to_object(s) for s in store.all()] == expected
        latest = store.latest()
        assert latest is not None
        assert latest.id == expected[-1]["id"]


def test_a_schema_is_made_once(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.latest() is None
    assert store.commit_new(SCHEMA)
    assert not store.commit_new(replace(SCHEMA, comment="other"))
    second = replace(SCHEMA, id=1, comment="x")
    assert _store(tmp_path).commit_new(second)
    assert store.latest() == second
    assert store.ids() == [0, 1]
    assert (tmp_path / "schema" / "schema-0").read_text() == schema_to_json(SCHEMA)
    assert store.exists(1)
    assert not store.exists(2)


def test_a_table_that_is_dropped_right_then_is_named(tmp_path: Path) -> None:
    class Dropping(LocalFileIO):
        def read_bytes(self, path: str) -> bytes:
            raise FileNotFoundError(path)

    store = replace(_store(tmp_path), io=Dropping())
    with pytest.raises(TableGone, match=r"table db\.t was dropped or renamed"):
        store.commit_new(SCHEMA)


@pytest.mark.parametrize("new", [None, replace(SCHEMA, time_millis=2)], ids=["dropped", "new"])
def test_a_schema_that_follows_none_of_the_table_is_withdrawn(
    tmp_path: Path, new: TableSchema | None
) -> None:
    """Its columns are not those of the rows that the table has now."""
    assert _store(tmp_path).commit_new(SCHEMA)
    store = _store(tmp_path)
    latest = store.latest()
    assert latest is not None
    (tmp_path / "schema" / "schema-0").unlink()
    if new is not None:
        assert _store(tmp_path).commit_new(new)
    with pytest.raises(TableGone, match=r"table db\.t was dropped or renamed"):
        store.commit_new(replace(latest, id=1))
    assert _store(tmp_path).latest() == new


@dataclass(frozen=True)
class _Deaf(LocalFileIO):
    """A store that loses the reply to a creation; `is_down`: it answers nothing after that."""

    is_made: bool = True
    is_down: bool = False

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.is_made:
            super().create_if_absent(path, data)
        raise StorageError(f"no reply from {path}")

    def exists(self, path: str) -> bool:
        if self.is_down:
            raise StorageError(f"no reply from {path}")
        return super().exists(path)

    def read_bytes(self, path: str) -> bytes:
        if self.is_down:
            raise StorageError(f"no reply from {path}")
        return super().read_bytes(path)


def test_a_lost_reply_is_looked_up(tmp_path: Path) -> None:
    assert replace(_store(tmp_path), io=_Deaf()).commit_new(SCHEMA)
    other = replace(SCHEMA, comment="other")
    assert not replace(_store(tmp_path), io=_Deaf()).commit_new(other)


@pytest.mark.parametrize(
    "io", [_Deaf(is_down=True), _Deaf(is_made=False)], ids=["down", "perhaps later"]
)
def test_a_schema_of_which_nobody_knows_is_told(
    tmp_path: Path, io: _Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "renames_atomically", lambda _: False)
    with pytest.raises(
        CommitStateUnknown, match=r"schema 0 is unknown.*schemas'`\) before running"
    ):
        replace(_store(tmp_path), io=io).commit_new(SCHEMA)


def test_a_local_disk_that_refuses_a_schema_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no reply"):
        replace(_store(tmp_path), io=_Deaf(is_made=False)).commit_new(SCHEMA)


def test_a_branch_has_schemas_of_its_own(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.commit_new(SCHEMA)
    branch = store.of_branch("b")
    assert branch.latest() is None
    assert branch.commit_new(SCHEMA)
    assert (tmp_path / "branch/branch-b/schema/schema-0").exists()


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.commit_new(SCHEMA)
    for name in (".schema-1.uuid.tmp", "schema-x", "schema-"):
        (tmp_path / "schema" / name).write_text("")
    assert store.ids() == [0]


def test_missing_and_broken_schemas_name_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", (0,))
    store = _store(tmp_path)
    folder = tmp_path / "schema"
    folder.mkdir()
    (folder / "schema-1").write_text("{")
    (folder / "schema-2").write_text(schema_to_json(SCHEMA))
    with pytest.raises(CorruptTable, match="schema 0 of table") as missing:
        store.get(0)
    assert missing.value.file == str(folder / "schema-0")
    with pytest.raises(CorruptTable, match="cannot read"):
        store.get(1)
    with pytest.raises(CorruptTable, match="says that it is schema 0"):
        store.get(2)
