"""Overlapping key ranges are found alike from numbers and from decoded rows."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.manifest.data_file import DataFileMeta, FileKind, ManifestEntry
from paimon_core.manifest.entries.columns import KEYS, EntryColumns, Partitions, columns_of
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type
from paimon_maintenance.verify import key_ranges
from paimon_maintenance.verify.key_ranges import overlapping

KEY = RowType(
    fields=tuple(
        DataField(id=i, name=name, type=parse_type(f"{sql} NOT NULL"))
        for i, (name, sql) in enumerate([("a", "INT"), ("b", "BIGINT"), ("c", "TINYINT")])
    )
)
VALUES = st.tuples(
    st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
    st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    st.sampled_from([-128, -1, 0, 127]),
)
FILES = st.lists(
    st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 1), st.integers(0, 2), VALUES, VALUES),
    max_size=9,
)
Row = tuple[bytes, int, int, tuple[int, ...], tuple[int, ...]]


def columns(files: list[Row]) -> EntryColumns:
    entries = [
        ManifestEntry(
            FileKind.ADD,
            partition,
            bucket,
            2,
            DataFileMeta(
                file_name=f"f{i}",
                file_size=1,
                row_count=1,
                level=level,
                min_key=encode_row(min(low, high), KEY.types),
                max_key=encode_row(max(low, high), KEY.types),
            ),
        )
        for i, (partition, bucket, level, low, high) in enumerate(files)
    ]
    return columns_of(entries, Partitions(), KEYS)


@given(FILES)
def test_numbers_and_rows_agree(files: list[Row]) -> None:
    live = columns(files)
    found = sorted(overlapping(live, KEY))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_ranges, "_NUMBERS", {})
        assert sorted(overlapping(live, KEY)) == found
    ranges = [(f[:3], min(f[3:]), max(f[3:])) for f in files if f[2] > 0]
    overlap = any(
        a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2] for a, b in combinations(ranges, 2)
    )
    assert bool(found) == overlap
