"""Units and results as bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_core.compaction.unit import (
    CompactResult,
    CompactUnit,
    KeyRange,
    SupersededRows,
    merged,
)
from paimon_core.errors import InvalidArgument
from paimon_core.lsm.tree.sorted_run import SortedRun
from paimon_core.manifest.data_file import (
    DeletionVectorRange,
    FileSource,
    IndexFileMeta,
    SimpleStats,
)
from tests.lsm_files import a_file

FULL = replace(
    a_file(1, 9, level=3),
    value_stats=SimpleStats(b"\x01", b"\xff", (0, None, 3)),
    extra_files=("a.index",),
    embedded_index=b"\x00\x01",
    file_source=FileSource.COMPACT,
    value_stats_cols=("k",),
    external_path="s3://x/y",
    first_row_id=7,
    write_cols=("k", "v"),
)
INDEX = IndexFileMeta(
    index_type="DELETION_VECTORS",
    file_name="index-1",
    file_size=10,
    row_count=2,
    dv_ranges=(DeletionVectorRange("a", 1, 2, None),),
)


def test_a_result_survives_the_journey() -> None:
    result = CompactResult(
        partition=b"\x00\xff",
        bucket=2,
        total_buckets=4,
        before=(FULL, a_file(0, 1)),
        after=(replace(FULL, embedded_index=None, extra_files=(), value_stats_cols=None),),
        changelog_files=(FULL,),
        new_index_files=(INDEX,),
        deleted_index_files=(replace(INDEX, dv_ranges=None),),
        superseded=(SupersededRows("a", b"\x00\xff"),),
    )
    assert CompactResult.from_bytes(result.to_bytes()) == result
    message = result.to_message()
    assert message.compact_before == result.before
    assert message.compact_new_index_files == (INDEX,)
    assert not message.new_files


def test_a_unit_with_a_key_range_survives_the_journey() -> None:
    unit = CompactUnit(
        partition=b"",
        bucket=0,
        total_buckets=1,
        append_files=(FULL,),
        key_range=KeyRange(None, b"\x01", may_copy=False),
        owns_inputs=False,
        above=(SortedRun((FULL,)),),
        vector_files=(INDEX,),
    )
    assert CompactUnit.from_bytes(unit.to_bytes()) == unit


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"format":1,"kind":"unit"}'])
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="compaction result"):
        CompactResult.from_bytes(data)


def test_results_of_one_bucket_are_merged() -> None:
    one = CompactResult(partition=b"", bucket=0, total_buckets=1, before=(FULL,))
    two = replace(one, before=(), after=(FULL,))
    assert merged([one, two]) == replace(one, after=(FULL,))
    with pytest.raises(InvalidArgument, match="several buckets"):
        merged([one, replace(two, bucket=1)])
