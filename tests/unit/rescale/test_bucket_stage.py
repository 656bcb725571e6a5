"""Rows by their new bucket: none is lost, their order stays, and little of them waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_core.format.parquet.writer import ROW_GROUP_BYTES
from paimon_core.rescale import bucket_stage
from paimon_core.rescale.bucket_runs import BucketRuns
from paimon_core.rescale.bucket_stage import Numbers, by_bucket, row_group_share

SCHEMA = pa.schema(
    {"n": pa.int64(), "bucket": pa.int64(), "text": pa.string(), "nested": pa.list_(pa.int64())}
)
SIZES = [0, 5, 400, 1, 0, 77, 2000]


def batches(buckets: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(buckets)
    begin = first
    for size in SIZES:
        numbers = np.arange(begin, begin + size)
        begin += size
        yield pa.record_batch(
            {
                "n": numbers,
                "bucket": rng.integers(0, buckets, size) ** 2 // buckets,
                "text": [f"text {n}" if n % 3 else None for n in numbers.tolist()],
                "nested": [[n] * (n % 4) for n in numbers.tolist()],
            },
            schema=SCHEMA,
        )


def bucket_of(batch: pa.RecordBatch) -> Numbers:
    return np.asarray(batch.column("bucket"))


def expected(buckets: int) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in batches(buckets):
        for row in batch.to_pylist():
            found[row["bucket"]].append(row)
    return dict(found)


@pytest.mark.parametrize("piece_bytes", [1, 3000, 1 << 20])
@pytest.mark.parametrize("buckets", [1, 7, 300, 100_000])
def test_every_row_in_its_order(
    monkeypatch: pytest.MonkeyPatch, buckets: int, piece_bytes: int
) -> None:
    monkeypatch.setattr(bucket_stage, "PIECE_BYTES", piece_bytes)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    ended: set[int] = set()
    for piece in by_bucket(batches(buckets), bucket_of, buckets=buckets):
        assert piece.bucket not in ended
        # A piece keeps no rows of others in memory.
        assert piece.rows.get_total_buffer_size() < 2 * piece.rows.nbytes + 1000
        found[piece.bucket] += piece.rows.to_pylist()
        if piece.is_last:
            ended.add(piece.bucket)
    assert dict(found) == expected(buckets)


def test_only_the_wanted_ones() -> None:
    found = {
        piece.bucket: piece.rows.to_pylist()
        for piece in by_bucket(batches(7), bucket_of, buckets=2, wanted={2, 5})
    }
    assert found == {bucket: rows for bucket, rows in expected(7).items() if bucket in (2, 5)}


def test_row_groups_share_the_memory() -> None:
    sizes = [row_group_share(n) for n in (1, 2, 10, 64, 1000, 10**9)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == ROW_GROUP_BYTES
    assert sizes[-1] == 1
    assert all(
        row_group_share(n) * n <= bucket_stage.MOST_WRITING_BYTES for n in (1, 2, 3, 64, 1000)
    )


@pytest.mark.parametrize("batch_rows", [1, 30, 10_000])
def test_runs_on_disk(tmp_path: Path, batch_rows: int) -> None:
    with BucketRuns(tmp_path / "runs", batch_rows=batch_rows) as runs:
        for run in (0, 1):
            for piece in by_bucket(batches(7, first=run * 10_000), bucket_of, buckets=7):
                runs.write(piece.bucket, run, piece.rows)
        runs.written()
        assert runs.buckets() == sorted(expected(7))
        for bucket in runs.buckets():
            older, newer = [list(run) for run in runs.runs(bucket)]
            assert all(0 < b.num_rows <= batch_rows for b in older)
            rows = [row for batch in older for row in batch.to_pylist()]
            assert rows == expected(7)[bucket]
            assert [r["n"] + 10_000 for r in rows] == [n for b in newer for n in b["n"].to_pylist()]


def test_nothing_on_disk(tmp_path: Path) -> None:
    with BucketRuns(tmp_path / "runs", batch_rows=10) as runs:
        runs.written()
        assert not runs.buckets()
