"""Statements on a table that is dropped, renamed, or dropped and created again while they run."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from failing_io import FailingFileIO, Trigger
from known_holes import each_call
from sql_sessions import Sql

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import CorruptTable, PaimonError, TableGone
from paimon_core.io.file_io import FileIO

CREATE = "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
CHANGES = {
    "drop": "DROP TABLE t",
    "rename": "ALTER TABLE t RENAME TO u",
    "create again": f"DROP TABLE t; {CREATE}",
}
STATEMENTS = (
    "INSERT INTO t VALUES (3, 'c')",
    "INSERT OVERWRITE t VALUES (3, 'c')",
    "UPDATE t SET v = 'new' WHERE id = 1",
    "DELETE FROM t WHERE id = 1",
)


@pytest.mark.sampled
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_error_says_what_happened(statement: str, change: str, tmp_path: Path) -> None:
    first = Sql(tmp_path)
    first(f"{CREATE}; INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (2, 'c')")
    plain = FileSystemCatalog._open

    def other() -> None:
        shutil.rmtree(tmp_path / "default.db" / "u", ignore_errors=True)
        with patch.object(FileSystemCatalog, "_open", plain):
            Sql(tmp_path)(CHANGES[change])

    def run(trigger: Trigger) -> PaimonError | None:
        def opened(self: FileSystemCatalog) -> tuple[FileIO, str]:
            return FailingFileIO(trigger), self.warehouse

        session = Sql(tmp_path)
        with patch.object(FileSystemCatalog, "_open", opened):
            try:
                session(statement)
            except PaimonError as e:
                return e
        return None

    errors = [e for e in each_call(tmp_path, other, run, reads=True) if e is not None]
    assert len(errors) > 5
    for error in errors:
        assert isinstance(error, TableGone) or "TABLE_OR_VIEW_NOT_FOUND" in error.message, error


def test_an_error_of_a_table_that_stays_is_the_statement_s_own(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(f"{CREATE}; INSERT INTO t VALUES (1, 'a')")
    for path in tmp_path.rglob("manifest-*"):
        path.unlink()
    with pytest.raises(CorruptTable, match="is missing"):
        sql("UPDATE t SET v = 'new' WHERE id = 1")
