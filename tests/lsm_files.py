"""Data files for tests of levels, picks and sections: only metadata, no bytes behind it."""

from __future__ import annotations

from hypothesis import strategies as st

from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import RowType, TypeRoot
from tests.merge_model import atomic, row_type

KEY: RowType = row_type(k=atomic(TypeRoot.INT, nullable=False))


def a_file(
    low: int,
    high: int,
    *,
    level: int = 0,
    size: int = 100,
    name: str | None = None,
    sequence: int = 0,
    deletes: int | None = 0,
    created: int = 0,
) -> DataFileMeta:
    """A file that holds the keys from `low` to `high`."""
    return DataFileMeta(
        file_name=name or f"data-{low}-{high}-{level}-{sequence}.parquet",
        file_size=size,
        row_count=high - low + 1,
        min_key=encode_row([low], KEY.types),
        max_key=encode_row([high], KEY.types),
        min_sequence_number=sequence,
        max_sequence_number=sequence + high - low,
        level=level,
        delete_row_count=deletes,
        creation_time=created,
    )


@st.composite
def key_ranges(draw: st.DrawFn, *, max_size: int = 12) -> list[tuple[int, int]]:
    """Key ranges that may overlap."""
    return [
        (low, low + length)
        for low, length in draw(
            st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=max_size)
        )
    ]


@st.composite
def lsm_files(
    draw: st.DrawFn,
    *,
    top_level: int = 5,
    max_level_0: int = 8,
    sizes: st.SearchStrategy[int] | None = None,
) -> list[DataFileMeta]:
    """A bucket: overlapping files on level 0, disjoint ones on each level above."""
    if sizes is None:
        sizes = st.integers(1, 10_000)
    files = [
        a_file(low, high, size=draw(sizes), name=f"l0-{i}", sequence=draw(st.integers(0, 50)))
        for i, (low, high) in enumerate(draw(key_ranges(max_size=max_level_0)))
    ]
    for level in range(1, top_level + 1):
        bounds = sorted(draw(st.sets(st.integers(0, 80), max_size=6)))
        for low, high in zip(bounds[::2], bounds[1::2], strict=False):
            files.append(
                a_file(
                    low,
                    high,
                    level=level,
                    size=draw(sizes),
                    name=f"l{level}-{low}",
                    deletes=draw(st.sampled_from([0, 0, 3, None])),
                )
            )
    return files
