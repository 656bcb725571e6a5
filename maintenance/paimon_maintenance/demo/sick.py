"""Small tables with one problem each, for the page and the scheduler of the demo.

Commits are backdated: retention, tags and consumers go by age.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.refs.tags import Tag
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.demo.lake import DATABASE
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, run_table

_DAY: Final = 86_400_000
_HOUR: Final = 3_600_000
_COLUMNS: Final = (
    Column("id", "BIGINT NOT NULL"),
    Column("name", "STRING"),
    Column("status", "STRING"),
    Column("amount", "DOUBLE"),
    Column("note", "STRING"),
)
_DELETE: Final = 3
_ROWS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SickTable:
    """One table: its options, and its commits in backdated steps.

    `hours`: how long ago the first commit was; the others follow in even steps.  `compacted`: a
    compaction followed on all commits but the last, which is new.  `deleted`: the share of
    rows that are deletes.  `days`: partition values, in turn; without them the table has no partitions.
    `after` makes the rest of the problem.
    """

    name: str
    problem: str
    options: Mapping[str, str] = field(default_factory=dict)
    primary_key: bool = True
    commits: int = 1
    rows: int = _ROWS
    hours: float = 1.0
    deleted: float = 0.0
    days: tuple[str, ...] = ()
    compacted: bool = False
    after: Callable[[FileStoreTable], None] | None = None

    @property
    def table(self) -> str:
        """The name with the database."""
        return f"{DATABASE}.{self.name}"


def _old_consumer(table: FileStoreTable) -> None:
    """A streaming reader that stopped ten days ago."""
    table.consumers.set("fraud-check", 3)
    then = time.time() - 10 * 86_400
    os.utime(Path(table.root) / "consumer" / "consumer-fraud-check", (then, then))


def _tags(table: FileStoreTable) -> None:
    for number, name in ((2, "before-campaign"), (9, "end-of-quarter")):
        table.tags.create(Tag(name=name, snapshot=table.snapshots.get(number)))


def _day(ago: int) -> str:
    return datetime.fromtimestamp(time.time() - ago * 86_400, UTC).strftime("%Y-%m-%d")


def sick_tables() -> tuple[SickTable, ...]:
    """All of them, and two healthy ones."""
    return (
        SickTable(
            name="payment",
            problem="many sorted runs: every read merges 24 files",
            options={"bucket": "2", "caretaker.owner": "payments"},
            commits=24,
            hours=30,
            after=_tags,
        ),
        SickTable(
            name="cart",
            problem="more than half of the rows are deletes",
            options={"bucket": "1", "caretaker.owner": "web"},
            commits=7,
            deleted=0.6,
            hours=9,
        ),
        SickTable(
            name="click",
            problem="hundreds of small files",
            primary_key=False,
            options={"bucket": "-1", "caretaker.owner": "web"},
            commits=180,
            rows=60,
            hours=20,
        ),
        SickTable(
            name="transfer",
            problem="a consumer that stopped ten days ago holds back the expiry",
            options={
                "bucket": "1",
                "snapshot.num-retained.min": "2",
                "snapshot.num-retained.max": "6",
                "consumer.expiration-time": "7 d",
                "caretaker.owner": "payments",
            },
            commits=44,
            rows=500,
            hours=24 * 12,
            after=_old_consumer,
        ),
        SickTable(
            name="balance",
            problem="daily tags are due, and no job creates them",
            options={
                "bucket": "1",
                "tag.automatic-creation": "process-time",
                "tag.creation-period": "daily",
                "tag.num-retained-max": "3",
                "caretaker.owner": "finance",
            },
            commits=6,
            hours=24 * 5,
        ),
        SickTable(
            name="session",
            problem="partitions are due to expire; one never does, because its value is not a date",
            options={
                "bucket": "1",
                "partition.expiration-time": "7 d",
                "partition.timestamp-formatter": "yyyy-MM-dd",
                "caretaker.owner": "web",
            },
            commits=22,
            rows=300,
            hours=24 * 20,
            days=(*(_day(ago) for ago in range(20, -1, -1)), "unknown"),
        ),
        SickTable(
            name="stock",
            problem="64 buckets for a megabyte",
            options={"bucket": "64", "caretaker.owner": "logistics"},
            commits=2,
            hours=24 * 4,
            compacted=True,
        ),
        SickTable(
            name="price",
            problem="a misspelt option that Paimon does not know",
            options={
                "bucket": "1",
                "snapshot.num-retaind.max": "10",
                "caretaker.owner": "sales",
            },
            commits=9,
            hours=50,
        ),
        SickTable(
            name="country",
            problem="healthy",
            options={"bucket": "1", "caretaker.owner": "finance"},
            rows=200,
        ),
        SickTable(
            name="shipment",
            problem="healthy",
            options={"bucket": "2", "caretaker.owner": "logistics"},
            commits=2,
        ),
    )


def make_sick_tables(warehouse: str, tell: Callable[[str], None] = lambda _: None) -> list[str]:
    """Create them in the database of the demo; return their names."""
    catalog = FileSystemCatalog(warehouse, {})
    catalog.create_database(DATABASE, if_not_exists=True)
    names = []
    for one in sick_tables():
        tell(f"{one.table}: {one.problem}")
        _make(catalog, warehouse, one)
        names.append(one.table)
    return names


def _make(catalog: FileSystemCatalog, warehouse: str, one: SickTable) -> None:
    first = int(time.time() * 1000 - one.hours * _HOUR)
    columns = (*_COLUMNS, Column("dt", "STRING NOT NULL")) if one.days else _COLUMNS
    keys = ("id", "dt") if one.days else ("id",)
    schema = create_schema(
        list(columns),
        now_millis=first,
        partition_keys=("dt",) if one.days else (),
        primary_keys=keys if one.primary_key else (),
        options={"write-only": "true", **one.options},
    )
    catalog.create_table(one.table, schema)
    table = open_table(warehouse, one.table)
    random = np.random.default_rng(len(one.name))
    step = int(one.hours * _HOUR) // one.commits
    for number in range(one.commits):
        is_last = number == one.commits - 1
        then = first + number * step
        if one.compacted and is_last:
            then = int(time.time() * 1000)
        env = system_environment(clock=lambda then=then: then)  # type: ignore[misc]
        into = RowWriter(table, env=env)
        rows, kinds = _rows(random, one, number)
        into.write(rows, kinds if one.primary_key else None)
        commit(table, into.prepare_commit(), user="ingest", identifier=number, env=env)
        if one.compacted and not is_last:
            _compact(warehouse, one.table, env.local_millis)
    if one.after is not None:
        one.after(table)


def _compact(warehouse: str, table: str, made: Callable[[], int]) -> None:
    """Compact now into files that say to be as old; jobs compare the clock with that of the store."""
    env = replace(system_environment(), local_millis=made)
    request = RunRequest(
        job=job_named("compact"),
        warehouse=warehouse,
        table=table,
        arguments=job_named("compact").read_arguments({"strategy": "full"}),
    )
    report = run_table(request, RunServices(env=env))
    if report.error is not None:
        raise report.error


def _rows(random: np.random.Generator, one: SickTable, number: int) -> tuple[pa.Table, np.ndarray]:
    n = one.rows
    ids = np.sort(random.choice(n * 3, n, replace=False)).astype(np.int64)
    words = np.array(["new", "open", "paid", "closed"])
    columns = {
        "id": pa.array(ids),
        "name": pa.array([f"{one.name} {i}" for i in ids]),
        "status": pa.array(words[random.integers(0, 4, n)].tolist()),
        "amount": pa.array(np.round(random.gamma(2.0, 40.0, n), 2)),
        "note": pa.array([f"{v:032x}" for v in random.integers(0, 2**62, n)]),
    }
    if one.days:
        columns["dt"] = pa.array([one.days[number % len(one.days)]] * n)
    kinds = np.where(random.random(n) < one.deleted, _DELETE, 0).astype(np.int8)
    return pa.table(columns), kinds
