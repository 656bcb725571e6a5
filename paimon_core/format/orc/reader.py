"""Reads batches of rows from an ORC file.

pyarrow's `ORCFile` decodes a whole stripe; its dataset scanner streams batches from the stripe with
less memory and time, so this module uses the scanner.

ORC types differ from Paimon's (Java: `OrcTypeUtil`, the ORC library's readers): TIME is an int of
milliseconds; all timestamps are in nanoseconds; CHAR(n) is padded in the file and loses *all*
trailing blanks when read, as in Java.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.arrow_conversion import in_order, null_batches, with_children
from paimon_core.format.damage import DAMAGE_OF_STREAMS, cause
from paimon_core.format.orc.footer import check_footer
from paimon_core.format.orc.zone import UTC, file_zone, has_ltz, to_wall_clock
from paimon_core.format.shared_maps import is_shared
from paimon_core.types.arrow import arrow_schema, map_types
from paimon_core.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_ARROW_SCHEMA: Final = b"ARROW:schema"


def read_orc(
    source: Any, fields: RowType, *, batch_rows: int, use_threads: bool, legacy_ltz: bool
) -> Iterator[pa.RecordBatch]:
    """Yield batches of these columns of the file, by name; missing columns are null.

    `source` is an open file.  With `legacy_ltz`, TIMESTAMP LTZ is what Java reads in the zone in
    which the file was written.  Raises UnsupportedFeature for a timestamp before 1678 or after
    2261, which pyarrow cannot read from ORC.
    """
    # Imported here: it imports pandas if installed, which takes longer than the rest.
    import pyarrow.dataset as ds  # noqa: PLC0415
    from pyarrow import orc  # noqa: PLC0415

    check_footer(source)
    zone = file_zone(source) if legacy_ltz and has_ltz(fields) else UTC
    source.seek(0)
    schema = arrow_schema(fields)
    fragment = ds.OrcFileFormat().make_fragment(source)
    stored = {f.name: f.type for f in fragment.physical_schema}
    present = stored.keys()
    columns = {f.name: pc.field(f.name) for f in fields if f.name in present}
    if not columns:
        yield from null_batches(orc.ORCFile(source).nrows, schema, batch_rows)
        return
    if any("." in name for name in columns):
        batches = _whole_stripes(orc.ORCFile(source), list(columns), batch_rows)
    else:
        batches = fragment.scanner(
            columns=columns,
            batch_size=batch_rows,
            batch_readahead=1 if use_threads else 0,
            fragment_readahead=0,
            use_threads=use_threads,
        ).to_batches()
    if any(f.name in stored and is_shared(stored[f.name], f.type) for f in schema):
        batches = _with_metadata(batches, orc.ORCFile(source).metadata)
    padded = [(i, f.type) for i, f in enumerate(fields) if _has_char(f.type)]
    zoned = [i for i, f in enumerate(fields) if zone != UTC and has_ltz(f.type)]
    try:
        for batch in batches:
            if batch.num_rows:
                read = _trimmed(in_order(batch, schema), padded)
                for i in zoned:
                    column = to_wall_clock(read.column(i), zone)
                    read = read.set_column(i, schema.field(i), column)
                yield read
    except pa.ArrowInvalid as e:
        if "out of range for nanosecond" in str(e):
            raise UnsupportedFeature(
                "ORC timestamps outside the years 1678 to 2261",
                f"an ORC file holds a timestamp that pyarrow cannot read: {e}",
            ) from e
        raise


def _with_metadata(batches: Iterator[pa.RecordBatch], stored: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the metadata of columns, which Java keeps for the file as a whole.

    Java: `FormatMetadataUtils`.
    """
    try:
        encoded = (stored or {})[_ARROW_SCHEMA]
        fields = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
    except DAMAGE_OF_STREAMS as e:
        raise CorruptTable(f"the file has no valid metadata of its columns: {cause(e)}") from e
    metadata = {field.name: field.metadata for field in fields}
    for batch in batches:
        found = [f.with_metadata(metadata.get(f.name)) for f in batch.schema]
        yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(found))


def _whole_stripes(file: Any, names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches from stripes decoded with all their columns.

    For names with a dot: Arrow's dataset treats them as a path into a struct, finds nothing, and
    silently returns nulls.
    """
    for number in range(file.nstripes):
        stripe = file.read_stripe(number).select(names)
        for start in range(0, stripe.num_rows, batch_rows):
            yield stripe.slice(start, batch_rows)


def _has_char(t: DataType) -> bool:
    match t:
        case AtomicType():
            return t.kind is TypeRoot.CHAR
        case ArrayType():
            return _has_char(t.element)
        case MapType() | MultisetType():
            return any(_has_char(part) for part in map_types(t))
        case RowType():
            return any(_has_char(part) for part in t.types)
    return False


def _trimmed(batch: pa.RecordBatch, padded: list[tuple[int, DataType]]) -> pa.RecordBatch:
    for i, t in padded:
        batch = batch.set_column(i, batch.schema.field(i), _trim(batch.column(i), t))
    return batch


def _trim(array: pa.Array, t: DataType) -> pa.Array:
    match t:
        case AtomicType() if t.kind is TypeRoot.CHAR:
            return pc.ascii_rtrim(array, characters=" ")
        case ArrayType():
            return with_children(array, array.type, [_trim(array.values, t.element)])
        case MapType() | MultisetType():
            key, value = map_types(t)
            children = [_trim(array.keys, key), _trim(array.items, value)]
            return with_children(array, array.type, children)
        case RowType():
            children = [_trim(array.field(i), f) for i, f in enumerate(t.types)]
            return with_children(array, array.type, children)
    return array
