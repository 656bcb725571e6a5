from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from paimon_core.manifest.data_file import EMPTY_ROW, DataFileMeta, IndexFileMeta
from paimon_core.options import Options
from paimon_core.paths import (
    TablePaths,
    bucket_name,
    escape_path_name,
    table_paths,
    unescape_path_name,
)
from paimon_core.types.binary_row import encode_row
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

GOLDEN = Path(__file__).parents[1] / "golden"
FILE = DataFileMeta(file_name="data-1-0.parquet", file_size=1, row_count=1)


def _row(**types: str) -> RowType:
    return RowType(
        fields=tuple(
            DataField(id=i, name=n, type=parse_type(t)) for i, (n, t) in enumerate(types.items())
        )
    )


def _paths(options: dict[str, str] | None = None, **types: str) -> TablePaths:
    return table_paths("/w/db.db/t", _row(**types), Options(options))


def test_metadata_of_a_branch_lies_in_its_folder_and_shared_files_do_not() -> None:
    main = _paths()
    assert main.snapshot(7) == "/w/db.db/t/snapshot/snapshot-7"
    assert main.schema(0) == "/w/db.db/t/schema/schema-0"
    branch = main.of_branch("b1")
    assert branch.snapshot(7) == "/w/db.db/t/branch/branch-b1/snapshot/snapshot-7"
    assert branch.schema(0) == "/w/db.db/t/branch/branch-b1/schema/schema-0"
    assert branch.tag("x y") == "/w/db.db/t/branch/branch-b1/tag/tag-x y"
    assert branch.changelog(1) == "/w/db.db/t/branch/branch-b1/changelog/changelog-1"
    assert branch.consumer("c") == "/w/db.db/t/branch/branch-b1/consumer/consumer-c"
    for shared in ("manifest", "index", "statistics"):
        assert getattr(branch, shared)("f") == f"/w/db.db/t/{shared}/f"
    assert branch.bucket_dir(EMPTY_ROW, 0) == main.bucket_dir(EMPTY_ROW, 0)


def test_partitions_are_folders_in_order_with_escaped_text() -> None:
    paths = _paths({"partition.legacy-name": "false"}, dt="DATE", h="INT", s="STRING")
    row = encode_row([19723, 7, "a/b=c%"], paths.partition_type.types)
    assert paths.partition_path(row) == "dt=2024-01-01/h=7/s=a%2Fb%3Dc%25"
    assert paths.bucket_dir(row, 3) == "/w/db.db/t/dt=2024-01-01/h=7/s=a%2Fb%3Dc%25/bucket-3"
    assert _paths(dt="DATE").partition_path(encode_row([19723], [parse_type("DATE")])) == "dt=19723"


@pytest.mark.parametrize("value", [None, "", "  ", "\t"])
def test_null_and_blank_partitions_have_the_default_name(value: str | None) -> None:
    row = encode_row([value], [parse_type("STRING")])
    assert _paths(s="STRING").partition_path(row) == "s=__DEFAULT_PARTITION__"
    assert (
        _paths({"partition.default-name": "no/ne"}, s="STRING").partition_path(row) == "s=no%2Fne"
    )


def test_escaping_is_that_of_java() -> None:
    text = "\x00\x1f\"#%'*/:=?\\\x7f{}[]^ az-é漢"
    escaped = "%00%1F%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%7D%5B%5D%5E az-é漢"
    assert escape_path_name(text) == escaped
    assert unescape_path_name(escaped) == text
    assert unescape_path_name("100%") == "100%"


def test_files_lie_in_their_bucket_or_on_their_external_path() -> None:
    told = {"data-file.path-directory": "data", "data-file.external-paths": "s3://x/y"}
    paths = _paths(told)
    assert paths.data_file(EMPTY_ROW, 0, FILE) == "/w/db.db/t/data/bucket-0/data-1-0.parquet"
    assert bucket_name(-2) == "bucket-postpone"
    outside = DataFileMeta(
        file_name="d.parquet", file_size=1, row_count=1, external_path="s3://x/y/bucket-0/d.parquet"
    )
    assert paths.data_file(EMPTY_ROW, 0, outside) == "s3://x/y/bucket-0/d.parquet"
    assert paths.extra_file(EMPTY_ROW, 0, outside, "d.parquet.index") == (
        "s3://x/y/bucket-0/d.parquet.index"
    )
    assert paths.extra_file(EMPTY_ROW, 0, FILE, "i") == "/w/db.db/t/data/bucket-0/i"


def test_index_files_lie_in_the_index_folder_unless_told_otherwise() -> None:
    file = IndexFileMeta(index_type="HASH", file_name="index-1", file_size=4, row_count=1)
    assert _paths().index_file(EMPTY_ROW, 0, file) == "/w/db.db/t/index/index-1"
    beside = _paths({"index-file-in-data-file-dir": "true"})
    assert beside.index_file(EMPTY_ROW, 0, file) == "/w/db.db/t/bucket-0/index-1"


def test_paths_travel_without_what_they_remember() -> None:
    paths = _paths(s="STRING")
    row = encode_row(["x"], [parse_type("STRING")])
    paths.partition_path(row)
    copy = pickle.loads(pickle.dumps(paths))
    assert copy == paths
    assert copy._known == {}
    assert copy.partition_path(row) == "s=x"
