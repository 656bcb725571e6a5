"""Changelogs made by compaction, against a dict a key: random commits, compactions and slices.

The model knows no levels.  The changelog of a compaction is the difference between what the last
one left and what there is now, over the keys written since.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import ENV
from long_run import examples
from small_pages import small_pages

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactResult, CompactUnit, merged
from paimon_core.ddl.create import Column, create_schema
from paimon_core.read import section as section_module
from paimon_core.read.snapshot_changes import changes_of, read_changes
from paimon_core.read.table_read import read_table
from paimon_core.scan.scan import scan_files
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter

Record = tuple[str, int]
State = dict[int, Record]
Merge = Callable[[Record | None, Record], Record | None]
"""The record of a key after one more; None: no such key."""
KINDS = ("+I", "-U", "+U", "-D")
COLUMNS = [Column("k", "INT NOT NULL"), Column("v", "BIGINT")]


def last_value(_: Record | None, new: Record) -> Record | None:
    return None if new[0] == "-D" else new


def added_up(old: Record | None, new: Record) -> Record:
    return ("+I", new[1] + (old[1] if old else 0))


def first_value(old: Record | None, new: Record) -> Record:
    return old or new


ENGINES: dict[str, tuple[dict[str, str], Merge, tuple[str, ...]]] = {
    "deduplicate": ({}, last_value, ("+I", "+U", "-D")),
    "sum": (
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        added_up,
        ("+I", "+U"),
    ),
    "first-row": ({"merge-engine": "first-row"}, first_value, ("+I",)),
}

a_commit = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8
)
steps = st.lists(st.one_of(a_commit, st.sampled_from(["full", "minor"])), min_size=2, max_size=10)


class Bucket:
    """A real table of one bucket, compacted unit by unit."""

    def __init__(self, folder: str, options: dict[str, str]) -> None:
        catalog = FileSystemCatalog(folder)
        catalog.create_database("db")
        rules = {"bucket": "1", "write-only": "true"}
        schema = create_schema(
            COLUMNS,
            now_millis=0,
            primary_keys=["k"],
            options={**rules, "num-levels": "4", **options},
        )
        catalog.create_table("db.t", schema)
        self.table = open_table(folder, "db.t")

    def write(self, rows: Sequence[tuple[int, str, int]]) -> None:
        writer = RowWriter(self.table, env=ENV)
        columns = {
            "k": pa.array([k for k, _, _ in rows], pa.int32()),
            "v": pa.array([v for _, _, v in rows], pa.int64()),
        }
        writer.write(pa.table(columns), np.array([KINDS.index(x) for _, x, _ in rows], np.int8))
        commit(self.table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)

    def compact(
        self, *, full: bool, slice_bytes: int
    ) -> tuple[bool, list[tuple[int, str, int]]] | None:
        """Whether the compaction writes a changelog, and its rows; None if nothing was due."""
        latest = self.table.snapshots.latest()
        files = [e.file for e in scan_files(self.table, latest)] if latest else []
        unit = pick_primary_key(
            files,
            self.table.schema,
            partition=b"\x00" * 12,
            bucket=0,
            total_buckets=1,
            full=full,
            local_millis=0,
        )
        if unit is None:
            return None
        units = slice_unit(self.table, unit, slice_bytes=slice_bytes)
        result = merged([self._rewritten(u) for u in units])
        (snapshot,) = commit(self.table, [result.to_message()], user=ENV.new_uuid(), env=ENV)
        entries = changes_of(self.table, snapshot) or []
        rows = list(rows_of(read_changes(self.table, entries, ["k", "v"])))
        assert snapshot.changelog_record_count == (len(rows) or None)
        return unit.writes_changelog, rows

    def _rewritten(self, unit: CompactUnit) -> CompactResult:
        unit = CompactUnit.from_bytes(unit.to_bytes())
        result = rewrite(self.table, unit, env=ENV)
        return CompactResult.from_bytes(result.to_bytes())

    def rows(self) -> list[tuple[int, str, int]]:
        latest = self.table.snapshots.latest()
        return list(rows_of(read_table(self.table, latest))) if latest else []


def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, int]]:
    for batch in batches:
        kinds, keys, values = (batch.column(i).to_pylist() for i in range(3))
        yield from ((k, KINDS[x], v) for x, k, v in zip(kinds, keys, values, strict=True))


def expected_changes(
    before: State, after: State, touched: set[int], *, equal_reported: bool
) -> Iterator[tuple[int, str, int]]:
    for key in touched:
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield (key, "+I", new[1])
        elif old is not None and new is None:
            yield (key, "-D", old[1])
        elif old is not None and new is not None and (equal_reported or old[1] != new[1]):
            yield (key, "-U", old[1])
            yield (key, "+U", new[1])


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("producer", ["full-compaction", "lookup"])
@settings(max_examples=examples(25))
@given(
    steps,
    st.booleans(),
    st.sampled_from([1 << 40, 2000, 700]),
    st.sampled_from([64, 2]),
    st.sampled_from(["1", "-99"]),
    st.sampled_from([2, 20_000]),
)
def test_the_changelog_of_a_compaction_has_what_changed(
    producer: str,
    engine: str,
    done: list[Any],
    deduplicate: bool,  # noqa: FBT001 - drawn
    slice_bytes: int,
    fan_in: int,
    size_ratio: str,
    page_rows: int,
) -> None:
    options, merge, kinds = ENGINES[engine]
    if engine == "first-row" and producer == "full-compaction":
        return
    # The small ratio takes no run for its size alone, so that each compaction makes a level.
    table_options = {"changelog-producer": producer, "compaction.size-ratio": size_ratio}
    # A lookup takes all of level 0 if sizes decide nothing; full compactions take turns with minor.
    trigger = "100" if producer == "lookup" else "3"
    table_options["num-sorted-run.compaction-trigger"] = trigger
    if deduplicate:
        table_options["changelog-producer.row-deduplicate"] = "true"
    state: State = {}
    reported_state: State = {}
    touched: set[int] = set()
    numbers = itertools.count()
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(section_module, "MAX_FAN_IN", fan_in),
        small_pages(page_rows) if page_rows < 100 else nullcontext(),
    ):
        bucket = Bucket(folder, options | table_options)
        for step in [*done, "full"]:
            if isinstance(step, list):
                rows = [
                    (k, kinds[kind % len(kinds)], v if v < 2 else next(numbers))
                    for k, kind, v in step
                ]
                bucket.write(rows)
                for key, kind, value in rows:
                    touched.add(key)
                    new = merge(state.get(key), (kind, value))
                    if new is None:
                        state.pop(key, None)
                    else:
                        state[key] = new
                continue
            compacted = bucket.compact(full=step == "full", slice_bytes=slice_bytes)
            if compacted is None:
                continue
            has_changelog, changelog = compacted
            assert has_changelog or (producer == "full-compaction" and step == "minor")
            if has_changelog:
                changes = expected_changes(
                    reported_state,
                    state,
                    # First-row reports a key once, and late rows never.
                    touched - reported_state.keys() if engine == "first-row" else touched,
                    equal_reported=not deduplicate,
                )
                assert Counter(changelog) == Counter(changes)
                reported_state, touched = dict(state), set()
            else:
                assert changelog == []
            assert {k: v for k, _, v in bucket.rows()} == {k: v for k, (_, v) in state.items()}
