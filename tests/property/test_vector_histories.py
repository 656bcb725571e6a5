"""Random histories of primary-key tables with deletion vectors, beside a plain model.

What is read of such a table is what was compacted: a compaction takes in all of level 0.  Above it
every key has one row that is not deleted, so the rows there, less the vectors, are the keys.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from replay import run_step
from small_pages import small_pages

from paimon_core.commit.committer import commit
from paimon_core.compaction.pick import pick_primary_key
from paimon_core.compaction.rewrite import rewrite
from paimon_core.compaction.slices import slice_unit
from paimon_core.compaction.unit import CompactUnit, merged
from paimon_core.compaction.vectors import only_of, ranges_by_file, with_index_files
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import EMPTY_ROW
from paimon_core.read.table_read import deletion_vectors
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import check_table

ENV = system_environment()
COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "n", "type": "BIGINT"},
    {"name": "v", "type": "STRING"},
]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "n"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "last_non_null_value",
    },
}
Write = tuple[str, tuple[int, int | None, str | None]]
Model = dict[int, tuple[int | None, str | None]]

KEYS = st.integers(0, 210)
ROW = st.tuples(KEYS, st.none() | st.integers(0, 9), st.none() | st.sampled_from("abc"))
WRITE = st.lists(st.tuples(st.sampled_from(["+I", "+I", "-D"]), ROW), min_size=1, max_size=12)
COMPACT = st.sampled_from(["minor", "minor", "minor", "full", "minor in slices", "full in slices"])
HISTORY = st.lists(st.tuples(st.lists(WRITE, min_size=1, max_size=3), COMPACT), max_size=6)


def compacted(model: Model, written: Sequence[Write], engine: str) -> None:
    """What a compaction makes of the rows written since the last one, in their order.

    A delete that wins is forgotten with its sequence, so an older row may come back after it: a
    compaction with deletion vectors drops deletes wherever it writes to.
    """
    waiting = list(written)
    if engine == "sequence":
        # Null is smallest; of equal sequences the row that was written later wins, and the row that
        # is there came first of all.
        waiting.sort(key=lambda w: sequence(w[1][1]))
    for kind, (key, n, v) in waiting:
        old = model.get(key)
        if engine == "sequence" and old is not None and sequence(old[0]) > sequence(n):
            continue
        if kind == "-D":
            model.pop(key, None)
        elif engine == "partial-update" and old is not None:
            model[key] = (old[0] if n is None else n, old[1] if v is None else v)
        elif engine == "aggregation" and old is not None:
            both = [x for x in (old[0], n) if x is not None]
            model[key] = (sum(both) if both else None, old[1] if v is None else v)
        else:
            model[key] = (n, v)


def sequence(n: int | None) -> int:
    return -1 if n is None else n


def due(table: FileStoreTable, how: str) -> list[CompactUnit]:
    """The work of the one bucket, cut by key range if asked."""
    snapshot = table.latest_or_not_found()
    files = [e.file for e in scan_files(table, snapshot)]
    index_files = vector_files(table, snapshot).get((EMPTY_ROW, 0), ())
    unit = pick_primary_key(
        files,
        table.schema,
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=1,
        full=how.startswith("full"),
        local_millis=0,
        with_deletion_vectors=ranges_by_file(index_files),
    )
    if unit is None:
        return []
    vectors = only_of(index_files, {f.file_name for f in files})
    unit = replace(unit, vector_files=vectors)
    return slice_unit(table, unit, slice_bytes=700) if "slices" in how else [unit]


def compact(table: FileStoreTable, how: str) -> None:
    units = due(table, how)
    if not units:
        return
    snapshot = table.latest_or_not_found()
    results = [
        rewrite(
            table,
            CompactUnit.from_bytes(unit.to_bytes()),
            env=ENV,
        )
        for unit in units
    ]
    result = with_index_files(
        table,
        merged(results),
        vector_files(table, snapshot).get((EMPTY_ROW, 0), ()),
        live=[e.file.file_name for e in scan_files(table, snapshot)],
        new_uuid=ENV.new_uuid,
    )
    commit(table, result.to_messages(), user=ENV.new_uuid(), env=ENV)


def check(table: FileStoreTable, at: dict[str, str], model: Model) -> None:
    read = run_step({**at, "op": "read"})
    assert sorted(row[1:] for row in read["rows"]) == sorted([k, *nv] for k, nv in model.items())
    snapshot = table.latest_or_not_found()
    above = [e.file for e in scan_files(table, snapshot) if e.file.level > 0]
    deleted = sum(map(len, deletion_vectors(table, snapshot).values()))
    assert sum(f.row_count for f in above) - deleted == len(model)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(10))
@given(
    history=HISTORY,
    wide=st.booleans(),
    trigger=st.integers(3, 6),
    page_rows=st.sampled_from([3, 20_000]),
)
def test_histories(
    engine: str,
    history: list[Any],
    wide: bool,  # noqa: FBT001 - a parameter of the test
    trigger: int,
    page_rows: int,
) -> None:
    """With small pages, those of keys without another version are copied."""
    warehouse = Path(tempfile.mkdtemp())
    at = {"warehouse": str(warehouse), "database": "db", "table": "t"}
    model: Model = {}
    waiting: list[Write] = []
    deletes = engine in ("deduplicate", "sequence")

    def write(rows: list[Write]) -> None:
        told = [(kind if deletes else "+I", row) for kind, row in rows]
        step = [{"kind": kind, "values": list(row)} for kind, row in told]
        result = run_step({**at, "op": "write", "rows": step})
        assert "error" not in result, result
        waiting.extend(told)

    def compact_and_check(how: str) -> None:
        with small_pages(page_rows) if page_rows < 100 else nullcontext():
            compact(table, how)
        compacted(model, waiting, engine)
        waiting.clear()
        check(table, at, model)

    try:
        options = {
            "bucket": "1",
            "write-only": "true",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": str(wide).lower(),
            "target-file-size": "1 kb",
            "num-sorted-run.compaction-trigger": str(trigger),
            **ENGINES[engine],
        }
        step = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"]}
        run_step({**at, **step, "options": options})
        table = open_table(str(warehouse), "db.t")
        # Something large at the top, or nothing would ever stay above a compaction.
        write([("+I", (k, k % 7, f"{k * 7919 % 997:040b}")) for k in range(200)])
        compact_and_check("full")
        for writes, how in history:
            for rows in writes:
                write(rows)
            compact_and_check(how)
        assert check_table(table).findings == []
        compact_and_check("full")
        compact_and_check("full")
        assert deletion_vectors(table, table.latest_or_not_found()) == {}
    finally:
        shutil.rmtree(warehouse)
