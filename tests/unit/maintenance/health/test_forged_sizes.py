"""`inspect` of tables whose manifests claim sizes that no table has."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV, Lake

from paimon_core.commit.committer import commit
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("field", "claim", "files"),
    [
        ("file_size", 2**62, 2),
        ("file_size", 2**61, 1),
        ("file_size", -1, 1),
        ("row_count", 2**61, 1),
    ],
)
def test_they_are_named_instead_of_summed_up(
    lake: Lake, field: str, claim: int, files: int
) -> None:
    lake.log()
    table = lake.table()
    for _ in range(files):  # two of 2**62 are -2**63 in 64 bits
        writer = RowWriter(table, env=ENV)
        writer.write(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
        messages = [
            replace(m, new_files=tuple(replace(f, **{field: claim}) for f in m.new_files))
            for m in writer.prepare_commit()
        ]
        commit(table, messages, user=ENV.new_uuid(), env=ENV)
    ran = caretaker("inspect", "db.t", "-w", lake.warehouse)
    assert ran.code == ExitCode.CORRUPT_TABLE, ran.out
    assert "claim sizes that no table has" in ran.err
    assert "PB" not in ran.out
