"""Strategies for the values of metadata files: any value that their types allow."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from paimon_core.manifest.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_core.names import EARLIEST_MILLIS, LATEST_MILLIS, is_file_name

LONG = st.integers(-(2**63), 2**63 - 1)
MILLIS = st.integers(EARLIEST_MILLIS, LATEST_MILLIS)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ROW = st.binary(max_size=40)
NAMES = st.lists(TEXT, max_size=4).map(tuple)
FILE_NAME = TEXT.filter(is_file_name)
EXTERNAL = st.tuples(st.sampled_from(("/w", "file:/w", "s3://b")), FILE_NAME).map("/".join)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """None, or what the strategy makes."""
    return st.none() | strategy


STATS = st.builds(
    SimpleStats,
    ROW,
    ROW,
    maybe(st.lists(maybe(LONG), max_size=4).map(tuple)),
)
FILES = st.builds(
    DataFileMeta,
    file_name=FILE_NAME,
    file_size=LONG,
    row_count=LONG,
    min_key=ROW,
    max_key=ROW,
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    schema_id=LONG,
    level=st.integers(0, 2**31 - 1),
    extra_files=st.lists(FILE_NAME, max_size=4).map(tuple),
    creation_time=maybe(LONG),
    delete_row_count=maybe(LONG),
    embedded_index=maybe(ROW),
    file_source=maybe(st.sampled_from(FileSource)),
    value_stats_cols=maybe(NAMES),
    external_path=maybe(EXTERNAL),
    first_row_id=maybe(LONG),
    write_cols=maybe(NAMES),
)
