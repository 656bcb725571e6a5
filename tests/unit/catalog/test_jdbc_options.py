"""What the options of a JDBC catalog mean, and which are refused."""

from __future__ import annotations

import builtins
import pickle
from pathlib import Path
from typing import Any

import pytest
from catalog_rows import append, schema

from paimon_core.catalog.jdbc.database import JdbcDatabase, _engine, _parsed
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.jdbc.lock import JdbcLock
from paimon_core.catalog.open import open_catalog
from paimon_core.ddl.schema_change import SetOption
from paimon_core.errors import (
    AlreadyExists,
    CatalogLocked,
    InvalidArgument,
    NotFound,
    StorageError,
    UnsupportedFeature,
)


def _options(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": str(tmp_path / "w"),
        **more,
    }


def test_the_factory_opens_by_metastore(tmp_path: Path) -> None:
    assert open_catalog({"warehouse": str(tmp_path)}).metastore == "filesystem"
    assert open_catalog(_options(tmp_path)).metastore == "jdbc"
    for name in ("glue", "dlf"):
        with pytest.raises(UnsupportedFeature, match=name):
            open_catalog({"metastore": name, "warehouse": "/w"})
    with pytest.raises(InvalidArgument, match="warehouse"):
        open_catalog({})
    with pytest.raises(InvalidArgument, match="warehouse"):
        open_catalog({"metastore": "jdbc", "uri": "jdbc:sqlite:x.db"})
    with pytest.raises(UnsupportedFeature, match=r"lock\.type=hive"):
        open_catalog({"warehouse": str(tmp_path), "lock.type": "hive"})


def test_databases_that_are_not_supported_are_refused_by_name(tmp_path: Path) -> None:
    for uri in ("jdbc:mysql://h/d", "jdbc:oracle:thin:@h"):
        with pytest.raises(UnsupportedFeature, match=r"jdbc:(mysql|oracle)|mysql|oracle"):
            open_catalog(_options(tmp_path) | {"uri": uri})
    for uri in ("", "sqlite:///c.db"):
        with pytest.raises(InvalidArgument, match="uri"):
            open_catalog(_options(tmp_path) | {"uri": uri})
    for uri in ("jdbc:sqlite:/c.db?cipher=x", "jdbc:sqlite:/c.db?journal_mode=WAL;DROP"):
        with pytest.raises(InvalidArgument, match=r"cipher|journal_mode"):
            open_catalog(_options(tmp_path) | {"uri": uri})


def test_a_postgresql_url_is_read_as_javas_driver_reads_it() -> None:
    uri = "jdbc:postgresql://h:5433/d?user=u&password=p&sslmode=require&ApplicationName=a"
    assert _parsed({"uri": uri}) == (
        "postgresql",
        "postgresql+psycopg://u:p@h:5433/d",
        {"sslmode": "require", "application_name": "a"},
    )
    url = _parsed({"uri": "jdbc:postgresql://h/d", "jdbc.user": "u", "jdbc.password": "p/@"})[1]
    assert url == "postgresql+psycopg://u:p%2F%40@h/d"


def test_a_database_that_does_not_answer_shows_no_password(tmp_path: Path) -> None:
    nowhere = {
        "uri": "jdbc:postgresql://127.0.0.1:1/d",
        "jdbc.user": "u",
        "jdbc.password": "s3cret",
    }
    with pytest.raises(StorageError, match="does not answer") as failed:
        open_catalog(_options(tmp_path) | nowhere)
    assert "s3cret" not in str(failed.value)
    assert "s3cret" not in repr(JdbcDatabase(_options(tmp_path) | nowhere))


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("sqlalchemy"):
            raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")
        return original(name, *args, **kwargs)

    _engine.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidArgument, match="sqlalchemy") as missing:
        open_catalog(_options(tmp_path))
    assert "maintenance" in str(missing.value)


def test_names_and_values_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    catalog = open_catalog(_options(tmp_path))
    with pytest.raises(InvalidArgument, match="255"):
        catalog.create_database("d" * 256)
    catalog.create_database("db")
    with pytest.raises(InvalidArgument, match="1000"):
        catalog.create_table("db.t", schema(**{"x.y": "v" * 1001}))
    with pytest.raises(InvalidArgument, match="1000"):
        catalog.alter_database("db", changes={"k": "v" * 1001})


def test_keys_keep_catalogs_of_one_database_apart(tmp_path: Path) -> None:
    one = open_catalog(_options(tmp_path, **{"catalog-key": "one"}))
    two = open_catalog(_options(tmp_path, **{"catalog-key": "two"}))
    one.create_database("db")
    one.create_table("db.t", schema())
    assert two.list_databases() == []
    two.create_database("db")
    with pytest.raises(AlreadyExists, match="holds a schema"):
        two.create_table("db.t", schema())
    with pytest.raises(NotFound):
        two.get_table("db.t")


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    catalog = open_catalog(_options(tmp_path))
    for missing in (
        lambda: catalog.get_database("db"),
        lambda: catalog.list_tables("db"),
        lambda: catalog.drop_database("db"),
        lambda: catalog.alter_database("db", changes={"a": "b"}),
        lambda: catalog.create_table("db.t", schema()),
        lambda: catalog.get_table("db.t"),
        lambda: catalog.drop_table("db.t"),
        lambda: catalog.rename_table("db.t", "db.u"),
        lambda: catalog.alter_table("db.t", [SetOption("a", "b")], now_millis=1),
    ):
        with pytest.raises(NotFound):
            missing()
    catalog.drop_database("db", if_exists=True)
    catalog.drop_table("db.t", if_exists=True)
    catalog.create_database("db")
    catalog.create_table("db.t", schema())
    catalog.create_table("db.t", schema(), if_not_exists=True)
    with pytest.raises(InvalidArgument, match="not empty"):
        catalog.drop_database("db")
    with pytest.raises(AlreadyExists):
        catalog.rename_table("db.t", "db.t")
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
    assert not (tmp_path / "w" / "db.db" / "t").exists()


def test_a_pickled_table_goes_on_taking_the_lock(tmp_path: Path) -> None:
    catalog = JdbcCatalog(_options(tmp_path, **{"lock.enabled": "true"}))
    catalog.create_database("db")
    catalog.create_table("db.t", schema())
    table = pickle.loads(pickle.dumps(catalog.get_table("db.t")))
    assert append(table, [1]) == 1
    impatient = JdbcCatalog(
        _options(tmp_path, **{"lock.enabled": "true", "lock-acquire-timeout": "1 ms"})
    )
    again = pickle.loads(pickle.dumps(impatient.get_table("db.t")))
    lock = JdbcLock(JdbcDatabase(catalog.options), "jdbc", "db.t")
    with lock.held(), pytest.raises(CatalogLocked):
        append(again, [2])
    assert table.snapshots.latest_id() == 1


def test_partitions_come_from_the_files(tmp_path: Path) -> None:
    catalog = open_catalog(_options(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", schema())
    assert catalog.list_partitions("db.t") == []
    append(catalog.get_table("db.t"), [1, 2])
    append(catalog.get_table("db.t"), [3])
    (whole,) = catalog.list_partitions("db.t")
    assert (whole.statistics.record_count, whole.statistics.file_count) == (3, 2)
    assert whole.statistics.spec == {}


def test_no_part_of_a_url_with_a_login_is_shown(tmp_path: Path) -> None:
    for uri in (
        "jdbc:postgresql://me:hid/den@h/d",
        "jdbc:postgresql://me:hidden@h/d",
        "jdbc:postgresql://h:hidden/d",
        "jdbc:postgresql://[::1/d?password=hidden",
    ):
        with pytest.raises(InvalidArgument, match=r"uri") as refused:
            open_catalog(_options(tmp_path) | {"uri": uri})
        assert "hid" not in f"{refused.value} {refused.value.__cause__}"


def test_a_repr_shows_no_secrets(tmp_path: Path) -> None:
    secret = {"s3.secret-key": "hidden", "jdbc.password": "hidden"}
    jdbc = open_catalog(_options(tmp_path, **secret))
    files = open_catalog({"warehouse": str(tmp_path / "w"), **secret})
    jdbc.create_database("db")
    jdbc.create_table("db.t", schema())
    shown = (jdbc, files, jdbc.get_table("db.t"), files.get_table("db.t"))
    assert "hidden" not in repr(shown)


def test_the_path_of_a_sqlite_file_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("a b", "p%20c", "h#d", "a@b", "ü;x"):
        uri = f"jdbc:sqlite:{tmp_path}/{name}.db"
        open_catalog(_options(tmp_path) | {"uri": uri}).create_database("db")
        assert (tmp_path / f"{name}.db").exists()
    with pytest.raises(InvalidArgument, match="unknown parameter e"):
        open_catalog(_options(tmp_path) | {"uri": f"jdbc:sqlite:{tmp_path}/d?e"})
