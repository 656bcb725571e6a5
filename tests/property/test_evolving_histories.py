"""Appends, updates of columns, deletes and compactions in any order.

Rows keep their ids and newest values, and deleted ones stay deleted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evolving_tables import DELETING, delete_rows_of, groups_of, rows_by_id, update_columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakes import ENV, Lake
from long_run import examples

from paimon_core.compaction.due import units_due
from paimon_core.compaction.idle import columns_needed, idle_buckets
from paimon_core.file_store_table import FileStoreTable
from paimon_core.scan.columns import scan_columns
from paimon_core.table.sink.compact_table import buckets_of, compact_table

_APPEND = st.tuples(st.just("append"), st.integers(1, 40), st.sampled_from(("a", "b")))
_UPDATE = st.tuples(st.just("update"), st.integers(0, 30), st.sampled_from(("k", "v", "kv")))
_DELETE = st.tuples(st.just("delete"), st.integers(0, 30), st.sampled_from(("2", "3", "5")))
_COMPACT = st.tuples(
    st.just("compact"),
    st.sampled_from(("128 mb", "2 kb", "700 b")),
    st.sampled_from(("2", "3", "5")),
)


@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(_APPEND, _APPEND, _UPDATE, _DELETE, _COMPACT), min_size=3, max_size=12))
def test_rows_keep_ids_and_values(
    tmp_path: Path,
    partitioned: bool,  # noqa: FBT001 - by pytest
    steps: list[tuple[str, Any, str]],
) -> None:
    lake = Lake(tmp_path)
    name = f"db.t{len(list(tmp_path.glob('db.db/*')))}"
    lake.create(name, primary_key=False, partitioned=partitioned, options=DELETING)
    model: dict[int, list[Any]] = {}
    ids = 0
    for number, (step, what, how) in enumerate(steps):
        table = lake.table(name)
        if step == "append":
            rows: dict[str, list[Any]] = {
                "k": list(range(what)),
                "v": [f"{i * 7919 % 10007}.{number}" for i in range(what)],
            }
            if partitioned:
                rows["dt"] = [how] * what
            lake.append(rows, name)
            for i in range(what):
                model[ids + i] = [rows[column][i] for column in rows]
            ids += what
        elif step == "update" and ids:
            groups = groups_of(table)
            _update(table, groups[what % len(groups)], how, number, model)
        elif step == "delete" and ids:
            groups = groups_of(table)
            group = groups[what % len(groups)]
            first, count = group[0].file.first_row_id or 0, group[0].file.row_count
            chosen_rows = range(what % count, count, int(how))
            delete_rows_of(table, group, chosen_rows)
            for position in chosen_rows:
                model.pop(first + position, None)
        elif step == "compact":
            options = {"target__file__size": what, "compaction_min.file__num": how}
            chosen = lake.table(name, source_split_open__file__cost="1 b", **options)
            _check_idle(chosen)
            compact_table(chosen, full=True, env=ENV)
        if ids:
            assert rows_by_id(lake.table(name)) == model
    assert lake.on_disk(name) == lake.referenced(name)


def _update(
    table: FileStoreTable, group: Any, columns: str, number: int, model: dict[int, list[Any]]
) -> None:
    first, count = group[0].file.first_row_id, group[0].file.row_count
    new = {"k": [-number] * count, "v": [f"u{number}.{i}" if i % 3 else None for i in range(count)]}
    update_columns(table, group, **{c: new[c] for c in columns})
    for i in range(count):
        for column in columns:
            if first + i in model:
                model[first + i]["kv".index(column)] = new[column][i]


def _check_idle(table: FileStoreTable) -> None:
    """Where nothing is due by the sizes, nothing is due by the rules."""
    latest = table.snapshots.latest()
    if latest is None:
        return
    live = scan_columns(table, latest, columns_needed(table))
    partitions, numbers, bucket_of = live.group()
    idle = idle_buckets(table, live, bucket_of, numbers, full=True)
    quiet = {live.partitions.rows[partitions[i]] for i in np.flatnonzero(idle)}
    for bucket in buckets_of(table):
        if bucket.partition in quiet:
            assert units_due(table, bucket, full=True, local_millis=ENV.local_millis()) == []
