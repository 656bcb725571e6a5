"""Paimon's types as Spark's, and the reverse (Java: `spark/SparkTypeUtils`).

TIME is an INT (milliseconds of the day), as in Java; CHAR(n) and VARCHAR(n) are strings, whose
length Spark does not check here.  TIMESTAMP becomes `timestamp_ntz`, with the local time zone
`timestamp`; both have microseconds in Spark, so finer digits are cut off.  A VECTOR is an array.
The parts of nested types are nullable in Spark, whatever the table says.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from pyspark.sql import types as s

from paimon_core.errors import UnsupportedFeature
from paimon_core.types import data_types as p
from paimon_core.types.data_types import DataType, RowType, TypeRoot
from paimon_core.types.sql import type_to_sql

_SIMPLE: Final[dict[TypeRoot, s.DataType]] = {
    TypeRoot.CHAR: s.StringType(),
    TypeRoot.VARCHAR: s.StringType(),
    TypeRoot.BOOLEAN: s.BooleanType(),
    TypeRoot.BINARY: s.BinaryType(),
    TypeRoot.VARBINARY: s.BinaryType(),
    TypeRoot.BLOB: s.BinaryType(),
    TypeRoot.TINYINT: s.ByteType(),
    TypeRoot.SMALLINT: s.ShortType(),
    TypeRoot.INT: s.IntegerType(),
    TypeRoot.BIGINT: s.LongType(),
    TypeRoot.FLOAT: s.FloatType(),
    TypeRoot.DOUBLE: s.DoubleType(),
    TypeRoot.DATE: s.DateType(),
    TypeRoot.TIME: s.IntegerType(),
    TypeRoot.TIMESTAMP: s.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: s.TimestampType(),
    TypeRoot.VARIANT: s.VariantType(),
}
_ATOMIC: Final[dict[type[s.DataType], DataType]] = {
    s.BooleanType: p.AtomicType(kind=TypeRoot.BOOLEAN),
    s.ByteType: p.AtomicType(kind=TypeRoot.TINYINT),
    s.ShortType: p.AtomicType(kind=TypeRoot.SMALLINT),
    s.IntegerType: p.AtomicType(kind=TypeRoot.INT),
    s.LongType: p.AtomicType(kind=TypeRoot.BIGINT),
    s.FloatType: p.AtomicType(kind=TypeRoot.FLOAT),
    s.DoubleType: p.AtomicType(kind=TypeRoot.DOUBLE),
    s.DateType: p.AtomicType(kind=TypeRoot.DATE),
    s.BinaryType: p.AtomicType(kind=TypeRoot.VARBINARY, length=p.MAX_LENGTH),
    s.StringType: p.AtomicType(kind=TypeRoot.VARCHAR, length=p.MAX_LENGTH),
    s.TimestampNTZType: p.AtomicType(kind=TypeRoot.TIMESTAMP, precision=6),
    s.TimestampType: p.AtomicType(kind=TypeRoot.TIMESTAMP_LTZ, precision=6),
    s.VariantType: p.AtomicType(kind=TypeRoot.VARIANT),
}


def spark_schema(row_type: RowType) -> s.StructType:
    """The Spark schema of these columns; UnsupportedFeature for types that Spark does not have."""
    return s.StructType(
        [
            s.StructField(
                f.name,
                spark_type(f.type),
                f.type.nullable,
                None if f.description is None else {"comment": f.description},
            )
            for f in row_type.fields
        ]
    )


def spark_type(data_type: DataType) -> s.DataType:
    """The Spark type that holds values of the type."""
    simple = _SIMPLE.get(data_type.root)
    if simple is not None:
        return simple
    match data_type:
        case p.AtomicType(kind=TypeRoot.DECIMAL):
            return s.DecimalType(data_type.precision or 0, data_type.scale or 0)
        case p.ArrayType() | p.VectorType():
            return s.ArrayType(spark_type(data_type.element))
        case p.MapType():
            return s.MapType(spark_type(data_type.key), spark_type(data_type.value))
        case p.MultisetType():
            return s.MapType(spark_type(data_type.element), s.IntegerType())
        case RowType():
            fields = [s.StructField(f.name, spark_type(f.type)) for f in data_type.fields]
            return s.StructType(fields)
    raise UnsupportedFeature(f"data type {type_to_sql(data_type)} in Spark")


def paimon_type(data_type: s.DataType) -> DataType:
    """The Paimon type of a Spark type, nullable; fields of rows are numbered from 0."""
    return _paimon_type(data_type, count())


def _paimon_type(data_type: s.DataType, ids: count[int]) -> DataType:
    match data_type:
        case s.DecimalType():
            return p.AtomicType(
                kind=TypeRoot.DECIMAL, precision=data_type.precision, scale=data_type.scale
            )
        case s.VarcharType():
            return p.AtomicType(kind=TypeRoot.VARCHAR, length=data_type.length)
        case s.CharType():
            return p.AtomicType(kind=TypeRoot.CHAR, length=data_type.length)
        case s.ArrayType():
            return p.ArrayType(element=_paimon_type(data_type.elementType, ids))
        case s.MapType():
            key = _paimon_type(data_type.keyType, ids).with_nullable(False)
            return p.MapType(key=key, value=_paimon_type(data_type.valueType, ids))
        case s.StructType():
            fields = tuple(
                p.DataField(id=next(ids), name=f.name, type=_paimon_type(f.dataType, ids))
                for f in data_type.fields
            )
            return RowType(fields=fields)
    atomic = _ATOMIC.get(type(data_type))
    if atomic is None:
        raise UnsupportedFeature(f"the Spark type {data_type.simpleString()}")
    return atomic
