"""Catalogs by name: where they are defined, what is refused, and what jobs make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from catalog_rows import append, schema

from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_maintenance.cli.main import main
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.storage.catalogs import (
    catalog_of,
    defined_catalogs,
    open_table_of,
    options_of,
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the catalog `one`: a JDBC catalog with an empty table db.t."""
    file = tmp_path / "caretaker.toml"
    file.write_text(
        f"""
        [catalogs.one]
        metastore = "jdbc"
        uri = "jdbc:sqlite:{tmp_path}/c.db"
        warehouse = "{tmp_path}/lake"
        "lock.enabled" = true
        """
    )
    monkeypatch.setenv("CARETAKER_CONFIG", str(file))
    monkeypatch.delenv("CARETAKER_CATALOGS", raising=False)
    monkeypatch.delenv("CARETAKER_WAREHOUSE", raising=False)
    catalog = catalog_of("catalog:one")
    assert isinstance(catalog, JdbcCatalog)
    assert catalog.lock_enabled
    catalog.create_database("db")
    catalog.create_table("db.t", schema(bucket="-1"))
    return file


def test_the_environment_comes_before_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"one": {"jdbc.password": "s3cret"}, "two": {"metastore": "filesystem"}}
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps(more))
    found = defined_catalogs()
    assert found["one"]["jdbc.password"] == "s3cret"
    assert found["one"]["metastore"] == "jdbc"
    assert found["two"] == {"metastore": "filesystem"}
    assert options_of("catalog:one", {"uri": "x"})["uri"] == "x"
    assert options_of("/lake", {"a": "b"}) == {"a": "b"}


def test_what_is_wrong_is_named_without_values(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match=r"'other' \(defined: one\)"):
        catalog_of("catalog:other")
    for text in ("s3cret", '["s3cret"]', '{"one": "s3cret"}'):
        monkeypatch.setenv("CARETAKER_CATALOGS", text)
        with pytest.raises(InvalidArgument, match="CARETAKER_CATALOGS") as wrong:
            defined_catalogs()
        assert "s3cret" not in str(wrong.value)
    monkeypatch.delenv("CARETAKER_CATALOGS")
    config.write_text('[catalogs.one]\n"jdbc.password" = "s3cret"\n')
    with pytest.raises(InvalidArgument, match=r"\[catalogs\.one\]: jdbc\.password") as secret:
        defined_catalogs()
    assert "s3cret" not in str(secret.value)
    config.write_text("[catalogs\n")
    with pytest.raises(InvalidArgument, match=r"caretaker\.toml"):
        defined_catalogs()


def test_jobs_run_on_tables_of_a_catalog(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(6):
        append(open_table_of("catalog:one", "db.t"), [i])
    wanted = ["run", "compact", "db.t", "--catalog", "one", "--engine", "local", "--json"]
    assert main([*wanted, "--strategy", "full"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["warehouse"] == "catalog:one"
    assert report["snapshots"] == [7]
    table = open_table_of("catalog:one", "db.t")
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind == "COMPACT"
    assert main(["verify", "db.t", "-w", "catalog:one"]) == 0
    assert main(["read", "db.t", "--catalog", "one"]) == 0
    assert main(["inspect", "db.t", "--catalog", "one"]) == 0


def test_commands_list_catalogs_and_tables(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"one": {"jdbc.password": "s3cret"}}
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps(secret))
    assert main(["catalogs"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("one  jdbc  jdbc:sqlite:")
    assert main(["catalogs", "--json"]) == 0
    shown += capsys.readouterr().out
    assert "s3cret" not in shown
    assert main(["tables", "--catalog", "one"]) == 0
    assert capsys.readouterr().out == "db.t\n"
    assert main(["tables", "x*.*", "--catalog", "one"]) == 3
    assert main(["tables", "--catalog", "one", "-w", "/lake"]) == 2


def test_a_request_carries_its_catalog(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is read again, as on a cluster, there is no file."""
    request = RunRequest(
        job=COMPACT,
        warehouse="catalog:one",
        table="db.t",
        arguments=COMPACT.read_arguments({}),
        file_io_options=options_of("catalog:one"),
    )
    monkeypatch.setenv("CARETAKER_CONFIG", str(config.with_name("empty.toml")))
    config.with_name("empty.toml").write_text("")
    again = RunRequest.from_json(json.loads(json.dumps(request.to_json())), job_named)
    assert again.open().name == "db.t"


@pytest.mark.parametrize(
    ("job", "maintained", "refused"),
    [
        ("compact", "compact, expire-snapshots", True),
        ("maintain", "compact", True),
        ("compact", "expire_snapshots", False),
        ("compact", "", False),
    ],
)
def test_what_the_catalog_does_by_itself_is_refused(
    config: Path, job: str, maintained: str, *, refused: bool
) -> None:
    options: dict[str, Any] = options_of("catalog:one", {"caretaker.maintained-jobs": maintained})
    definition = job_named(job)
    request = RunRequest(
        job=definition,
        warehouse="catalog:one",
        table="db.t",
        arguments=definition.read_arguments({}),
        file_io_options=options,
    )
    if not refused:
        request.open()
        return
    with pytest.raises(UnsupportedFeature, match="by itself") as named:
        request.open()
    assert job in str(named.value)
