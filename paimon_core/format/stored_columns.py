"""The columns that a data file holds, whatever a table says about it."""

from __future__ import annotations

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
    """The names and Arrow types of the columns of an open file; CorruptTable if it has none."""
    with decoding(path):
        match file_format:
            case "parquet":
                # INT96 has no unit; as microseconds it differs from numbers of nanoseconds.
                with open_parquet(
                    source, arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us"
                ) as file:
                    schema: pa.Schema = file.schema_arrow
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
