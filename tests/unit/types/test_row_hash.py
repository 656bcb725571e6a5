"""Hashes and buckets of rows."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_files import GOLDEN, VERSIONS

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.types.arrow import arrow_type, column_from_internal
from paimon_core.types.binary_row import encode_row
from paimon_core.types.binary_rows import encode_rows
from paimon_core.types.row_hash import assign_buckets, hash_rows, murmur_hash, wide_hash_rows
from paimon_core.types.sql import field_from_json, parse_type

INT, BIGINT, STRING = map(parse_type, ("INT", "BIGINT", "STRING"))


def test_a_rescale_from_five_to_ten_buckets() -> None:
    # Ids 1 to 20 without 11: four folders of five buckets, and with those of ten there are seven.
    keys = pa.array([i for i in range(1, 21) if i != 11])
    five = set(assign_buckets([keys], [BIGINT], 5).tolist())
    ten = set(assign_buckets([keys], [BIGINT], 10).tolist())
    assert len(five) == 4
    assert five | ten == {0, 1, 3, 4, 5, 6, 8}


def test_by_columns_as_by_rows() -> None:
    texts = ["", "a", None, "seven c", "eight ch", "日本語の文章", "x" * 100]
    numbers = [1, None, -1, 2**63 - 1, -(2**63), 0, 7]
    columns = [pa.array(texts), pa.array(numbers)]
    rows = [encode_row(r, [STRING, BIGINT]) for r in zip(texts, numbers, strict=True)]
    assert encode_rows(columns, [STRING, BIGINT]) == rows
    assert hash_rows(columns, [STRING, BIGINT]).tolist() == [murmur_hash(r[4:]) for r in rows]


def test_slices_chunks_and_dictionaries_hash_alike() -> None:
    texts = ["one", "two", None, "a rather long text", "one"] * 3
    expected = hash_rows([pa.array(texts)], [STRING]).tolist()
    sliced = pa.array(["x", *texts, "y"]).slice(1, len(texts))
    chunked = pa.chunked_array([texts[:4], [], texts[4:]])
    for column in (
        sliced,
        chunked,
        pa.array(texts).dictionary_encode(),
        sliced.cast(pa.large_string()),
    ):
        assert hash_rows([column], [STRING]).tolist() == expected


def test_no_rows() -> None:
    assert hash_rows([pa.array([], pa.string())], [STRING]).tolist() == []
    assert encode_rows([pa.array([], pa.int64())], [BIGINT]) == []


def test_the_remainder_is_truncated_before_the_sign_goes() -> None:
    keys = pa.array(range(1000))
    hashes = hash_rows([keys], [BIGINT]).tolist()
    assert min(hashes) < 0
    expected = [abs(h) % 7 for h in hashes]
    assert assign_buckets([keys], [BIGINT], 7).tolist() == expected


def test_mod_is_the_floor_remainder_of_the_number() -> None:
    column = pa.array([17, -3, 5, None, -(2**63)])
    assert assign_buckets([column], [BIGINT], 5, "mod").tolist() == [2, 2, 0, 0, 2]
    with pytest.raises(InvalidArgument, match="mod needs one bucket key"):
        assign_buckets([pa.array(["a"])], [STRING], 5, "mod")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("BOOLEAN", True, 1),
        ("TINYINT", -1, 0x7FFFFFFF),
        ("INT", 77, 77),
        ("BIGINT", 2**32 + 1, 0),
        ("FLOAT", 1.0, 0x3F800000),
        ("FLOAT", -0.0, 0),
        ("DOUBLE", 1.0, 0x3FF00000),
        ("STRING", "hello", 99162322),
        ("STRING", "é", -1978 & 0x7FFFFFFF),
        ("BYTES", b"\x01\x02", 33),
        ("DECIMAL(10, 2)", Decimal("1.20"), 31 * 12 + 1),
        ("DECIMAL(10, 2)", Decimal("-1.20"), (-31 * 12 + 1) & 0x7FFFFFFF),
        ("DECIMAL(10, 2)", Decimal("0.00"), 0),
        ("DECIMAL(10, 2)", Decimal("100.00"), 3100),
        ("STRING", None, 0),
    ],
)
def test_hive_hashes(text: str, value: Any, expected: int) -> None:
    data_type = parse_type(text)
    column = column_from_internal([value], data_type)
    buckets = assign_buckets([column], [data_type], 2**31 - 1, "hive")
    assert buckets.tolist() == [expected % (2**31 - 1)]


def test_hive_refuses_timestamps_as_java_does() -> None:
    data_type = parse_type("TIMESTAMP(3)")
    with pytest.raises(UnsupportedFeature, match="hive"):
        assign_buckets([column_from_internal([0], data_type)], [data_type], 3, "hive")


def test_the_number_of_buckets_must_be_positive() -> None:
    with pytest.raises(InvalidArgument, match="positive"):
        assign_buckets([pa.array([1])], [BIGINT], 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name", ["pk_types", "append_bucketed", "dedup_write_only", "rescaled", "types_pk_parquet"]
)
def test_golden_rows_lie_in_the_buckets_that_java_chose(version: str, name: str) -> None:
    expected = json.loads((GOLDEN / version / name / "expected.json").read_text(encoding="utf-8"))
    root = GOLDEN / version / name / "warehouse" / "db.db" / "t"
    schema = expected["schemas"][0]
    types = {f["name"]: field_from_json(f).type for f in schema["fields"]}
    keys = (
        schema["options"].get("bucket-key", "").split(",")
        if not schema["primaryKeys"]
        else [k for k in schema["primaryKeys"] if k not in schema["partitionKeys"]]
    )
    files = {f["file"]: f for state in expected["files"].values() for f in state["files"]}
    rows = 0
    for file in files.values():
        (path,) = root.rglob(file["file"])
        if path.suffix != ".parquet":
            continue
        table = pq.ParquetFile(path).read()
        columns = [table.column(k).cast(arrow_type(types[k])) for k in keys]
        buckets = assign_buckets(columns, [types[k] for k in keys], file["total_buckets"])
        assert set(buckets.tolist()) == {file["bucket"]}
        rows += len(buckets)
    assert rows > 0
    assert max(f["total_buckets"] for f in files.values()) > 1


def test_wide_hashes_tell_more_rows_apart() -> None:
    columns = [pa.array([f"key {i} of many" for i in range(200_000)])]
    narrow, wide = hash_rows(columns, [STRING]), wide_hash_rows(columns, [STRING])
    assert len(set(narrow.tolist())) < 200_000
    assert len(set(wide.tolist())) == 200_000
    high = (wide >> np.uint64(32)).astype(np.uint32).view(np.int32)
    assert (high == narrow).all()
    assert (wide_hash_rows(columns, [STRING]) == wide).all()
