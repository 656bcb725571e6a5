"""A real Hive metastore whose reply is lost after it has done what was asked.

The outcome is unknown then: nothing may be cleaned up, and nothing wrong be reported.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from catalog_rows import append, row_count, schema
from dropped_reply import dropped_reply
from metastore_process import HiveMetastore

from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import AddColumn, SetOption
from paimon_core.errors import AlreadyExists, NotFound, SchemaError, StorageError
from paimon_core.types.sql import parse_type
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table


@pytest.fixture
def ours(hive_metastore: HiveMetastore) -> HiveCatalog:
    return HiveCatalog.connect(hive_metastore.options)


@pytest.fixture
def database(ours: HiveCatalog, tmp_path: Path) -> str:
    name = f"lost_{abs(hash(tmp_path))}"
    ours.create_database(name)
    return name


@contextmanager
def losing(ours: HiveCatalog, call: str) -> Iterator[tuple[HiveCatalog, list[bytes]]]:
    """The catalog behind a proxy that loses the reply to the first `call`."""
    address, _, port = ours.options["uri"].rpartition(":")
    name = call.encode()
    with dropped_reply(int(port), struct.pack(">I", len(name)) + name) as (proxy, seen):
        yield HiveCatalog.connect({**ours.options, "uri": f"{address}:{proxy}"}), seen


def partitioned(ours: HiveCatalog, name: str) -> None:
    """A table with a partition in the metastore for each v."""
    columns = [Column("id", "BIGINT"), Column("v", "STRING")]
    options = {"bucket": "-1", "metastore.partitioned-table": "true"}
    wanted = create_schema(columns, now_millis=1, partition_keys=["v"], options=options)
    ours.create_table(name, wanted)


def registered(ours: HiveCatalog, name: str) -> list[dict[str, str]]:
    registry = ours.get_table(name).partition_registry
    assert registry is not None
    return registry.specs()


def test_a_database_that_was_created_or_dropped(ours: HiveCatalog, database: str) -> None:
    with losing(ours, "create_database") as (lossy, seen):
        with pytest.raises(StorageError, match="did not answer"):
            lossy.create_database(f"{database}_2")
        assert seen
    assert f"{database}_2" in ours.list_databases()
    ours.create_database(f"{database}_2", if_not_exists=True)
    with losing(ours, "alter_database") as (lossy, seen):
        with pytest.raises(StorageError, match="did not answer"):
            lossy.alter_database(f"{database}_2", changes={"a": "b"})
        assert seen
    assert ours.get_database(f"{database}_2").properties["a"] == "b"
    with losing(ours, "drop_database") as (lossy, seen):
        with pytest.raises(StorageError, match="did not answer"):
            lossy.drop_database(f"{database}_2")
        assert seen
    ours.drop_database(f"{database}_2", if_exists=True)
    assert f"{database}_2" not in ours.list_databases()


def test_a_table_that_was_created(ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    with losing(ours, "create_table") as (lossy, seen):
        with pytest.raises(StorageError, match="did not answer"):
            lossy.create_table(name, schema(bucket="-1"))
        assert seen
    append(ours.get_table(name), [1])
    assert row_count(ours, name) == 1
    ours.create_table(name, schema(bucket="-1"), if_not_exists=True)
    with pytest.raises(AlreadyExists):
        ours.create_table(name, schema(bucket="-1"))


def test_a_table_that_was_dropped(ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    ours.create_table(name, schema(bucket="-1"))
    append(ours.get_table(name), [1])
    folder = Path(ours.get_table(name).root.removeprefix("file:"))
    with losing(ours, "drop_table") as (lossy, seen):
        with pytest.raises(StorageError, match="did not answer"):
            lossy.drop_table(name)
        assert seen
    with pytest.raises(NotFound):
        ours.get_table(name)
    assert list(folder.glob("snapshot/snapshot-*")), "whose drop is not known keeps its files"
    with pytest.raises(AlreadyExists, match="holds a schema"):
        ours.create_table(name, schema(bucket="-1"))


def test_a_table_that_was_renamed(ours: HiveCatalog, database: str) -> None:
    ours.create_table(f"{database}.a", schema(bucket="-1"))
    append(ours.get_table(f"{database}.a"), [1])
    with losing(ours, "alter_table_with_environment_context") as (lossy, seen):
        lossy.rename_table(f"{database}.a", f"{database}.b")
        assert seen
    assert ours.list_tables(database) == ["b"]
    assert row_count(ours, f"{database}.b") == 1
    append(ours.get_table(f"{database}.b"), [2])
    assert row_count(ours, f"{database}.b") == 2


def test_a_table_that_was_altered(ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    ours.create_table(name, schema(bucket="-1"))
    with losing(ours, "alter_table_with_environment_context") as (lossy, seen):
        with pytest.raises(SchemaError, match=r"may not have taken its columns.*did not answer"):
            lossy.alter_table(name, [AddColumn(("more",), parse_type("INT"))], now_millis=1)
        assert seen
    assert [f.name for f in ours.get_table(name).schema.fields] == ["id", "v", "more"]
    ours.alter_table(name, [SetOption("a", "b")], now_millis=2)


@pytest.mark.parametrize("call", ["lock", "unlock"])
def test_no_lock_is_left_behind(call: str, ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    ours.create_table(name, schema(bucket="-1"))
    started = time.monotonic()
    with losing(ours, call) as (lossy, seen):
        lossy.alter_table(name, [AddColumn(("more",), parse_type("INT"))], now_millis=1)
        assert seen
    assert [f.name for f in ours.get_table(name).schema.fields] == ["id", "v", "more"]
    ours.alter_table(name, [SetOption("a", "b")], now_millis=2)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "call", ["lock", "unlock", "check_lock", "add_partitions_req", "get_table"]
)
def test_a_commit_is_there_once(call: str, ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    partitioned(ours, name)
    append(ours.get_table(name), [1], "1")
    started = time.monotonic()
    with losing(ours, call) as (lossy, seen):
        append(lossy.get_table(name), [2], "2")
        assert seen or call == "check_lock"
    assert row_count(ours, name) == 2
    append(ours.get_table(name), [3], "3")
    assert row_count(ours, name) == 3
    assert time.monotonic() - started < 20, "no lock is left behind"
    found = {"/".join(spec.values()) for spec in registered(ours, name)}
    assert found == {"1", "2", "3"}


def test_a_job_whose_partition_was_dropped(
    ours: HiveCatalog, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore is told first: without its reply nothing is committed, and it gets it back."""
    name = f"{database}.t"
    partitioned(ours, name)
    for v in ("1", "2"):
        append(ours.get_table(name), [1], v)
    with losing(ours, "drop_partition") as (lossy, seen):
        report = drop_partition(lossy, name, "v=2", monkeypatch)
        assert seen
    assert isinstance(report.error, StorageError)
    assert report.snapshots == ()
    assert row_count(ours, name) == 2
    assert [spec["v"] for spec in registered(ours, name)] == ["1", "2"]
    again = drop_partition(ours, name, "v=2", monkeypatch)
    assert again.error is None, again.error
    assert row_count(ours, name) == 1
    assert [spec["v"] for spec in registered(ours, name)] == ["1"]


def drop_partition(
    catalog: HiveCatalog, name: str, partition: str, monkeypatch: pytest.MonkeyPatch
) -> Report:
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps({"hive": dict(catalog.options)}))
    job = job_named("drop_partition")
    return run_table(
        RunRequest(
            job=job,
            warehouse="catalog:hive",
            table=name,
            arguments=job.read_arguments({"partitions": [partition]}),
            force=True,
        )
    )
