"""Creates small tables with one problem each, for the page and the scheduler of the demo.

Commits are backdated, because retention, tags and consumers depend on age.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.commit.overwrite import overwrite
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import Environment, system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.demo.lake import DATABASE
from paimon_maintenance.demo.run_here import run_here

HEALTHY: Final = "healthy"
_HOUR: Final = 3_600_000
_COLUMNS: Final = (
    Column("id", "BIGINT NOT NULL"),
    Column("name", "STRING"),
    Column("status", "STRING"),
    Column("amount", "DOUBLE"),
    Column("note", "STRING"),
)
_DOCUMENT: Final = Column("document", "BYTES")
_DOCUMENT_BYTES: Final = 1024**2
_DAY: Final = Column("dt", "STRING NOT NULL")
_DELETE: Final = 3
_ROWS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemTable:
    """The recipe of one table: its options, and its commits at backdated times.

    - `problem`: the problem in words; HEALTHY without one.
    - `criterion`: the criterion of the health score that finds it.
    - `commits`, `rows`: the number of commits, and of rows in each.
    - `hours`: how long ago the first commit was made; the others follow at equal intervals.
    - `last_is_new`: the last commit is made now.
    - `compacted`: the strategy of the compaction after a commit, by the number of the commit.
    - `later_share`: the rows of every commit except the first, as a share of `rows`.
    - `is_hot`: these commits write the largest keys.
    - `spread`: the number of possible keys for each row.
    - `deleted`: the share of rows that are deletes.
    - `days`: the partition values, all of them in each commit; without them there are no
      partitions.
    - `documents`: the megabytes of each commit except the last; each replaces the one before.
    - `writers`: the number of writers of each commit, which write files of their own.
    - `after`: a function that completes the problem once all commits are made.
    """

    name: str
    owner: str
    problem: str = HEALTHY
    criterion: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    primary_key: bool = True
    commits: int = 1
    rows: int = _ROWS
    hours: float = 1.0
    compacted: Mapping[int, str] = field(default_factory=dict)
    later_share: float = 1.0
    is_hot: bool = False
    spread: int = 3
    deleted: float = 0.0
    days: tuple[str, ...] = ()
    documents: int = 0
    writers: int = 1
    last_is_new: bool = False
    after: Callable[[FileStoreTable], None] | None = None

    @property
    def table(self) -> str:
        """The name with the database."""
        return f"{DATABASE}.{self.name}"

    @property
    def columns(self) -> list[Column]:
        """The columns of the table."""
        others = ((self.documents, _DOCUMENT), (self.days, _DAY))
        return [*_COLUMNS, *(column for wanted, column in others if wanted)]

    def millis_of(self, number: int, now: int) -> int:
        """When the commit of this number is made, in milliseconds since the epoch."""
        if self.last_is_new and number == self.commits - 1:
            return now
        long_ago = int(self.hours * _HOUR)
        return now - long_ago + number * (long_ago // self.commits)


def make_problem_tables(
    warehouse: str, tables: Iterable[ProblemTable], tell: Callable[[str], None] = lambda _: None
) -> None:
    """Create the tables in the database of the demo; `tell` gets a line before each of them."""
    catalog = FileSystemCatalog(warehouse, {})
    catalog.create_database(DATABASE, if_not_exists=True)
    for one in tables:
        tell(f"{one.table}: {one.problem}")
        _make(catalog, warehouse, one)


def _make(catalog: FileSystemCatalog, warehouse: str, one: ProblemTable) -> None:
    now = int(time.time() * 1000)
    keys = ("id", "dt") if one.days else ("id",)
    schema = create_schema(
        one.columns,
        now_millis=one.millis_of(0, now),
        partition_keys=("dt",) if one.days else (),
        primary_keys=keys if one.primary_key else (),
        options={"write-only": "true", "caretaker.owner": one.owner, **one.options},
    )
    catalog.create_table(one.table, schema)
    table = open_table(warehouse, one.table)
    random = np.random.default_rng(len(one.name))
    for number in range(one.commits):
        then = one.millis_of(number, now)
        env = system_environment(clock=lambda then=then: then)  # type: ignore[misc]
        _commit(table, one, number, random, env)
        if number in one.compacted:
            # Now, but into files that say to be as old: jobs compare the clock
            # with that of the store.
            made = replace(system_environment(), local_millis=env.local_millis)
            how = {"strategy": one.compacted[number]}
            run_here("compact", warehouse, one.table, how, env=made)
    if one.after is not None:
        one.after(table)


def _commit(
    table: FileStoreTable,
    one: ProblemTable,
    number: int,
    random: np.random.Generator,
    env: Environment,
) -> None:
    messages = []
    for _ in range(one.writers):
        into = RowWriter(table, env=env, overwrite=bool(one.documents))
        rows, kinds = _rows(random, one, number)
        into.write(rows, kinds if one.primary_key else None)
        messages += into.prepare_commit()
    if one.documents:
        overwrite(table, messages, user="ingest", env=env, identifier=number)
    else:
        commit(table, messages, user="ingest", identifier=number, env=env)


def _rows(
    random: np.random.Generator, one: ProblemTable, number: int
) -> tuple[pa.Table, np.ndarray]:
    n, first, keys = one.rows, 0, one.rows * one.spread
    if number:
        n = int(n * one.later_share)
    if number and one.is_hot:
        first, keys = keys - n * one.spread, n * one.spread
    if one.documents:
        n = one.documents if number < one.commits - 1 else 1
    ids = first + np.sort(random.choice(keys, n, replace=False)).astype(np.int64)
    words = np.array(["new", "open", "paid", "closed"])
    columns = {
        "id": pa.array(ids),
        "name": pa.array([f"{one.name} {i}" for i in ids]),
        "status": pa.array(words[random.integers(0, 4, n)].tolist()),
        "amount": pa.array(np.round(random.gamma(2.0, 40.0, n), 2)),
        "note": pa.array([f"{v:032x}" for v in random.integers(0, 2**62, n)]),
    }
    if one.documents:
        columns["document"] = pa.array([random.bytes(_DOCUMENT_BYTES) for _ in ids], pa.binary())
    if one.days:
        columns["dt"] = pa.array(one.days).take(pa.array(ids % len(one.days)))
    kinds = np.where(random.random(n) < one.deleted, _DELETE, 0).astype(np.int8)
    return pa.table(columns), kinds
