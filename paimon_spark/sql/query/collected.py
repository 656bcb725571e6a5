"""The rows of a DataFrame as the result of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_core.types.zones import zone_of
from paimon_spark.sql.errors import plain_call
from paimon_spark.sql.frames.dataframes import arrow_of
from paimon_spark.sql.query.hidden_columns import file_name_call
from paimon_spark.sql.query.sys_functions import plain_name
from paimon_spark.sql.result import Result
from paimon_spark.sql.spark_settings import ZONE_KEY
from paimon_spark.sql.values import json_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collected(frame: DataFrame) -> Result:
    """The columns and rows of a DataFrame."""
    columns = [file_name_call(plain_call(plain_name(c))) for c in frame.columns]
    plain = frame.toDF(*(f"c{i}" for i in range(len(columns)))) if columns else frame
    shown = plain.selectExpr(*(_shown(f) for f in plain.schema.fields))
    zone = zone_of(frame.sparkSession.conf.get(ZONE_KEY) or "UTC")
    return Result(columns, json_rows(arrow_of(shown), zone))


def _shown(field: Any) -> str:
    """The SQL of a column in a type that Arrow has."""
    if field.dataType.typeName() == "variant":
        return f"to_json({field.name}) AS {field.name}"
    arrow = _arrow_type(field.dataType)
    return f"CAST({field.name} AS {arrow}) AS {field.name}" if arrow else str(field.name)


def _arrow_type(data_type: Any) -> str | None:
    """The type with texts in place of what Arrow lacks, at any depth; None if it has all."""
    match data_type.typeName():
        case "void":
            return "STRING"
        case name if "interval" in name:
            return "STRING"
        case "array":
            element = _arrow_type(data_type.elementType)
            return None if element is None else f"ARRAY<{element}>"
        case "map":
            parts = data_type.keyType, data_type.valueType
            if not any(map(_arrow_type, parts)):
                return None
            key, value = (_arrow_type(p) or p.simpleString() for p in parts)
            return f"MAP<{key}, {value}>"
        case "struct" if _renames(data_type) or any(
            _arrow_type(f.dataType) for f in data_type.fields
        ):
            fields = (
                f"c{i}: {_arrow_type(f.dataType) or f.dataType.simpleString()}"
                for i, f in enumerate(data_type.fields)
            )
            return f"STRUCT<{', '.join(fields)}>"
    return None


def _renames(data_type: Any) -> bool:
    """Whether Arrow needs other fields: some share a name, or cannot be null inside of a null."""
    names = {f.name for f in data_type.fields}
    return len(names) < len(data_type.fields) or not all(f.nullable for f in data_type.fields)
