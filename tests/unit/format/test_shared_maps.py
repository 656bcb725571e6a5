"""Maps whose keys share columns of a file, beside a simple model; and files that lie about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.arrow_conversion import in_order
from paimon_core.format.parquet import reader
from paimon_core.format.parquet.reader import read_parquet
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import DataField, RowType
from paimon_core.types.sql import parse_type

Maps = Sequence[dict[str, int | None] | None]
FIELDS = RowType(
    fields=(DataField(id=0, name="m", type=parse_type("MAP<STRING NOT NULL, BIGINT>")),)
)
SCHEMA = arrow_schema(FIELDS)
PREFIX = "paimon.map.shared-shredding."


def stored(maps: Maps, columns: int, numbers: dict[str, int], **metadata: str) -> pa.RecordBatch:
    """What Java writes: keys in columns in their order, the rest in the overflow."""
    rows = []
    for one in maps:
        if one is None:
            rows.append(None)
            continue
        keys = list(one)
        here, rest = keys[:columns], keys[columns:]
        row: dict[str, Any] = {
            "__field_mapping": [numbers[k] for k in here] + [-1] * (columns - len(here))
        }
        row |= {f"__col_{i}": one[k] for i, k in enumerate(here)}
        row["__overflow"] = [(numbers[k], one[k]) for k in rest] or None
        rows.append(row)
    struct = pa.struct(
        [
            ("__field_mapping", pa.list_(pa.int32())),
            *((f"__col_{i}", pa.int64()) for i in range(columns)),
            ("__overflow", pa.map_(pa.int32(), pa.int64())),
        ]
    )
    text = json.dumps(numbers).encode()
    found = {
        "paimon.map.storage-layout": "shared-shredding",
        f"{PREFIX}version": "1",
        f"{PREFIX}field-dict-compression": "zstd",
        f"{PREFIX}field-dict-original-size": str(len(text)),
        f"{PREFIX}field-dict": zstandard.ZstdCompressor().compress(text).decode("latin-1"),
        f"{PREFIX}num-columns": str(columns),
    }
    found |= {PREFIX + name.replace("_", "-"): value for name, value in metadata.items()}
    field = pa.field("m", struct, metadata=found)
    return pa.RecordBatch.from_arrays([pa.array(rows, struct)], schema=pa.schema([field]))


KEYS = st.text(max_size=3)
MAPS = st.lists(
    st.none() | st.dictionaries(KEYS, st.none() | st.integers(-5, 5), max_size=5), max_size=9
)


@given(MAPS, st.integers(1, 4), st.integers(0, 9), st.randoms())
def test_maps_are_those_that_were_stored(maps: Maps, columns: int, start: int, random: Any) -> None:
    names = sorted({key for one in maps if one for key in one})
    numbers = dict(zip(names, random.sample(range(50), len(names)), strict=True))
    batch = stored(maps, columns, numbers).slice(start)
    found = in_order(batch, SCHEMA)
    assert found.schema == SCHEMA
    found.validate(full=True)
    assert found["m"].to_pylist() == [None if m is None else list(m.items()) for m in maps[start:]]


def test_a_number_without_a_key_is_left_out_as_in_java() -> None:
    batch = stored([{"a": 1, "b": 2, "c": 3}], 1, {"a": 0, "b": 1, "c": 2})
    fewer = stored([], 1, {"a": 0, "c": 2}).schema
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=fewer)
    assert in_order(batch, SCHEMA)["m"].to_pylist() == [[("a", 1), ("c", 3)]]


@pytest.mark.parametrize(
    ("lie", "error"),
    [
        ({"version": "2"}, UnsupportedFeature),
        ({"field_dict_compression": "snappy"}, UnsupportedFeature),
        ({"field_dict_compression": "lz4"}, CorruptTable),
        ({"field_dict": "no dictionary"}, CorruptTable),
        ({"field_dict": "[1]", "field_dict_compression": "none"}, CorruptTable),
        ({"field_dict": '{"a":"b"}', "field_dict_compression": "none"}, CorruptTable),
        ({"field_dict": '{"a":99999999999}', "field_dict_compression": "none"}, CorruptTable),
        ({"field_dict": "[" * 90_000, "field_dict_compression": "none"}, CorruptTable),
        ({"field_dict_original_size": "1"}, CorruptTable),
        ({"field_dict_original_size": "-1"}, CorruptTable),
        ({"field_dict_original_size": "9" * 18}, CorruptTable),
        ({"num_columns": "3"}, CorruptTable),
        ({"num_columns": "1"}, CorruptTable),
        ({"num_columns": "0"}, CorruptTable),
        ({"num_columns": "many"}, CorruptTable),
        ({"num_columns": "9" * 5000}, CorruptTable),
    ],
)
def test_metadata_that_lies_is_refused(lie: dict[str, str], error: type[Exception]) -> None:
    if len(lie.get("field_dict", "")) and "field_dict_original_size" not in lie:
        lie = {**lie, "field_dict_original_size": "100000"}
    with pytest.raises(error):
        in_order(stored([{"a": 1}], 2, {"a": 0}, **lie), SCHEMA)


def test_no_metadata_is_refused_by_name() -> None:
    batch = stored([{"a": 1}], 2, {"a": 0})
    plain = pa.schema([batch.schema.field("m").remove_metadata()])
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=plain)
    with pytest.raises(UnsupportedFeature, match="without metadata of the column"):
        in_order(batch, SCHEMA)


@pytest.mark.parametrize("mapping", [None, [0], [0, 1, 2], [0, None]])
def test_a_mapping_that_does_not_fit_is_refused(mapping: list[int | None] | None) -> None:
    batch = stored([{"a": 1}], 2, {"a": 0})
    row = {**batch["m"].to_pylist()[0], "__field_mapping": mapping}
    field = batch.schema.field("m")
    batch = pa.RecordBatch.from_arrays([pa.array([row], field.type)], schema=batch.schema)
    with pytest.raises(CorruptTable, match="__field_mapping"):
        in_order(batch, SCHEMA)


def test_rows_in_the_middle_of_a_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGES_FROM", 0)
    keys = np.random.default_rng(1).integers(0, 5, 4000)
    maps = [{str(k): int(i), "x": None, "y": 1} for i, k in enumerate(keys)]
    numbers = {name: i for i, name in enumerate(["x", "y", *map(str, range(5))])}
    path = tmp_path / "file.parquet"
    table = pa.Table.from_batches([stored(maps, 2, numbers)])
    pq.write_table(table, path, write_page_index=True, data_page_size=1024)
    with pa.OSFile(str(path)) as source:
        batches = read_parquet(
            source, FIELDS, batch_rows=500, use_threads=False, rows=range(1500, 2600)
        )
        found = [one for batch in batches for one in batch["m"].to_pylist()]
    assert found == [list(m.items()) for m in maps[1500:2600]]
