"""Random histories of a table under a stream that restarts: each change arrives exactly once.

The stream is driven as Spark drives it: the end of a micro-batch is noted before it is planned, a
restart plans the noted micro-batch again, and the batch before is called processed when the next one
begins.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_core import Schema, open_catalog
from paimon_core.errors import CorruptTable, NotFound
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.reads.batch_reader import row_type_of
from paimon_spark.source.spark_types import spark_schema
from paimon_spark.source.streams.stream_reader import PaimonStreamReader

pytestmark = pytest.mark.spark

KINDS = ("+I", "-U", "+U", "-D")
REVERSED = {"+I": "-D", "+U": "-U"}
"""How an overwrite takes back what a row was written as."""
STEPS = (
    *["write"] * 5,
    *["batch"] * 4,
    "compact",
    "overwrite",
    "empty",
    "column",
    "widen",
    "expire",
    "restart",
    "lose consumer",
)
Changes = Counter[tuple[str, int, str]]


@dataclass
class History:
    """A table that is changed at random, and the changes that a stream has to show."""

    folder: Path
    chance: random.Random
    keyed: bool
    overwrites: bool
    identifier: int = 0
    columns: int = 0
    width: str = "INT"
    rows: dict[int, tuple[str, str]] = field(default_factory=dict)
    expected: Changes = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.catalog = open_catalog(str(self.folder))
        self.catalog.create_database("db")
        options = {"bucket": "-1", "write-only": "true", "snapshot.num-retained.min": "1"}
        if self.keyed:
            options |= {"bucket": "2", "changelog-producer": "input"}
            options |= {"streaming-read-overwrite": str(self.overwrites).lower()}
        else:
            options |= {"streaming-read-append-overwrite": str(self.overwrites).lower()}
        columns = {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}
        keys = ["k"] if self.keyed else []
        self.catalog.create_table("db.t", Schema.of(columns, primary_keys=keys, options=options))

    @property
    def table(self) -> Any:
        return self.catalog.get_table("db.t")

    def _data(self, keys: list[int]) -> pa.Table:
        number = self.identifier
        width = pa.int32() if self.width == "INT" else pa.int64()
        return pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "v": [f"{number}.{k}" for k in keys],
                "n": pa.array([number] * len(keys), width),
                **{f"c{i}": pa.array([i] * len(keys), pa.int32()) for i in range(self.columns)},
            }
        )

    def write(self) -> None:
        keys = self.chance.sample(range(12), self.chance.randint(1, 5))
        data, kinds = self._data(keys), [0] * len(keys)
        if self.keyed:
            kinds = [self.chance.choice([0, 0, 2, 3]) for _ in keys]
        self.identifier += 1
        builder = self.table.new_stream_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            if self.keyed:
                data = data.append_column("_row_kind", [[KINDS[k] for k in kinds]])
            write.write_arrow(data)
            messages = write.prepare_commit()
            commit.commit(messages, self.identifier, watermark=self.identifier)
        for key, value, kind in zip(keys, data["v"].to_pylist(), kinds, strict=True):
            self.expected[KINDS[kind], key, value] += 1
            if kind == 3:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (KINDS[kind], value)

    def empty(self) -> None:
        self.identifier += 1
        with self.table.new_stream_write_builder().new_commit() as commit:
            commit.commit([], self.identifier, watermark=self.identifier)

    def overwrite(self) -> None:
        keys = self.chance.sample(range(12), 2)
        self.identifier += 1
        data = self._data(keys)
        self.table.overwrite(data)
        if self.overwrites and self.keyed:
            self.expected.update((REVERSED[r], k, v) for k, (r, v) in self.rows.items())
        values = data["v"].to_pylist()
        self.rows = {k: ("+I", v) for k, v in zip(keys, values, strict=True)}
        if self.overwrites:
            self.expected.update(("+I", k, v) for k, v in zip(keys, values, strict=True))

    def compact(self) -> None:
        self.table.compact(full=True)

    def column(self) -> None:
        self.table.alter({"change": "add_column", "name": f"c{self.columns}", "type": "INT"})
        self.columns += 1

    def widen(self) -> None:
        if self.width == "INT":
            self.table.alter({"change": "update_type", "name": "n", "type": "BIGINT"})
            self.width = "BIGINT"

    def expire(self) -> None:
        retained = {"snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
        self.table.copy(retained).maintain()


@dataclass
class Query:
    """A streaming query as Spark runs it, with its checkpoint."""

    folder: Path
    options: dict[str, str]
    shown: Changes = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.reader = self._reader()
        self.begin = self.end = self.reader.initialOffset()

    def _reader(self) -> PaimonStreamReader:
        options = SourceOptions.of({"path": f"{self.folder}/db.db/t", **self.options})
        return PaimonStreamReader(options, spark_schema(row_type_of(options)))

    def restart(self) -> None:
        before = self._rows()
        self.reader = self._reader()
        assert self._rows() == before

    def batch(self) -> bool:
        """Run a micro-batch; whether there was anything."""
        self.reader.commit(self.end)
        limit = self.reader.getDefaultReadLimit()
        self.begin, self.end = self.end, self.reader.latestOffset(self.end, limit)
        if self.begin == self.end:
            return False
        units = [u for p in self.reader.partitions(self.begin, self.end) for u in p.units]
        if len(units) > 1:
            for key, cost in (("Files", "files"), ("Rows", "rows"), ("Bytes", "bytes")):
                most = self.options.get(f"read.stream.max{key}PerTrigger")
                assert most is None or sum(getattr(u, cost) for u in units) <= int(most)
        self.shown.update(self._rows())
        return True

    def _rows(self) -> Changes:
        parts = self.reader.partitions(self.begin, self.end)
        batches = [b for p in parts for b in self.reader.read(p)]
        rows = [row for b in batches for row in b.to_pylist()]
        # The number of a write is in a column whose type grows, too.
        assert all(int(r["v"].partition(".")[0]) == r["n"] for r in rows)
        return Counter((r["rowkind"], r["k"], r["v"]) for r in rows)


@pytest.mark.parametrize("seed", range(8))
def test_each_change_arrives_once(seed: int, tmp_path: Path) -> None:
    follow(seed, tmp_path)


def follow(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    history = History(folder, chance, keyed=seed % 2 == 0, overwrites=seed % 4 > 1)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "read.changelog": "true"}
    for key, most in (("Files", 2), ("Rows", 6), ("Bytes", 3000)):
        if chance.random() < 0.4:
            options[f"read.stream.max{key}PerTrigger"] = str(most)
    with_consumer = chance.random() < 0.7
    if with_consumer:
        options["consumer-id"] = "c"
    history.write()
    query = Query(folder, options)
    query.batch()
    query.batch()
    # Whether snapshots expired while no consumer kept them.
    unprotected = False
    for _ in range(24):
        step = chance.choice(STEPS)
        try:
            match step:
                case "batch":
                    query.batch()
                case "restart":
                    query.restart()
                case "lose consumer":
                    if with_consumer and chance.random() < 0.3:
                        history.table.core.consumers.delete("c")
                case "expire":
                    unprotected = unprotected or not history.table.consumers()
                    history.expire()
                case _:
                    getattr(history, step)()
        except (NotFound, CorruptTable):
            if not unprotected:
                raise
            return
    try:
        while query.batch():
            query.restart()
    except (NotFound, CorruptTable):
        if not unprotected:
            raise
        return
    assert query.shown == history.expected


@pytest.mark.parametrize("bound", [0, 3, 4, 9])
def test_nothing_beyond_a_watermark_arrives(bound: int, tmp_path: Path) -> None:
    history = History(tmp_path, random.Random(bound), keyed=True, overwrites=False)
    expected: Changes = Counter()
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "read.changelog": "true"}
    options |= {"scan.bounded.watermark": str(bound), "read.stream.maxFilesPerTrigger": "1"}
    for number in range(1, 7):
        history.empty() if number == 4 else history.write()
        if history.identifier <= bound:
            expected = history.expected.copy()
    query = Query(tmp_path, options)
    while query.batch():
        query.restart()
    if bound < 9:
        history.write()
    assert not query.batch()
    assert query.shown == (history.expected if bound == 9 else expected)
