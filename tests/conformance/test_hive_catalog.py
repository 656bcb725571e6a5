"""Java's HiveCatalog and ours on one metastore: each sees what the other does, and waits for its lock."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from catalog_jobs import run_case
from catalog_rows import COLUMNS, RETRIES, append, append_one_by_one, schema
from iceberg_reader import iceberg_rows
from metastore_process import HiveMetastore
from sql_sessions import Sql

from oracle import Oracle, OracleError
from paimon_core.catalog.catalog import OtherObject
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.hive import lock as hive_lock
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.lock import HiveLock
from paimon_core.catalog.views import View
from paimon_core.ddl.create import Column, create_schema
from paimon_core.ddl.schema_change import AddColumn, RemoveOption, SetOption
from paimon_core.errors import (
    AlreadyExists,
    CatalogLocked,
    InvalidArgument,
    NotFound,
    SchemaError,
    UnsupportedFeature,
)
from paimon_core.options import Options
from paimon_core.remote.hive_client import HiveClient
from paimon_core.remote.thrift_calls import FieldSchema, SerDeInfo, StorageDescriptor, Table
from paimon_core.types.data_types import AtomicType, DataField, TypeRoot
from paimon_core.types.sql import parse_type
from paimon_maintenance.cli.sql.call import JobProcedures
from paimon_maintenance.job.report import Report
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import run_table
from paimon_spark.sql.procedures import CallSite

COMMITS = 25
PARTITIONED = {"metastore.partitioned-table": "true"}
DATED = [*COLUMNS, {"name": "dt", "type": "STRING"}]


class _Oracles(Protocol):
    def of(self, version: str) -> Oracle: ...


@pytest.fixture
def options(hive_metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("CARETAKER_CATALOGS", json.dumps({"hive": hive_metastore.options}))
    return hive_metastore.options


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"db_{abs(hash(tmp_path))}"


@pytest.fixture
def java(hive_oracles: _Oracles, options: dict[str, str], database: str) -> Oracle:
    java = hive_oracles.of("1.4.2").defaults(catalog=options, database=database, table="t")
    java.one("create_database")
    return java


@pytest.fixture
def ours(options: dict[str, str]) -> HiveCatalog:
    return HiveCatalog.connect(options)


def _run(job: str, table: str, **arguments: Any) -> Report:
    definition = job_named(job)
    return run_table(
        RunRequest(
            job=definition,
            warehouse="catalog:hive",
            table=table,
            arguments=definition.read_arguments(arguments),
            force=True,
        )
    )


def _specs(java: Oracle) -> list[list[str]]:
    """The values of all partitions in the metastore, as Java's client reads them."""
    return sorted(p["values"] for p in java.one("list_partitions")["hive"])


def test_databases_and_tables_of_either_are_the_others(
    java: Oracle, ours: HiveCatalog, database: str
) -> None:
    second = f"{database}_2"
    java.one("alter_database", set={"from": "java"})
    assert ours.get_database(database).properties["from"] == "java"
    ours.alter_database(database, changes={"more": "1"}, removed=["from", "missing"])
    properties = java.one("get_database")["properties"]
    assert properties["more"] == "1"
    assert "from" not in properties
    ours.create_database(second, properties={"comment": "ours", "a": "b"})
    told = java.one("get_database", database=second)["properties"]
    assert (told["comment"], told["a"]) == ("ours", "b")
    assert {database, second} < set(ours.list_databases())
    with pytest.raises(AlreadyExists):
        ours.create_database(second)

    java.one("create_table", columns=COLUMNS, options=RETRIES)
    ours.create_table(f"{database}.mine", schema(bucket="-1"))
    assert ours.list_tables(database) == java.one("list_tables")["tables"] == ["mine", "t"]
    with pytest.raises(AlreadyExists):
        ours.create_table(f"{database}.t", schema())
    with pytest.raises(OracleError):
        java.one("create_table", table="mine", columns=COLUMNS)

    ours.rename_table(f"{database}.t", f"{second}.renamed")
    java.one("rename_table", table="mine", to="theirs")
    assert ours.list_tables(database) == ["theirs"]
    java.one("write", database=second, table="renamed", rows=[[1, "java"]])
    append(ours.get_table(f"{database}.theirs"), [2])
    assert java.rows(table="theirs") == [["+I", 2, "ours"]]
    assert ours.get_table(f"{second}.renamed").snapshots.latest_id() == 1

    ours.drop_table(f"{database}.theirs")
    java.one("drop_table", database=second, table="renamed")
    assert ours.list_tables(database) == java.one("list_tables")["tables"] == []
    with pytest.raises(NotFound):
        ours.get_table(f"{second}.renamed")
    ours.drop_database(second)
    with pytest.raises(NotFound):
        ours.get_database(second)


def _told(java: Oracle, table: str) -> Any:
    """The metastore's table without names, times and places."""
    found = json.loads(json.dumps(java.one("get_table", table=table)["hive"]))
    for key in ("createTime", "lastAccessTime", "tableName", "owner"):
        found.pop(key, None)
    found["sd"].pop("location", None)
    for key in ("transient_lastDdlTime", "totalSize", "numFiles"):
        found["parameters"].pop(key, None)
    return found


def test_the_metastore_holds_our_tables_as_it_holds_javas(
    java: Oracle, ours: HiveCatalog, database: str
) -> None:
    columns = [
        ("id", "BIGINT NOT NULL", "the key"),
        ("dt", "STRING NOT NULL", None),
        ("c", "CHAR(5)", None),
        ("vc", "VARCHAR(70000)", None),
        ("d", "DECIMAL(12, 3)", None),
        ("b", "BYTES", None),
        ("t", "TIMESTAMP(6)", None),
        ("l", "TIMESTAMP(3) WITH LOCAL TIME ZONE", None),
        ("m", "MAP<STRING, ARRAY<INT>>", None),
        ("s", "MULTISET<STRING>", None),
        ("r", "ROW<x INT, y ROW<z DATE>>", None),
        ("ti", "TIME", None),
    ]
    options = {**PARTITIONED, "bucket": "2", "hive.extra": "x"}
    for name in ("t", "mine"):
        if name == "t":
            java.one(
                "create_table",
                columns=[
                    {"name": n, "type": t} | ({"comment": c} if c else {}) for n, t, c in columns
                ],
                partition_keys=["dt"],
                primary_keys=["id", "dt"],
                options=options,
                comment="all of it",
            )
        else:
            wanted = create_schema(
                [Column(n, t, description=c) for n, t, c in columns],
                now_millis=1,
                partition_keys=["dt"],
                primary_keys=["id", "dt"],
                options=options,
                comment="all of it",
            )
            ours.create_table(f"{database}.mine", wanted)
    assert _told(java, "mine") == _told(java, "t")
    changes = [
        SetOption("tag.num-retained-max", "5"),
        RemoveOption("hive.extra"),
        AddColumn(("added",), AtomicType(kind=TypeRoot.INT)),
    ]
    ours.alter_table(f"{database}.mine", changes, now_millis=1)
    java.one(
        "alter_table",
        changes=[
            {"change": "set_option", "key": "tag.num-retained-max", "value": "5"},
            {"change": "remove_option", "key": "hive.extra"},
            {"change": "add_column", "name": "added", "type": "INT"},
        ],
    )
    assert _told(java, "mine") == _told(java, "t")
    assert [f.name for f in ours.get_table(f"{database}.t").schema.fields][-1] == "added"


def _repair(name: str) -> None:
    site = CallSite(warehouse="catalog:hive", database="default")
    assert JobProcedures().call("repair", [("database_or_table", name)], site).rows == [[True]]


def test_repair_registers_what_the_metastore_lost(
    java: Oracle, ours: HiveCatalog, options: dict[str, str], database: str
) -> None:
    tables = {"t": ("dt",), "flat": ()}
    for table, keys in tables.items():
        java.one(
            "create_table",
            table=table,
            columns=DATED,
            partition_keys=list(keys),
            options={**PARTITIONED, "bucket": "-1"},
            comment="a table",
        )
        java.one("write", table=table, rows=[[1, "a", "x"], [2, "b", "y"]])
    before = {table: _told(java, table) for table in tables}
    partitions, client = _specs(java), HiveClient(options)
    assert partitions == [["x"], ["y"]]
    for table in tables:
        client.call("drop_table", database, table, False)
    assert ours.list_tables(database) == []
    _repair(f" {database}.t , {database}.flat")
    assert {table: _told(java, table) for table in tables} == before
    assert _specs(java) == partitions
    assert java.rows() == [["+I", 1, "a", "x"], ["+I", 2, "b", "y"]]
    java.one("write", rows=[[3, "c", "z"]])
    append_rows = java.rows()

    # Files that change without the metastore, and a partition that is lost.
    location = ours.get_table(f"{database}.t").root
    files = FileSystemCatalog(str(Path(location).parents[1]))
    files.alter_table(
        f"{database}.t",
        [AddColumn(("n",), AtomicType(kind=TypeRoot.INT)), SetOption("tag.num-retained-max", "5")],
        now_millis=1,
    )
    client.call("drop_partition", database, "t", ("y",), False)
    stale = _told(java, "t")
    _repair(database)
    repaired = _told(java, "t")
    assert repaired != stale
    assert _specs(java) == [["x"], ["y"], ["z"]]
    java.one("alter_table", changes=[{"change": "set_option", "key": "a", "value": "b"}])
    altered = _told(java, "t")
    assert altered["parameters"].pop("a") == "b"
    assert altered == repaired
    assert [r[:4] for r in java.rows()] == append_rows
    _repair(f"{database}.t")
    with pytest.raises(NotFound, match="no schema"):
        _repair(f"{database}.never")
    with pytest.raises(InvalidArgument, match="Cannot get splits"):
        _repair("a.b.c")


def test_views_and_other_tables_are_passed_over(
    java: Oracle, ours: HiveCatalog, options: dict[str, str], database: str
) -> None:
    java.one("create_table", columns=COLUMNS)
    client = HiveClient(options)
    descriptor = StorageDescriptor(
        cols=(FieldSchema(name="a", type="int"),),
        input_format="org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
        output_format="org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
        serde_info=SerDeInfo(parameters={}),
    )
    for name, kind, parameters in (
        ("a_view", "VIRTUAL_VIEW", {}),
        ("iceberg", "EXTERNAL_TABLE", {"table_type": "ICEBERG", "EXTERNAL": "TRUE"}),
        ("orc", "MANAGED_TABLE", {}),
    ):
        table = Table(
            db_name=database,
            table_name=name,
            owner="me",
            sd=descriptor,
            partition_keys=(),
            parameters=parameters,
            table_type=kind,
        )
        client.call("create_table", table)
    assert ours.list_tables(database) == ["t"]
    assert ours.list_others(database) == [
        OtherObject("a_view", "view"),
        OtherObject("iceberg", "iceberg-table"),
        OtherObject("orc", "hive-table"),
    ]
    with pytest.raises(UnsupportedFeature, match="iceberg-table"):
        ours.get_table(f"{database}.iceberg")
    with pytest.raises(UnsupportedFeature):
        ours.drop_table(f"{database}.orc")
    with pytest.raises(InvalidArgument, match="1 views and 2 others"):
        ours.drop_database(database, cascade=True)
    assert ours.list_tables(database) == ["t"]


def test_views_in_the_metastore(java: Oracle, ours: HiveCatalog, database: str) -> None:
    java.one("create_table", columns=COLUMNS)
    types = {
        "n": "BIGINT",
        "s": "ROW<x DECIMAL(5, 2), y ARRAY<VARCHAR(3)>>",
        "m": "MAP<INT, BYTES>",
    }
    view = View(
        name=f"{database}.v",
        fields=tuple(
            DataField(id=i, name=n, type=parse_type(t), description=f"the {n}")
            for i, (n, t) in enumerate(types.items())
        ),
        query="SELECT 1 AS n, NULL AS s, NULL AS m",
        comment="mine",
        options={"k": "x"},
    )
    ours.views.create(view)
    found = ours.views.find(f"{database}.v")
    assert found is not None
    options = {k: v for k, v in found.options.items() if k != "transient_lastDdlTime"}
    assert replace(found, options=options) == view
    assert ours.views.names(database) == ["v"]
    assert ours.views.find(f"{database}.t") is ours.views.find(f"{database}.no") is None
    assert java.one("list_tables")["tables"] == ["t"]
    with pytest.raises(NotFound, match="it is a view"):
        ours.get_table(f"{database}.v")
    for taken in ("t", "v"):
        with pytest.raises(AlreadyExists):
            ours.views.create(replace(view, name=f"{database}.{taken}"))
    with pytest.raises(UnsupportedFeature, match="one text"):
        ours.views.set_dialects(f"{database}.v", [])
    ours.views.drop(f"{database}.v")
    with pytest.raises(NotFound):
        ours.views.drop(f"{database}.v")
    ours.views.create(view)
    java.one("drop_table")
    with pytest.raises(InvalidArgument, match="1 views"):
        ours.drop_database(database)
    ours.drop_database(database, cascade=True)


def test_a_dropped_format_table_leaves_a_table_of_another_catalog(
    ours: HiveCatalog, database: str
) -> None:
    """Only the folder shows that there is one."""
    ours.create_database(database)
    plain = replace(schema(), options=Options({"type": "format-table", "file.format": "csv"}))
    for name, inside in (("f", True), ("g", False)):
        identifier = f"{database}.{name}"
        ours.format_tables.create(identifier, plain)
        table = ours.format_tables.find(identifier)
        assert table is not None
        root = Path(table.root)
        (root / "a.csv").write_text("1,x\n")
        if inside:
            other = FileSystemCatalog(str(root / "lake"))
            other.create_database("db")
            other.create_table("db.t", schema())
            append(other.get_table("db.t"), [1])
        ours.format_tables.drop(identifier)
        assert ours.format_tables.find(identifier) is None
        assert root.exists() == inside
    assert FileSystemCatalog(str(root.parent / "f" / "lake")).get_table("db.t").snapshots.ids()


def test_external_tables_keep_their_folder(
    java: Oracle, ours: HiveCatalog, database: str, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere"
    name = f"{database}.ext"
    ours.create_table(name, schema(bucket="-1", path=str(place)))
    told = java.one("get_table", table="ext")["hive"]
    assert told["tableType"] == "EXTERNAL_TABLE"
    assert told["parameters"]["EXTERNAL"] == "TRUE"
    java.one("write", table="ext", rows=[[1, "java"]])
    append(ours.get_table(name), [2])
    assert ours.get_table(name).root == str(place)
    ours.drop_table(name)
    assert (place / "snapshot" / "snapshot-2").exists()
    # Java takes the folder up again, as we do.
    java.one("create_table", table="ext", columns=COLUMNS, options={"path": str(place)})
    assert java.rows(table="ext") == [["+I", 1, "java"], ["+I", 2, "ours"]]
    java.one("drop_table", table="ext")
    other = create_schema([Column("x", "INT")], now_millis=1, options={"path": str(place)})
    with pytest.raises(SchemaError, match="other columns"):
        ours.create_table(name, other)
    ours.create_table(name, schema(path=str(place)))
    assert ours.get_table(name).snapshots.latest_id() == 2


def test_capitals_in_names_become_small(java: Oracle, ours: HiveCatalog, database: str) -> None:
    ours.create_database(f"{database}_Db")
    with pytest.raises(AlreadyExists):
        ours.create_database(f"{database}_db")
    java = java.defaults(catalog=dict(ours.options), database=f"{database}_Db")
    name = f"{database}_Db.tT"
    ours.create_table(name, create_schema([Column("aA", "INT")], now_millis=1))
    java.one("write", table="Tt", rows=[[1]])
    assert ours.list_tables(f"{database}_DB") == ["tt"]
    assert ours.get_table(name).latest_or_not_found().id == 1
    with pytest.raises(AlreadyExists):
        ours.create_table(f"{database}_db.TT", schema())
    with pytest.raises(AlreadyExists):
        ours.rename_table(name, f"{database}_db.tt")
    ours.rename_table(name, f"{database}_Db.uU")
    assert java.rows(table="UU") == [["+I", 1]]
    folder = Path(ours.get_table(f"{database}_db.uu").root)
    assert folder.name == "uu"
    ours.drop_table(f"{database}_Db.Uu")
    assert not folder.exists()
    ours.drop_database(f"{database}_DB")


def test_a_table_that_the_metastore_refuses_leaves_nothing(
    java: Oracle, ours: HiveCatalog, database: str
) -> None:
    with pytest.raises(InvalidArgument):
        ours.create_table(f"{database}.no-name", schema())
    location = ours.get_database(database).location
    assert location is not None
    assert list(Path(location.removeprefix("file:")).iterdir()) == []


# --- the lock -----------------------------------------------------------------------------------


def test_each_waits_for_the_others_lock(
    java: Oracle, ours: HiveCatalog, options: dict[str, str], database: str
) -> None:
    java.one("create_table", columns=COLUMNS, options=RETRIES)
    lock = HiveLock(HiveClient(options), database, "t")
    impatient = HiveCatalog.connect({**options, "lock-acquire-timeout": "300 ms"})
    with lock.held():
        with pytest.raises(
            CatalogLocked, match=r"was held by \S+@\S+ \(lock \d+, since 20.*nothing was changed"
        ):
            append(impatient.get_table(f"{database}.t"), [1])
        with pytest.raises(CatalogLocked):
            impatient.alter_table(f"{database}.t", [SetOption("a", "b")], now_millis=1)
        waiting = threading.Thread(target=java.one, args=("write",), kwargs={"rows": [[2, "java"]]})
        waiting.start()
        time.sleep(0.5)
        assert ours.get_table(f"{database}.t").snapshots.latest_id() is None
    waiting.join(60)
    append(ours.get_table(f"{database}.t"), [3])
    assert java.rows() == [["+I", 2, "java"], ["+I", 3, "ours"]]


def test_the_lock_of_a_killed_process_is_released(
    ours: HiveCatalog, options: dict[str, str], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No housekeeper runs here, so it would stop all commits for ever."""
    monkeypatch.setattr(hive_lock, "ENDED_MILLIS", 0)
    ours.create_database(database)
    ours.create_table(f"{database}.t", schema())
    die = (
        "import os, sys; from paimon_core.catalog.hive.lock import HiveLock; "
        "from paimon_core.remote.hive_client import HiveClient; "
        f"HiveLock(HiveClient({options!r}), {database!r}, 't')._acquire(); os.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", die], check=False, env=env)
    assert died.returncode == -9
    append(ours.get_table(f"{database}.t"), [1])
    assert ours.get_table(f"{database}.t").snapshots.latest_id() == 1


def test_two_writers_with_the_lock_lose_and_double_nothing(
    java: Oracle, ours: HiveCatalog, database: str
) -> None:
    java.one("create_table", columns=COLUMNS, options=RETRIES)
    name = f"{database}.t"
    failed: list[BaseException] = []

    def write() -> None:
        try:
            append_one_by_one(ours, name, range(COMMITS))
        except BaseException as e:  # noqa: BLE001 - raised by the test
            failed.append(e)

    writer = threading.Thread(target=write)
    writer.start()
    java([{"op": "write", "rows": [[1000 + i, "java"]]} for i in range(COMMITS)])
    writer.join(120)
    assert not failed, failed
    rows = sorted(row[1] for row in java.rows())
    assert rows == [*range(COMMITS), *range(1000, 1000 + COMMITS)]
    assert ours.get_table(name).snapshots.ids() == list(range(1, 2 * COMMITS + 1))


# --- jobs and partitions ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_jobs_keep_the_metastores_partitions_true(
    version: str,
    hive_oracles: _Oracles,
    options: dict[str, str],
    ours: HiveCatalog,
    database: str,
    tmp_path: Path,
) -> None:
    java = hive_oracles.of(version).defaults(catalog=options, database=database, table="t")
    java.one("create_database")
    java.one(
        "create_table",
        columns=DATED,
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options={**RETRIES, **PARTITIONED, "bucket": "1", "write-only": "true"},
    )
    days = ["2020-01-01", "2020-01-02", "2030-01-01"]
    for i in range(3):
        java.one("write", rows=[[i, "java", day] for day in days])
    name = f"{database}.t"
    client = HiveClient(options)
    client.call("drop_partition", database, "t", (days[2],), False)
    rows = java.rows()
    sql = Sql(tmp_path)
    for key, value in options.items():
        sql(f"SET spark.sql.catalog.h.{key}={value}")
    sql(f"ALTER TABLE h.{name} ADD PARTITION (dt = '2031-01-01')")
    assert _specs(java) == [[days[0]], [days[1]], ["2031-01-01"]]
    client.call("drop_partition", database, "t", ("2031-01-01",), False)
    compacted = _run("compact", name, strategy="full")
    assert compacted.error is None, compacted.error
    assert java.rows() == rows
    # The compaction has files in the partition that was lost, as Java's callback would see it.
    assert _specs(java) == [[day] for day in days]
    assert java.one("list_partitions")["hive"][0]["sd"]["location"].endswith(f"dt={days[0]}")

    assert _run("create_tag", name, tag="kept").error is None
    assert _run("expire_snapshots", name, retain_max=1, retain_min=1).error is None
    assert _run("drop_partition", name, partitions=[f"dt={days[1]}"]).error is None
    assert _specs(java) == [[days[0]], [days[2]]]
    expired = _run("expire_partitions", name, expiration_time="365 d")
    assert expired.error is None, expired.error
    assert _specs(java) == [[days[2]]]
    assert {row[3] for row in java.rows()} == {days[2]}
    java.one("write", rows=[[9, "java", days[0]]])
    assert _specs(java) == [[days[0]], [days[2]]]
    assert len(java.rows()) == 4


@pytest.mark.parametrize(("case", "version"), [("rescale", "1.4.2"), ("drop_partition", "2.0.0")])
def test_a_job_and_java_work_on_one_table(
    case: str, version: str, hive_oracles: _Oracles, options: dict[str, str]
) -> None:
    java = hive_oracles.of(version)
    outcome = run_case(case, "hive", java, options)
    assert outcome.problems == []
    if case == "rescale":
        assert java.one("get_table")["hive"]["parameters"]["bucket"] == "2"


def test_a_partition_of_another_branch_stays_in_the_metastore(
    java: Oracle, ours: HiveCatalog, database: str
) -> None:
    java.one(
        "create_table",
        columns=DATED,
        partition_keys=["dt"],
        options={**RETRIES, **PARTITIONED, "bucket": "-1"},
    )
    java.one("write", rows=[[1, "a", "x"], [2, "b", "y"]])
    java.one("create_tag", name="one", snapshot=1)
    java.one("create_branch", name="side", tag="one")
    ours.alter_table(
        f"{database}.t", [SetOption("partition.mark-done-action", "done-partition")], now_millis=1
    )
    assert _run("mark_partition_done", f"{database}.t", partitions=["dt=x"]).error is None
    assert _specs(java) == [["x"], ["x.done"], ["y"]]
    assert _run("drop_partition", f"{database}.t", partitions=["dt=x"]).error is None
    assert _specs(java) == [["x"], ["x.done"], ["y"]]
    assert java.rows() == [["+I", 2, "b", "y"]]
    assert _run("delete_branch", f"{database}.t", branch_name=["side"]).error is None
    assert _specs(java) == [["y"]]


def test_partitions_follow_a_rollback(java: Oracle, database: str) -> None:
    java.one(
        "create_table",
        columns=DATED,
        partition_keys=["dt"],
        options={**RETRIES, **PARTITIONED, "bucket": "-1"},
    )
    java.one("write", rows=[[1, "a", "x"]])
    java.one("write", rows=[[2, "b", "y"]])
    assert _run("drop_partition", f"{database}.t", partitions=["dt=x"]).error is None
    java.one("write", rows=[[3, "c", "z"]])
    assert _specs(java) == [["y"], ["z"]]
    back = _run("rollback", f"{database}.t", snapshot=2)
    assert back.error is None, back.error
    assert _specs(java) == [["x"], ["y"]]
    assert len(java.rows()) == 2


def test_partitions_are_marked_as_done(
    java: Oracle, ours: HiveCatalog, database: str, hive_oracles: _Oracles
) -> None:
    name = f"{database}.t"
    java.one(
        "create_table",
        columns=[*DATED, {"name": "h", "type": "INT"}],
        partition_keys=["dt", "h"],
        options={**RETRIES, **PARTITIONED, "partition.mark-done-action": "mark-event,success-file"},
    )
    java.one("write", rows=[[1, "a", "x y", 1], [2, "b", "x y", 2]])
    assert _run("mark_partition_done", name, partitions=["dt=x y,h=1"]).error is None
    done = {p.statistics.spec["h"]: p.done for p in ours.list_partitions(name)}
    assert done == {"1": True, "2": False}
    newer = hive_oracles.of("2.0.0").defaults(catalog=ours.options, database=database, table="t")
    told = newer.one("list_partitions")["partitions"]
    assert {p["spec"]["h"]: p["done"] for p in told} == {"1": True, "2": False}
    assert (Path(ours.get_table(name).root) / "dt=x y/h=1/_SUCCESS").exists()
    partial = _run("mark_partition_done", name, partitions=["dt=x y"])
    assert "all partition keys" in str(partial.error)


def test_tags_are_partitions(java: Oracle, ours: HiveCatalog, database: str) -> None:
    name = f"{database}.t"
    java.one(
        "create_table",
        columns=COLUMNS,
        options={**RETRIES, "metastore.tag-to-partition": "day", "bucket": "-1"},
    )
    java.one("write", rows=[[1, "a"]])
    java.one("create_tag", name="java", snapshot=1)
    assert _run("create_tag", name, tag="ours").error is None
    assert _specs(java) == [["java"], ["ours"]]
    assert [p.statistics.spec for p in ours.list_partitions(name)] == [
        {"day": "java"},
        {"day": "ours"},
    ]
    # A run that was interrupted before the partition is completed by the next one.
    HiveClient(ours.options).call("drop_partition", database, "t", ("ours",), False)
    assert _run("create_tag", name, tag="ours").error is None
    assert "already exists" in str(_run("create_tag", name, tag="ours").error)
    assert _run("rename_tag", name, tag="ours", target_tag="next").error is None
    assert _specs(java) == [["java"], ["next"]]
    assert _run("delete_tag", name, tag=["java"]).error is None
    java.one("delete_tag", name="next")
    assert _specs(java) == []
    keys: Mapping[str, Any] = java.one("get_table")["hive"]
    assert [k["name"] for k in keys["partitionKeys"]] == ["day"]


def test_iceberg_metadata_by_turns(java: Oracle, ours: HiveCatalog, database: str) -> None:
    """Ours comes first: the paths have to be spelled as Java's, which compares them as texts."""
    name = f"{database}.t"
    options = {"bucket": "-1", "metadata.iceberg.storage": "table-location"}
    ours.create_table(name, schema(**options))
    append_one_by_one(ours, name, [1, 2])
    java.one("write", rows=[[3, "java"]])
    append_one_by_one(ours, name, [4])
    java.one("overwrite", partition={}, rows=[[5, "java"]])
    assert iceberg_rows(_iceberg_folder(ours, name)) == [(5, "java")]
    append_one_by_one(ours, name, [6])
    assert iceberg_rows(_iceberg_folder(ours, name)) == [(5, "java"), (6, "ours")]


def _iceberg_folder(catalog: HiveCatalog, name: str) -> Path:
    return Path(catalog.get_table(name).root) / "metadata"


def test_a_handle_reaches_executors(java: Oracle, ours: HiveCatalog, database: str) -> None:
    java.one(
        "create_table", columns=DATED, partition_keys=["dt"], options={**RETRIES, **PARTITIONED}
    )
    java.one("write", rows=[[1, "a", "x"]])
    there = pickle.loads(pickle.dumps(ours.get_table(f"{database}.t")))
    assert there.snapshots.latest_id() == 1
    assert there.partition_registry.specs() == [{"dt": "x"}]
