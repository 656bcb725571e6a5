"""A merge engine needs one file and one row: one that is made up here works everywhere."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import SchemaError, UnsupportedFeature
from paimon_core.features import unreadable_features, unwritable_features
from paimon_core.lsm.engines.traits import MERGE_ENGINES
from paimon_core.predicate.where import parse_where
from paimon_core.read.table_read import read_table
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.sink.write_session import write_rows
from tests.lakes import ENV, Lake
from tests.made_up_engine import LARGEST

OPTIONS = {"bucket": "1", "merge-engine": "largest", "num-sorted-run.compaction-trigger": "2"}


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MERGE_ENGINES, LARGEST.name, LARGEST)


def write(lake: Lake, values: dict[int, str]) -> None:
    rows = pa.table({"k": pa.array(values, pa.int32()), "v": list(values.values())})
    write_rows(lake.table(), rows, env=ENV)


def read(lake: Lake, columns: list[str], where: str | None = None) -> list[tuple]:
    table = lake.table()
    snapshot = table.latest_or_not_found()
    predicate = None if where is None else parse_where(where, table.schema.row_type)
    batches = read_table(table, snapshot, columns=columns, predicate=predicate)
    return sorted(tuple(r[c] for c in columns) for b in batches for r in b.to_pylist())


def test_without_its_row_the_engine_is_refused_by_name(lake):
    with pytest.raises(SchemaError, match="'largest', but must be one of deduplicate"):
        lake.create(options=OPTIONS)
    lake.create(options={"bucket": "1"})
    lake.change_options("db.t", "merge-engine", "largest")
    assert list(unreadable_features(lake.table())) == ["merge-engine=largest"]
    with pytest.raises(UnsupportedFeature, match="merge-engine=largest"):
        write(lake, {1: "a"})


@pytest.mark.usefixtures("row")
def test_with_its_row_the_engine_merges_reads(lake):
    lake.create(options={**OPTIONS, "write-only": "true"})
    assert list(unwritable_features(lake.table())) == []
    write(lake, {1: "b", 2: "a"})
    write(lake, {1: "c", 2: "c", 3: "a"})
    write(lake, {1: "a", 2: "b"})
    assert read(lake, ["k", "v"]) == [(1, "c"), (2, "c"), (3, "a")]
    assert read(lake, ["k"]) == [(1,), (2,), (3,)]  # needs v although nobody selects it
    assert read(lake, ["k", "v"], "v = 'b'") == []
    assert read(lake, ["k", "v"], "v = 'c'") == [(1, "c"), (2, "c")]


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_with_its_row_the_engine_merges_compactions_and_changelogs(lake, producer):
    lake.create(options={**OPTIONS, "changelog-producer": producer})
    write(lake, {1: "b", 2: "a"})
    write(lake, {1: "c", 2: "c"})
    write(lake, {1: "a", 2: "d"})
    assert read(lake, ["k", "v"]) == [(1, "c"), (2, "d")]
    compacted = [s for s in lake.table().snapshots.all() if s.commit_kind is CommitKind.COMPACT]
    assert compacted
    assert (compacted[-1].changelog_manifest_list is not None) == (producer == "lookup")


@pytest.mark.usefixtures("row")
def test_the_row_says_what_a_schema_must_have(lake):
    with pytest.raises(
        SchemaError, match="largest cannot be combined with changelog-producer=input"
    ):
        lake.create(options={**OPTIONS, "changelog-producer": "input"})
    with pytest.raises(SchemaError, match="needs a column 'v'"):
        create_schema(
            [Column("k", "INT NOT NULL")], now_millis=0, primary_keys=["k"], options=OPTIONS
        )
