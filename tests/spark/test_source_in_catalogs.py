"""Streams of tables in catalogs, beside a rename, a drop, and a new table of the same name.

A stream follows the folder of a table: the catalog tells where that is when the stream starts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_kinds import catalog_of_kind
from catalog_rows import append, schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from oracle import skip_without
from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.open import open_catalog
from paimon_core.errors import NotFound, PaimonError
from paimon_core.read.table_read import read_table
from paimon_spark.source import read, write
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.reads.batch_reader import row_type_of
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.streams.stream_reader import PaimonStreamReader
from paimon_spark.source.streams.stream_writer import PaimonStreamWriter

pytestmark = pytest.mark.spark


@pytest.fixture(params=["jdbc-sqlite", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """With the database streams and its table t."""
    if request.param == "hive":
        yield from _opened(request.getfixturevalue("hive_metastore").options)
        return
    with catalog_of_kind(request.param, tmp_path) as options:
        yield from _opened(options)


def _opened(options: dict[str, str]) -> Iterator[Catalog]:
    catalog = open_catalog(options)
    catalog.create_database("streams")
    catalog.create_table("streams.t", schema(bucket="-1"))
    yield catalog
    catalog.drop_database("streams", cascade=True)


def options_of(catalog: Catalog, name: str) -> SourceOptions:
    path = catalog.get_table(f"streams.{name}").root
    return SourceOptions.of({"path": path, "checkpointLocation": "/here"})


def writer(catalog: Catalog, name: str) -> PaimonStreamWriter:
    options = options_of(catalog, name)
    return PaimonStreamWriter(options, spark_schema(row_type_of(options)), overwrite=False)


def reader(catalog: Catalog, name: str) -> PaimonStreamReader:
    options = options_of(catalog, name)
    return PaimonStreamReader(options, spark_schema(row_type_of(options)))


def written(to: PaimonStreamWriter, key: int) -> Any:
    columns = [pa.array([key], pa.int64()), pa.array(["v"])]
    batch = pa.RecordBatch.from_arrays(columns, names=["id", "v"])
    return replace(to.write(iter([batch])), query="q")


def micro_batch(catalog: Catalog, name: str, number: int, key: int) -> None:
    to = writer(catalog, name)
    message = written(to, key)
    pickle.loads(pickle.dumps(to)).commit([message], number)


def ids(catalog: Catalog, name: str) -> list[int]:
    table = catalog.get_table(f"streams.{name}")
    latest = table.snapshots.latest()
    batches = [] if latest is None else read_table(table, latest)
    return sorted(key for batch in batches for key in batch["id"].to_pylist())


def folders(catalog: Catalog) -> set[str]:
    root = Path(catalog.get_table("streams.u").root.removeprefix("file:")).parent
    return {p.name for p in root.iterdir() if any(f.is_file() for f in p.rglob("*"))}


def test_a_sink_that_is_renamed_has_each_micro_batch_once(catalog: Catalog) -> None:
    micro_batch(catalog, "t", 0, 1)
    micro_batch(catalog, "t", 1, 2)
    catalog.rename_table("streams.t", "streams.u")
    with pytest.raises(PaimonError):
        micro_batch(catalog, "t", 1, 2)
    micro_batch(catalog, "u", 1, 2)
    micro_batch(catalog, "u", 2, 3)
    assert ids(catalog, "u") == [1, 2, 3]
    assert folders(catalog) == {"u"}


@pytest.mark.parametrize("again", [False, True])
def test_a_sink_that_is_renamed_during_a_micro_batch(catalog: Catalog, *, again: bool) -> None:
    micro_batch(catalog, "t", 0, 1)
    to = writer(catalog, "t")
    message = written(to, 2)
    catalog.rename_table("streams.t", "streams.u")
    if again:
        catalog.create_table("streams.t", replace(schema(bucket="-1"), time_millis=2))
        append(catalog.get_table("streams.t"), [7])
    with pytest.raises(NotFound):
        to.commit([message], 1)
    to.abort([message], 1)
    assert ids(catalog, "u") == [1]
    if again:
        assert ids(catalog, "t") == [7]
    else:
        assert folders(catalog) == {"u"}
    micro_batch(catalog, "u", 1, 2)
    assert ids(catalog, "u") == [1, 2]


@pytest.mark.parametrize("commits", [0, 1, 5])
def test_a_source_that_is_created_again_is_noticed(catalog: Catalog, commits: int) -> None:
    for i in range(3):
        append(catalog.get_table("streams.t"), [i])
    stream = reader(catalog, "t")
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    catalog.drop_table("streams.t")
    with pytest.raises(PaimonError):
        reader(catalog, "t")
    with pytest.raises(PaimonError):
        stream.latestOffset(at, ReadAllAvailable())
    catalog.create_table("streams.t", schema(bucket="-1"))
    for i in range(commits):
        append(catalog.get_table("streams.t"), [10 + i])
    for follower in (stream, reader(catalog, "t")):
        with pytest.raises(NotFound):
            follower.latestOffset(at, ReadAllAvailable())


def test_a_source_that_is_renamed_goes_on_under_its_new_name(catalog: Catalog) -> None:
    for i in range(3):
        append(catalog.get_table("streams.t"), [i])
    stream = reader(catalog, "t")
    at = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    catalog.rename_table("streams.t", "streams.u")
    append(catalog.get_table("streams.u"), [3])
    with pytest.raises(PaimonError):
        stream.latestOffset(at, ReadAllAvailable())
    follower = reader(catalog, "u")
    end = follower.latestOffset(at, ReadAllAvailable())
    parts = follower.partitions(at, end)
    found = [key for p in parts for b in follower.read(p) for key in b.column("id").to_pylist()]
    assert found == [3]


@pytest.mark.parametrize("kind", [pytest.param("rest", marks=pytest.mark.long), "jdbc-sqlite"])
def test_dataframes_go_through_the_catalog(kind: str, tmp_path: Path, session: Any) -> None:
    if kind == "rest":
        skip_without()
    with catalog_of_kind(kind, tmp_path) as options:
        catalog = open_catalog(options)
        catalog.create_database("streams")
        catalog.create_table("streams.t", schema(bucket="-1"))
        of_catalog = {f"catalog.{k}": v for k, v in options.items()}
        named = {**of_catalog, "table": "streams.t"}
        rows = session.range(3).selectExpr("id", "concat('v', id) AS v")
        write(rows, **named)
        rows.write.format("paimon").mode("append").options(**named).save()
        stream = session.readStream.format("paimon").options(**named).load()
        catalog.create_table("streams.copy", schema(bucket="-1"))
        query = (
            stream.writeStream.format("paimon")
            .options(**of_catalog, table="streams.copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = read(session, **of_catalog, table="streams.copy").orderBy("id").collect()
        assert [tuple(row) for row in found] == [(i // 2, f"v{i // 2}") for i in range(6)]
        # The catalog knows the newest snapshots, not only the folder.
        assert catalog.get_table("streams.t").latest_or_not_found().id == 2
        assert (
            session.read.format("paimon")
            .options(**of_catalog, table="streams.t$files")
            .load()
            .count()
        )
        with pytest.raises(Exception, match="named by the option table alone"):
            session.read.format("paimon").options(**of_catalog, path="/x").load()
