"""Index files that do not hold what they should are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lakes import ENV, Lake
from row_deletes import delete_rows

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.index.deletion_vectors import write_deletion_vectors
from paimon_core.manifest.data_file import EMPTY_ROW, IndexFileMeta
from paimon_core.scan.scan import scan_files
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Problem


@pytest.fixture(params=["false", "true"], ids=["32 bit", "64 bit"])
def lake(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    bits = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": request.param}
    lake.log(**bits)
    lake.append({"k": list(range(10)), "v": ["x"] * 10})
    return lake


def problems(lake: Lake, scope: Scope | None = None) -> list[Problem]:
    return [f.problem for f in check_table(lake.table(), scope).findings]


def index_file(lake: Lake) -> Path:
    (path,) = (Path(lake.table().root) / "index").iterdir()
    return path


def with_vector(lake: Lake, positions: list[int]) -> IndexFileMeta:
    """A vector of the one data file, written but not committed."""
    table = lake.table()
    (entry,) = scan_files(table, table.latest_or_not_found())
    path = table.paths.index("index-made-up-0")
    vectors = {entry.file.file_name: np.array(positions, np.int64)}
    return write_deletion_vectors(table.io, path, vectors, bitmap64=False)


def committed(lake: Lake, file: IndexFileMeta) -> None:
    message = CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_index_files=(file,)
    )
    commit(lake.table(), [message], user="test", env=ENV)


def test_whole_index_files_are_fine(lake: Lake) -> None:
    delete_rows(lake.table(), {1, 2, 9})
    found = check_table(lake.table())
    assert found.findings == []
    assert found.checked["index_files"] == 1


def test_a_flipped_bit(lake: Lake) -> None:
    delete_rows(lake.table(), {1, 2})
    path = index_file(lake)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    assert problems(lake) == [Problem.UNREADABLE]
    # Right after a run only what is named is looked for.
    ids = lake.table().snapshots.ids()
    assert problems(lake, Scope.of_snapshots(ids)) == []


def test_another_length(lake: Lake) -> None:
    delete_rows(lake.table(), {1, 2})
    path = index_file(lake)
    path.write_bytes(path.read_bytes() + b"x")
    assert problems(lake) == [Problem.WRONG_SIZE]


def test_a_missing_index_file(lake: Lake) -> None:
    delete_rows(lake.table(), {1, 2})
    index_file(lake).unlink()
    assert problems(lake) == [Problem.MISSING_INDEX_FILE]


def test_a_row_that_is_not_there(lake: Lake) -> None:
    committed(lake, with_vector(lake, [3, 10]))
    (finding,) = check_table(lake.table()).findings
    assert finding.problem is Problem.WRONG_ROW_COUNT
    assert "deletes row 10 of data-" in finding.message
    assert "which has 10 rows" in finding.message


def test_another_number_of_vectors(lake: Lake) -> None:
    committed(lake, replace(with_vector(lake, [3]), row_count=2))
    (finding,) = check_table(lake.table()).findings
    assert "lists 1 deletion vectors, but its row count is 2" in finding.message


def test_another_cardinality(lake: Lake) -> None:
    file = with_vector(lake, [3])
    assert file.dv_ranges is not None
    wrong = tuple(replace(r, cardinality=2) for r in file.dv_ranges)
    committed(lake, replace(file, dv_ranges=wrong))
    assert problems(lake) == [Problem.UNREADABLE]
