"""Statements on a table that is dropped, renamed, or dropped and created again while they run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from failing_io import FailingFileIO, Trigger
from known_holes import each_call
from sql_sessions import Sql

import paimon_core.io.open
from paimon_core.errors import CorruptTable, NotFound, PaimonError
from paimon_core.io.local import LocalFileIO
from paimon_core.table.open import open_table
from paimon_maintenance.cli.sql import call
from paimon_maintenance.job.report import Report
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices

CREATE = "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
CHANGES = {
    "drop": "DROP TABLE t",
    "rename": "ALTER TABLE t RENAME TO u",
    "create again": f"DROP TABLE t; {CREATE}",
}
STATEMENTS = {
    "insert": "INSERT INTO t VALUES (3, 'c')",
    "overwrite": "INSERT OVERWRITE t VALUES (3, 'c')",
    "update": "UPDATE t SET v = 'new' WHERE id = 1",
    "delete": "DELETE FROM t WHERE id = 1",
    "purge": "CALL sys.purge_files('t')",
    "index": """
        SET spark.paimon.file-index.bloom-filter.columns=id;
        CALL sys.rewrite_file_index(table => 't')
    """,
}


def run_beside(warehouse: Path, statement: str, change: str) -> Iterator[PaimonError | None]:
    """The errors of the statement, with the change before its first, second, ... read."""

    def other() -> None:
        shutil.rmtree(warehouse / "default.db" / "u", ignore_errors=True)
        with patch.object(paimon_core.io.open, "LocalFileIO", LocalFileIO):
            Sql(warehouse)(change)

    def run(trigger: Trigger) -> PaimonError | None:
        session = Sql(warehouse)
        with patch.object(paimon_core.io.open, "LocalFileIO", partial(FailingFileIO, trigger)):
            try:
                session(statement)
            except PaimonError as e:
                return e
        return None

    return each_call(warehouse, other, run, reads=True)


@pytest.mark.sampled
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_error_says_what_happened(statement: str, change: str, tmp_path: Path) -> None:
    first = Sql(tmp_path)
    first(f"{CREATE}; INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (2, 'c')")
    ended = run_beside(tmp_path, STATEMENTS[statement], CHANGES[change])
    errors = [e for e in ended if e is not None]
    assert len(errors) > 3
    for error in errors:
        told = ("TABLE_OR_VIEW_NOT_FOUND", "which was dropped or renamed right then")
        assert isinstance(error, NotFound) or any(t in error.message for t in told), error


@pytest.mark.parametrize("steps", range(5))
def test_a_purge_does_not_go_on_in_a_new_table(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = Sql(tmp_path)
    filled = (
        "INSERT INTO t VALUES (1, 'a'); ALTER TABLE t CREATE TAG one; INSERT INTO t VALUES (2, 'b')"
    )
    sql(
        f"{CREATE}; {filled}; CALL sys.create_branch('t', 'b'); CALL sys.reset_consumer('t', 'c', 1)"
    )
    run_table, begun = call.run_table, count()

    def renewed(request: RunRequest, services: RunServices) -> Report:
        if next(begun) == steps:
            Sql(tmp_path)(f"DROP TABLE t; {CREATE}; {filled}")
        return run_table(request, services)

    monkeypatch.setattr(call, "run_table", renewed)
    with pytest.raises(NotFound, match="was dropped and created again meanwhile"):
        sql("CALL sys.purge_files('t')")
    table = open_table(str(tmp_path), "default.t")
    assert table.snapshots.ids() == [1, 2]
    assert sql("SHOW TAGS t") == [["one"]]


def test_the_error_of_a_table_that_stays_is_kept(tmp_path: Path) -> None:
    sql = Sql(tmp_path)
    sql(f"{CREATE}; INSERT INTO t VALUES (1, 'a')")
    for path in tmp_path.rglob("manifest-*"):
        path.unlink()
    with pytest.raises(CorruptTable, match="is missing"):
        sql("UPDATE t SET v = 'new' WHERE id = 1")
