"""Statistics of Java's files, collected here over the rows read back, are byte for byte Java's."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from golden_files import VERSIONS, golden_table, table_names

from paimon_core.errors import InvalidArgument
from paimon_core.format.column_stats import (
    Detail,
    StatsCollector,
    StatsMode,
    column_modes,
    truncated_maximum,
)
from paimon_core.format.data_format import format_of
from paimon_core.io.local import LocalFileIO
from paimon_core.options import Options
from paimon_core.read.data_file import read_data_file
from paimon_core.types.binary_row import decode_row
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_core.types.json_values import json_value
from paimon_core.write.file_stats import FileStats

TABLES = [(v, n) for v in VERSIONS for n in table_names(v)]


def described(stats, cols, schema):
    fields = [schema.row_type.get(c) for c in cols]
    types = [f.type for f in fields]
    minimum = decode_row(stats.min_values, types)
    maximum = decode_row(stats.max_values, types)
    return {
        "cols": list(cols),
        "min": [json_value(v, t) for v, t in zip(minimum, types, strict=True)],
        "max": [json_value(v, t) for v, t in zip(maximum, types, strict=True)],
        "nulls": list(stats.null_counts),
        "min_bytes": stats.min_values.hex(),
    }


def differs_on_purpose(version, data_type, file_format, stats):
    """Java 2.0 keeps bounds of binary columns, 1.4 does not; ORC's NaN bounds lose rows."""
    root = data_type.root
    if root in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return True
    return file_format == "orc" and root in {TypeRoot.FLOAT, TypeRoot.DOUBLE} and "NaN" in stats


def check(found, expected, schema, *, version, file_format):
    exact = True
    for i, name in enumerate(found["cols"]):
        ours = found["min"][i], found["max"][i], found["nulls"][i]
        java = expected["min"][i], expected["max"][i], expected["nulls"][i]
        if differs_on_purpose(version, schema.row_type.get(name).type, file_format, ours):
            exact = exact and version == "1.4.2" and "NaN" not in ours
            assert ours[2] == java[2]
        elif ours[0] is None and not schema.row_type.get(name).type.nullable:
            # The oracle prints an unknown bound of a NOT NULL column as a zero.
            assert ours[2] == java[2]
        else:
            assert ours == java, name
    assert found["cols"] == expected["cols"]
    if exact:
        assert found["min_bytes"] == expected["min_bytes"]


@pytest.mark.one_java
@pytest.mark.parametrize(("version", "name"), TABLES)
def test_statistics_are_those_of_java(version, name):
    table = golden_table(version, name)
    for file in table.all_files():
        schema = file.schema
        postponed = file.path.name.startswith("data--u-")
        mode = table.schema.options.get("metadata.stats-mode", "truncate(16)")
        collector = FileStats(
            schema.row_type,
            table.schema.options,
            file_format=format_of(file.path.name),
            stats_mode="none" if postponed else mode,
            key_names=schema.trimmed_primary_keys,
            thin=table.schema.options.get("data-file.thin-mode") == "true",
        )
        for batch in read_data_file(
            LocalFileIO(),
            str(file.path),
            file.meta,
            file_schema=schema,
            read_type=schema.row_type,
            key_value=table.key_value,
        ):
            collector.update([batch[n] for n in schema.names])
        how = {"version": version, "file_format": format_of(file.path.name)}
        stats, cols = collector.value_stats()
        assert cols == file.meta.value_stats_cols
        shown = cols if cols is not None else schema.names
        check(described(stats, shown, schema), file.info["value_stats"], schema, **how)
        if table.key_value:
            key = described(collector.key_stats(), schema.trimmed_primary_keys, schema)
            check(key, file.info["key_stats"], schema, **how)


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffffd", 3, "ac"),
        ("\U0010ffff" * 4, 3, None),
        ("\ud7ffx", 1, "\ue000"),
        ("äöüß", 2, "ä÷"),
    ],
)
def test_a_truncated_maximum_is_not_below_the_text(text, length, expected):
    assert truncated_maximum(text, length) == expected


def test_floats_sort_as_in_java():
    columns = RowType(fields=(DataField(id=0, name="f", type=AtomicType(kind=TypeRoot.DOUBLE)),))
    collector = StatsCollector(columns, [Detail.FULL], "parquet")
    for values in ([0.0, None], [-0.0], [math.nan, -1.0], [math.nan]):
        collector.update([pa.array(values, pa.float64())])
    (stats,) = collector.results()
    assert stats.minimum == -1.0
    assert math.isnan(stats.maximum)
    assert stats.null_count == 1
    collector = StatsCollector(columns, [Detail.FULL], "parquet")
    for values in ([0.0], [-0.0, 0.0]):
        collector.update([pa.array(values)])
    (stats,) = collector.results()
    assert [math.copysign(1, v) for v in stats[:2]] == [-1, 1]
    collector = StatsCollector(columns, [Detail.FULL], "parquet")
    collector.update([pa.array([math.nan, math.nan])])
    assert all(math.isnan(v) for v in collector.results()[0][:2])


@pytest.mark.parametrize("text", ["", "truncate(0)", "truncate", "some", "truncate(-1)"])
def test_an_unknown_mode_is_refused(text):
    with pytest.raises(InvalidArgument):
        StatsMode.parse(text)


def test_modes_of_columns():
    options = Options({"fields.b.stats-mode": "full", "metadata.stats-keep-first-n-columns": "1"})
    modes = column_modes(["k", "a", "b", "c"], "counts", options, key_columns=["k"])
    assert [m.detail for m in modes] == [Detail.TRUNCATE, Detail.COUNTS, Detail.FULL, Detail.NONE]
    assert modes[0].length == 128
