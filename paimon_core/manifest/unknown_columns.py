"""Unknown columns of metadata files in ORC or Parquet: refused if they hold values.

Unlike the fields of Avro files (`unknown_fields`), they are not carried: reading such a file and
writing its entries again would lose them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from paimon_core.errors import UnsupportedFeature


def check_columns(data: bytes, known: pa.Schema) -> None:
    """Raise UnsupportedFeature if a column that is not in the schema has a value.

    `data` is the content of the file.  Content that is neither ORC nor Parquet is not looked at.
    """
    file = _open(data)
    if file is None:
        return
    schema = file.schema if isinstance(file.schema, pa.Schema) else file.schema_arrow
    if not list(_unknown(list(schema), list(known), ())):
        return
    table = file.read()
    for path in _unknown(list(schema), list(known), ()):
        column: Any = table.column(path[0])
        if _has_value(column.combine_chunks(), path[1:]):
            raise UnsupportedFeature(f"the metadata column {'.'.join(path)}")


def _open(data: bytes) -> Any:
    # Imported here: both take longer than reading an Avro file.
    if data.startswith(b"ORC"):
        from pyarrow import orc  # noqa: PLC0415

        return orc.ORCFile(pa.BufferReader(data))
    if data.startswith(b"PAR1"):
        from pyarrow import parquet  # noqa: PLC0415

        return parquet.ParquetFile(pa.BufferReader(data))
    return None


def _unknown(
    fields: list[pa.Field], known: list[pa.Field], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    by_name = {f.name: f for f in known}
    for field in fields:
        inner = (*path, field.name)
        match = by_name.get(field.name)
        if match is None:
            yield inner
        elif pa.types.is_struct(field.type) and pa.types.is_struct(match.type):
            yield from _unknown(list(field.type), list(match.type), inner)
        elif pa.types.is_list(field.type) and pa.types.is_list(match.type):
            item, expected = field.type.value_type, match.type.value_type
            if pa.types.is_struct(item) and pa.types.is_struct(expected):
                yield from _unknown(list(item), list(expected), (*inner, ""))


def _has_value(array: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        array = array.flatten() if name == "" else array.field(name)
    return bool(array.null_count < len(array))
