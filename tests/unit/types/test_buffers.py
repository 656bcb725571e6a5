"""Values are taken from chunks as from one array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_core.types.buffers import index_array, take_values

CHUNKS = pa.chunked_array([[b"a", b"b"], [], [b"c"], [b"d", b"e", b"f"]], pa.large_binary())


@pytest.mark.parametrize(
    "rows", [[], [0], [5], [2, 3], [0, 1, 2, 3, 4, 5], [1, 1, 4, 4], [5, 0], [3, 2, 2]]
)
@pytest.mark.parametrize("values", [CHUNKS, CHUNKS.slice(0), CHUNKS.combine_chunks()])
def test_rows_in_any_order(values: pa.Array | pa.ChunkedArray, rows: list[int]) -> None:
    wanted = np.array(rows, np.int64)
    found = take_values(values, wanted)
    assert found.to_pylist() == values.take(index_array(wanted)).to_pylist()
    assert found.type == pa.large_binary()


def test_few_rows_of_many_chunks_take_little_memory() -> None:
    chunk = pa.array([bytes(1000)] * 1000, pa.large_binary())
    many = pa.chunked_array([chunk] * 20)
    normal = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(normal)
    pa.set_memory_pool(watched)
    try:
        assert len(take_values(many, np.array([5, 19_000]))) == 2
        assert watched.max_memory() < chunk.nbytes
    finally:
        pa.set_memory_pool(normal)
