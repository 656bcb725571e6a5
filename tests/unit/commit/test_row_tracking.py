"""Row ids of new files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from evolving_tables import EVOLVING, groups_of
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.table.sink.compact_table import compact_table
from paimon_core.types.arrow import arrow_schema
from paimon_core.write.row_writer import RowWriter

OPTION = "row-tracking.partition-group-on-commit"


@pytest.mark.parametrize("grouped", ["true", "false"])
def test_rows_of_a_partition_have_neighbouring_ids(lake: Lake, grouped: str) -> None:
    """As where several tasks write into the same partitions."""
    lake.create(primary_key=False, partitioned=True, options=EVOLVING | {OPTION: grouped})
    table = lake.table()
    messages = []
    for i in range(3):
        writer = RowWriter(table, env=ENV)
        rows = {"k": [i, i], "v": ["a", "b"], "dt": ["x", "y"]}
        batch = pa.RecordBatch.from_pydict(rows, arrow_schema(table.schema.row_type))
        writer.write(batch, np.zeros(2, np.int8))
        messages += writer.prepare_commit()
    commit(table, messages, user=ENV.new_uuid(), env=ENV)
    firsts: dict[bytes, list[int]] = {}
    for group in groups_of(table):
        firsts.setdefault(group[0].partition, []).append(group[0].file.first_row_id or 0)
    together = [[0, 1, 2], [3, 4, 5]]
    assert sorted(firsts.values()) == (together if grouped == "true" else [[0, 2, 4], [1, 3, 5]])
    compact_table(table, full=True, env=ENV)
    assert len(groups_of(table)) == (2 if grouped == "true" else 6)
