"""Format tables whose partitions the catalog keeps, as a REST catalog of Paimon 2.0 does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from format_catalog import KeptFormatTables, KeptPartitions, session_with_formats

from paimon_core.errors import (
    CommitStateUnknown,
    CorruptTable,
    InvalidArgument,
    OutsideTable,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.io.confined import ConfinedFileIO
from paimon_spark.sql.errors import AnalysisError, PartitionsRegistered
from paimon_spark.sql.run import execute
from paimon_spark.sql.text.splitter import split_statements

pytestmark = pytest.mark.spark

KEPT = "TBLPROPERTIES ('metastore.partitioned-table' = 'true')"
CREATE = f"CREATE TABLE t (id INT, dt STRING, hh INT) USING csv PARTITIONED BY (dt, hh) {KEPT}"


class Lake:
    """A session over a catalog with format tables, and the folder of table t."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self._session = session_with_formats(folder, spark)
        self.formats: KeptFormatTables = self._session.catalog_for(
            self._session.data_name(["t"])
        ).format_tables  # type: ignore[assignment]
        self.folder = folder / "default.db" / "t"

    def __call__(self, text: str) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for statement in split_statements(text):
            rows = [list(row) for row in execute(self._session, statement).rows]
        return rows

    def shown(self) -> list[str]:
        return [row[0] for row in self("SHOW PARTITIONS t")]


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Lake:
    return Lake(tmp_path / "lake", session)


def test_writes_register_partitions(sql: Lake) -> None:
    sql(CREATE)
    assert sql("SELECT * FROM t") == []
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b/c', 1), (4, NULL, 1)")
    rows = [[1, "a", 1], [2, "a", 2], [3, "b/c", 1], [4, None, 1]]
    assert sql("SELECT * FROM t ORDER BY id") == rows
    assert sql.shown() == ["dt=a/hh=1", "dt=a/hh=2", "dt=b%2Fc/hh=1", "dt=null/hh=1"]
    # The folder of a partition that nobody has registered.
    stray = sql.folder / "dt=a" / "hh=7"
    stray.mkdir()
    (stray / "data.csv").write_text("70\n")
    assert sql("SELECT * FROM t WHERE dt = 'a' ORDER BY id") == rows[:2]
    # An overwrite replaces its rows, registered or not, as they would come back later.
    sql("INSERT OVERWRITE t PARTITION (dt = 'a', hh = 7) SELECT 7")
    assert sql("SELECT * FROM t WHERE dt = 'a' ORDER BY id") == [*rows[:2], [7, "a", 7]]
    sql("INSERT OVERWRITE t PARTITION (dt = 'd', hh = 1) SELECT 1 WHERE false")
    assert "dt=d/hh=1" in sql.shown()


def test_added_and_dropped(sql: Lake) -> None:
    sql(CREATE)
    sql("ALTER TABLE t ADD PARTITION (dt = 'a', hh = 1) PARTITION (dt = 'a', hh = 2)")
    assert (sql.folder / "dt=a" / "hh=1").is_dir()
    assert sql("SELECT * FROM t") == []
    with pytest.raises(PartitionsRegistered, match="already exist"):
        sql("ALTER TABLE t ADD PARTITION (dt = 'n', hh = 1) PARTITION (dt = 'a', hh = 1)")
    assert sql.shown() == ["dt=a/hh=1", "dt=a/hh=2"]
    sql("ALTER TABLE t ADD IF NOT EXISTS PARTITION (dt = 'b', hh = 1) PARTITION (dt = 'a', hh = 1)")
    for statement, error, text in (
        ("ADD PARTITION (dt = 'b')", AnalysisError, "must match"),
        ("ADD PARTITION (dt = 'x', hh = 1) LOCATION '/x'", UnsupportedFeature, "locations"),
        ("DROP PARTITION (dt = 'x', hh = 1)", AnalysisError, "cannot be found"),
        ("DROP PARTITION (dt = 'a', hh = 1) PURGE", UnsupportedFeature, "PURGE is not supported"),
    ):
        with pytest.raises(error, match=text):
            sql(f"ALTER TABLE t {statement}")
    sql("ALTER TABLE t DROP IF EXISTS PARTITION (dt = 'x', hh = 1)")
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1)")
    stray = sql.folder / "dt=a" / "hh=9"
    stray.mkdir()
    sql("ALTER TABLE t DROP PARTITION (hh = 1)")
    assert sql("SELECT * FROM t") == [[2, "a", 2]]
    assert not (sql.folder / "dt=b" / "hh=1").exists()
    sql("ALTER TABLE t DROP PARTITION (dt = 'a')")
    assert stray.is_dir()  # nobody has registered it
    assert not (sql.folder / "dt=a" / "hh=2").exists()
    assert sql.shown() == []


def test_repaired(sql: Lake) -> None:
    sql(CREATE)
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1)")
    (sql.folder / "dt=a" / "hh=1").rename(sql.folder / "dt=a" / "hh=2")
    assert sql("SELECT * FROM t") == [[2, "b", 1]]
    sql("MSCK REPAIR TABLE t")
    assert sql.shown() == ["dt=a/hh=1", "dt=a/hh=2", "dt=b/hh=1"]
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "a", 2], [2, "b", 1]]
    sql("REPAIR TABLE t DROP PARTITIONS")
    assert sql.shown() == ["dt=a/hh=2", "dt=b/hh=1"]
    (sql.folder / "dt=a" / "hh=2").rename(sql.folder / "dt=a" / "hh=3")
    sql("MSCK REPAIR TABLE t SYNC PARTITIONS")
    assert sql.shown() == ["dt=a/hh=3", "dt=b/hh=1"]
    sql("CREATE TABLE plain (id INT, p INT) USING csv PARTITIONED BY (p)")
    for table in ("plain", "`default`.nothing"):
        with pytest.raises(AnalysisError, match=r"not supported for v2|cannot be found"):
            sql(f"MSCK REPAIR TABLE {table}")


def test_partitions_that_cannot_be(sql: Lake) -> None:
    sql(CREATE)
    sql("INSERT INTO t VALUES (1, 'a', 1)")
    known = sql.formats.partitions["default.t"].known
    for spec, error, text in (
        ({"dt": "a"}, CorruptTable, "with the columns"),
        ({"dt": "", "hh": "1"}, InvalidArgument, "cannot be used as a partition path component"),
        ({"dt": "a", "hh": "x"}, CorruptTable, "is no partition"),
    ):
        known.append(spec)
        with pytest.raises(error, match=text):
            sql("SHOW PARTITIONS t")
        known.remove(spec)
    known.append({"dt": "", "hh": "2"})
    with pytest.raises(InvalidArgument, match="cannot be used"):
        sql("ALTER TABLE t DROP PARTITION (dt = 'a'), PARTITION (hh = 2)")
    assert sql("SELECT * FROM t") == [[1, "a", 1]]


def test_nothing_outside_is_deleted(sql: Lake, tmp_path: Path) -> None:
    sql(CREATE)
    sql("INSERT INTO t VALUES (1, 'a', 1)")
    outside = tmp_path / "outside"
    (sql.folder / "dt=a" / "hh=1").rename(outside)
    (sql.folder / "dt=a" / "hh=1").symlink_to(outside)
    with pytest.raises(OutsideTable):
        sql("ALTER TABLE t DROP PARTITION (dt = 'a', hh = 1)")
    assert sql.shown() == ["dt=a/hh=1"]
    assert list(outside.iterdir())


def test_a_failure_leaves_no_rows_in_sight(sql: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(CREATE)
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2)")

    def failing(*_: Any, **__: Any) -> Any:
        raise StorageError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(ConfinedFileIO, "delete_dir", failing)
        with pytest.raises(StorageError, match="unregistered, but its folder could not be deleted"):
            sql("ALTER TABLE t DROP PARTITION (dt = 'a', hh = 1)")
    assert sql("SELECT * FROM t") == [[2, "a", 2]]
    assert (sql.folder / "dt=a" / "hh=1").is_dir()
    with monkeypatch.context() as patch:
        patch.setattr(KeptPartitions, "add", failing)
        with pytest.raises(CommitStateUnknown, match="MSCK REPAIR TABLE"):
            sql("INSERT INTO t VALUES (3, 'a', 3)")
    assert sql("SELECT * FROM t") == [[2, "a", 2]]
    sql("MSCK REPAIR TABLE t")
    assert sql("SELECT * FROM t ORDER BY id") == [[1, "a", 1], [2, "a", 2], [3, "a", 3]]


def test_who_may_have_them(sql: Lake, tmp_path: Path) -> None:
    sql("CREATE TABLE t (id INT, p INT) USING csv PARTITIONED BY (p)")
    sql("INSERT INTO t VALUES (1, 1)")
    for options, text in (
        ("'format-table.implementation' = 'engine'", "engine implementation"),
        (f"'path' = '{tmp_path}/own'", "only supported for internal tables"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            sql(
                "CREATE TABLE u (id INT, p INT) USING csv PARTITIONED BY (p) TBLPROPERTIES "
                f"({options}, 'metastore.partitioned-table' = 'true')"
            )
    # Those of a table that others have altered are not the ones of its folders.
    sql("ALTER TABLE t SET TBLPROPERTIES ('metastore.partitioned-table' = 'true')")
    assert sql("SELECT * FROM t") == []
    sql("MSCK REPAIR TABLE t")
    assert sql("SELECT * FROM t") == [[1, 1]]
    sql("ALTER TABLE t SET TBLPROPERTIES ('format-table.implementation' = 'engine')")
    for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (1, 2)", "SHOW PARTITIONS t"):
        with pytest.raises(InvalidArgument, match="UNSET TBLPROPERTIES"):
            sql(statement)
    sql("ALTER TABLE t UNSET TBLPROPERTIES ('metastore.partitioned-table')")
    assert sql("SELECT * FROM t") == [[1, 1]]
