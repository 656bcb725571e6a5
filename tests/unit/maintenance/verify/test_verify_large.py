"""Verification of tables whose entries are read in shares finds what it finds in one piece."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import Lake

from paimon_core.table.open import open_table
from paimon_maintenance.verify import check, required_columns, share
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Problem
from paimon_maintenance.verify.references import Reference, RefKind
from paimon_maintenance.verify.required_columns import RequiredColumns
from paimon_maintenance.verify.required_file import RequiredFile

GOLDEN = Path(__file__).parents[3] / "golden"
TABLES = sorted(p for p in GOLDEN.glob("1.4.2/*/warehouse") if p.is_dir())[::4]


OBJECTS, COLUMNS = Scope(keys=True), Scope(rows=False)


def sound(warehouse: Path, scope: Scope = OBJECTS) -> dict[str, object]:
    return check_table(open_table(str(warehouse), "db.t"), scope).to_json()


@pytest.mark.parametrize("scope", [OBJECTS, COLUMNS], ids=["objects", "columns"])
@pytest.mark.parametrize("warehouse", TABLES, ids=lambda p: p.parent.name)
def test_shares_find_the_same(
    warehouse: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sound(warehouse, scope)
    for module in (check, share):
        monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    assert sound(warehouse, scope) == whole


@pytest.mark.parametrize("scope", [OBJECTS, COLUMNS], ids=["objects", "columns"])
def test_shares_find_what_is_broken(
    scope: Scope, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.primary_key(partitioned=True, buckets=2)
    lake.fill(3)
    broken = tmp_path / "broken"
    shutil.copytree(lake.warehouse, broken)
    files = sorted(Path(open_table(str(broken), "db.t").root).rglob("bucket-*/data-*"))
    files[0].unlink()
    files[1].write_bytes(b"short")
    whole = sound(broken, scope)
    assert not whole["clean"]
    for module in (check, share):
        monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    monkeypatch.setattr(required_columns, "_TOGETHER", 3)
    assert sound(broken, scope) == whole


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> list[Reference]:
    lake = Lake(tmp_path_factory.mktemp("references"))
    lake.primary_key()
    lake.fill(2)
    table = lake.table()
    return [
        Reference(table=table, kind=RefKind.SNAPSHOT, name=str(s.id), snapshot=s)
        for s in table.snapshots.all()
    ]


FILES = st.lists(
    st.tuples(
        st.builds(
            "{}/{}".format, st.sampled_from(["/t/a", "/t/b"]), st.text("ab", min_size=1, max_size=3)
        ),
        st.sampled_from([Problem.MISSING_DATA_FILE, Problem.MISSING_EXTRA_FILE]),
        st.integers(0, 1),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
    ),
    max_size=15,
)


@given(FILES, st.integers(1, 9), st.integers(1, 9))
def test_columns_hold_each_path_once(
    references: list[Reference],
    files: list[tuple[str, Problem, int, int | None, int | None]],
    flushed: int,
    together: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(required_columns, "_TOGETHER", flushed)
        found = RequiredColumns()
        model: dict[str, RequiredFile] = {}
        for path, problem, reference, size, rows in sorted(files, key=lambda f: f[2]):
            need = RequiredFile(path, references[reference], problem, b"p", 0, size=size, rows=rows)
            found.add(need)
            model.setdefault(path, need)
        for _ in range(2):  # it can be read again
            parts = list(found.by_folder(together))
            listed = [need for part in parts for need in part.files(np.arange(len(part)))]
            assert {need.path: need for need in listed} == model
            assert len(listed) == len(model)
            folders = [folder for part in parts for folder in part.folders]
            assert len(folders) == len(set(folders))
