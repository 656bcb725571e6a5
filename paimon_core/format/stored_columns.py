"""The columns that a data file holds, whatever a table says about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.container import Container
from paimon_core.format.avro.reader import read_type
from paimon_core.format.avro.schema import without_null
from paimon_core.format.data_format import decoding
from paimon_core.format.orc.footer import check_footer
from paimon_core.format.parquet.footer import open_parquet


def stored_columns(source: Any, file_format: str, path: str) -> pa.Schema:
    """The names and Arrow types of the columns of an open file; CorruptTable if it has none.

    UnsupportedFeature for lists that Java cannot read.
    """
    with decoding(path):
        match file_format:
            case "parquet":
                # INT96 has no unit; as microseconds it differs from numbers of nanoseconds.
                with open_parquet(
                    source, arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us"
                ) as file:
                    schema: pa.Schema = file.schema_arrow
                    _check_lists(schema, file.metadata.schema, path)
                    return schema
            case "orc":
                # Imported here: it imports pandas if installed.
                import pyarrow.dataset as ds  # noqa: PLC0415

                check_footer(source)
                source.seek(0)
                return ds.OrcFileFormat().make_fragment(source).physical_schema
            case "avro":
                fields = Container(source).schema["fields"]
                return pa.schema([(f["name"], _avro_type(f["type"])) for f in fields])
    raise UnsupportedFeature(f"file format {file_format}", file=path)


def _check_lists(schema: pa.Schema, stored: Any, path: str) -> None:
    """Refuse lists whose repeated group is the element and not around it, as old writers have them.

    Java reads them only if the elements are numbers or texts.
    """
    expected = [leaf for field in schema for leaf in _leaves(field.type, 1, 0)]
    for number, (depth, is_plain_list) in enumerate(expected):
        leaf = stored.column(number)
        missing = depth - len(leaf.path.split("."))
        if missing > is_plain_list:
            raise UnsupportedFeature(
                "Parquet lists without a group around the element",
                f"Java Paimon cannot read {leaf.path}: in this old form of lists the elements must be "
                "plain values",
                file=path,
                next_step="let CREATE TABLE ... AS SELECT copy the rows into a new table",
            )


def _leaves(kind: Any, depth: int, lists: int) -> Iterator[tuple[int, bool]]:
    """The length of each leaf's path, and whether the leaf is the element of its only list."""
    types = pa.types
    if types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, depth + 1, lists)
    elif types.is_map(kind):
        for part in (kind.key_type, kind.item_type):
            yield from _leaves(part, depth + 2, lists + 1)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = kind.value_type
        if types.is_nested(element):
            yield from _leaves(element, depth + 2, lists + 1)
        else:
            yield depth + 2, lists == 0
    else:
        yield depth, False


def _avro_type(schema: Any) -> pa.DataType:
    """The Arrow type of a column of an Avro file, with its logical types."""
    schema = without_null(schema)
    if isinstance(schema, dict):
        match schema["type"], schema.get("logicalType"):
            case "record", _:
                return pa.struct([(f["name"], _avro_type(f["type"])) for f in schema["fields"]])
            case "array", _:
                return pa.list_(_avro_type(schema["items"]))
            case "map", _:
                return pa.map_(pa.string(), _avro_type(schema["values"]))
            case "bytes", "decimal":
                return pa.decimal128(schema["precision"], schema.get("scale", 0))
            case "int", "date":
                return pa.date32()
    return read_type(schema)
