"""Messages with new rows and a compaction make two snapshots; the second may be refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_core import Schema, open_catalog
from paimon_core.errors import CommitStateUnknown


def test_rows_stay_when_only_their_compaction_is_refused(tmp_path: Path) -> None:
    catalog = open_catalog({"warehouse": str(tmp_path)})
    catalog.create_database("db")
    told = {"bucket": "1", "write-only": "true"}
    schema = Schema.of({"k": "INT", "v": "STRING"}, primary_keys=["k"], options=told)
    table = catalog.create_table("db.t", schema)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer:
        writer.write_dicts([{"k": 1, "v": "a"}])
        (message,) = writer.prepare_commit()
    gone = replace(message.new_files[0], file_name="data-gone-0.parquet")
    both = replace(message, compact_before=(gone,), compact_after=(gone.upgraded(5),))
    with pytest.raises(CommitStateUnknown, match="compaction was refused"):
        builder.new_commit().commit([both])
    assert table.refreshed().to_dicts() == [{"k": 1, "v": "a"}]
