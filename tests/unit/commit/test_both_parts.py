"""Rows and the compaction that they make due are two snapshots; the second may fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_core import Schema, open_catalog
from paimon_core.errors import CommitStateUnknown
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.sink import write_session


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
    with pytest.raises(CommitStateUnknown, match="compaction was not committed"):
        builder.new_commit().commit([both])
    assert table.refreshed().to_dicts() == [{"k": 1, "v": "a"}]


def test_rows_are_committed_if_the_table_is_renamed_before_their_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of an error writes them again."""
    catalog = open_catalog({"warehouse": str(tmp_path)})
    catalog.create_database("db")
    told = {"bucket": "1", "full-compaction.delta-commits": "1"}
    schema = Schema.of({"k": "INT", "v": "STRING"}, primary_keys=["k"], options=told)
    table = catalog.create_table("db.t", schema)
    commit = write_session.commit

    def renamed_after_it(*args: Any, **kwargs: Any) -> Any:
        made = commit(*args, **kwargs)
        catalog.rename_table("db.t", "db.u")
        return made

    monkeypatch.setattr(write_session, "commit", renamed_after_it)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer:
        writer.write_dicts([{"k": 1, "v": "a"}])
        made = builder.new_commit().commit(writer.prepare_commit())
    assert [s.commit_kind for s in made.snapshots] == [CommitKind.APPEND]
    assert catalog.get_table("db.u").to_dicts() == [{"k": 1, "v": "a"}]
