"""Manifests: the data files and deletion vectors of a table (Java: `iceberg/manifest/*`).

The records of data files stay as Avro has them: they are written once, when a file is added, and
copied from manifest to manifest after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import Any, Final

import fastavro

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.container import Container
from paimon_core.format.avro.schema import file_schema, physical_schema
from paimon_core.iceberg.schema import FIRST_PARTITION_FIELD
from paimon_core.iceberg.values import to_avro, to_bytes
from paimon_core.manifest.avro_codec import RecordWriter, avro_codec, read_records
from paimon_core.manifest.data_file import SimpleStats
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.binary_row import decode_row, row_arity
from paimon_core.types.data_types import AtomicType, DataType, RowType, TypeRoot

PUFFIN: Final = "puffin"
_ZSTD_LEVEL: Final = 1
_NO_BOUNDS: Final = (TypeRoot.VARIANT, TypeRoot.BLOB)


class Status(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    DATA = 0
    POSITION_DELETES = 1


@dataclass(frozen=True, slots=True)
class IcebergEntry:
    """A data file or deletion vector in a manifest; `data_file` is its Avro record."""

    status: Status
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    data_file: Mapping[str, Any]

    @property
    def is_live(self) -> bool:
        return self.status is not Status.DELETED

    @property
    def path(self) -> str:
        return str(self.data_file["file_path"])

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def row_count(self) -> int:
        return int(self.data_file["record_count"])

    @property
    def size(self) -> int:
        return int(self.data_file["file_size_in_bytes"])


def added(snapshot_id: int, data_file: Mapping[str, Any]) -> IcebergEntry:
    """Return the entry of a file that a snapshot adds."""
    return IcebergEntry(Status.ADDED, snapshot_id, snapshot_id, snapshot_id, data_file)


# --- records ------------------------------------------------------------------------------------


def data_record(
    path: str,
    partition: Mapping[str, Any],
    *,
    row_count: int,
    size: int,
    schema: TableSchema,
    stats: SimpleStats,
    stats_columns: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the record of a data file; `schema` is the one that the file was written with.

    An unknown null count is left out, and so are bounds of which one is unknown.
    """
    names = schema.names if stats_columns is None else stats_columns
    types = {f.name: f.type.with_nullable(True) for f in schema.fields}
    known = [n for n in names if n in types]
    # Statistics that do not fit the columns count as unknown.
    if len(known) != len(names) or row_arity(stats.min_values) != len(names):
        known = []
    row = [types[n] for n in known]
    low = decode_row(stats.min_values, row) if known else ()
    high = decode_row(stats.max_values, row) if known else ()
    ids = {f.name: f.id for f in schema.fields}
    order = sorted(range(len(known)), key=lambda i: ids[known[i]])
    lower: list[dict[str, object]] = []
    upper: list[dict[str, object]] = []
    for i in order:
        bounds = _bounds(row[i], low[i], high[i])
        if bounds is not None:
            lower.append({"key": ids[known[i]], "value": bounds[0]})
            upper.append({"key": ids[known[i]], "value": bounds[1]})
    counts = stats.null_counts or ()
    return _record(
        FileContent.DATA,
        path,
        path.rpartition(".")[2],
        partition,
        row_count=row_count,
        size=size,
        null_value_counts=[
            {"key": ids[known[i]], "value": counts[i]}
            for i in order
            if i < len(counts) and counts[i] is not None
        ],
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _bounds(t: DataType, low: object, high: object) -> tuple[bytes, bytes] | None:
    if not isinstance(t, AtomicType) or t.kind in _NO_BOUNDS:
        return None
    lower, upper = to_bytes(t, low), to_bytes(t, high)
    return None if lower is None or upper is None else (lower, upper)


def vector_record(
    path: str,
    partition: Mapping[str, Any],
    *,
    size: int,
    data_file: str,
    offset: int,
    length: int,
    cardinality: int,
) -> dict[str, Any]:
    """Return the record of the deletion vector of `data_file`, in the index file at `path`."""
    return _record(
        FileContent.POSITION_DELETES,
        path,
        PUFFIN,
        partition,
        row_count=cardinality,
        size=size,
        referenced_data_file=data_file,
        content_offset=offset,
        content_size_in_bytes=length,
    )


def _record(
    content: FileContent,
    path: str,
    file_format: str,
    partition: Mapping[str, Any],
    *,
    row_count: int,
    size: int,
    **more: object,
) -> dict[str, Any]:
    return {
        "content": int(content),
        "file_path": path,
        "file_format": file_format,
        "partition": partition,
        "record_count": row_count,
        "file_size_in_bytes": size,
        **more,
    }


def partition_record(partition: bytes, partition_type: RowType) -> dict[str, Any]:
    """Return the stored row of a partition as the record in manifests."""
    types = [t.with_nullable(True) for t in partition_type.types]
    values = decode_row(partition, types) if types else ()
    return {
        name: to_avro(t, value)
        for name, t, value in zip(partition_type.names, types, values, strict=True)
    }


# --- files --------------------------------------------------------------------------------------


class ManifestWriter:
    """Builds the bytes of one manifest; `size` are those of the blocks closed so far."""

    def __init__(self, partition_type: RowType, compression: str) -> None:
        schema = _entry_schema(partition_type)
        self._schema = fastavro.parse_schema(physical_schema(schema))
        self._writer = RecordWriter(schema, codec=avro_codec(compression), level=_ZSTD_LEVEL)

    @property
    def size(self) -> int:
        return self._writer.size

    def add(self, entry: IcebergEntry) -> None:
        record = {
            "status": int(entry.status),
            "snapshot_id": entry.snapshot_id,
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": dict(entry.data_file),
        }
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, record)
        self._writer.add(buffer.getvalue())

    def finish(self) -> bytes:
        return self._writer.finish()


def read_entries(container: Container, partition_type: RowType) -> list[IcebergEntry]:
    """Return the entries of a manifest; UnsupportedFeature for fields that would get lost."""
    check_known(container.schema, _entry_schema(partition_type), "")
    return [
        IcebergEntry(
            Status(r["status"]),
            r["snapshot_id"],
            r["sequence_number"],
            r["file_sequence_number"],
            r["data_file"],
        )
        for r in read_records(container)
    ]


def check_known(found: Any, known: Any, path: str) -> None:
    """Raise UnsupportedFeature for record fields that the known schema lacks, at any depth."""
    found, known = _inner(found), _inner(known)
    if not isinstance(found, dict) or not isinstance(known, dict):
        return
    if found.get("type") == "array":
        check_known(found["items"], known.get("items"), path)
    elif found.get("type") == "record":
        fields = {f["name"]: f["type"] for f in known.get("fields", ())}
        for f in found["fields"]:
            name = f"{path}{f['name']}"
            if f["name"] not in fields:
                raise UnsupportedFeature(f"field {name} of Iceberg manifests")
            check_known(f["type"], fields[f["name"]], f"{name}.")


def _inner(schema: Any) -> Any:
    if isinstance(schema, list):
        return next((s for s in schema if s != "null"), None)
    return schema


# --- schema -------------------------------------------------------------------------------------


def avro_field(field_id: int, name: str, schema: Any, *, nullable: bool = False) -> dict[str, Any]:
    """Return a field of an Avro record with its Iceberg id, as Java writes it."""
    if not nullable:
        return {"name": name, "type": schema, "field-id": field_id}
    return {"name": name, "type": ["null", schema], "default": None, "field-id": field_id}


def _entry_schema(partition_type: RowType) -> dict[str, Any]:
    return _named(
        "manifest_entry",
        avro_field(0, "status", "int"),
        avro_field(1, "snapshot_id", "long", nullable=True),
        avro_field(3, "sequence_number", "long", nullable=True),
        avro_field(4, "file_sequence_number", "long", nullable=True),
        avro_field(2, "data_file", _file_schema(partition_type)),
    )


def _file_schema(partition_type: RowType) -> dict[str, Any]:
    partition = file_schema(partition_type)["fields"] if partition_type.fields else []
    keys = [{**f, "field-id": FIRST_PARTITION_FIELD + i} for i, f in enumerate(partition)]
    return _named(
        "r2",
        avro_field(134, "content", "int"),
        avro_field(100, "file_path", "string"),
        avro_field(101, "file_format", "string"),
        avro_field(102, "partition", _named("r102", *keys)),
        avro_field(103, "record_count", "long"),
        avro_field(104, "file_size_in_bytes", "long"),
        avro_field(110, "null_value_counts", _map(121, 122, "long"), nullable=True),
        avro_field(125, "lower_bounds", _map(126, 127, "bytes"), nullable=True),
        avro_field(128, "upper_bounds", _map(129, 130, "bytes"), nullable=True),
        avro_field(143, "referenced_data_file", "string", nullable=True),
        avro_field(144, "content_offset", "long", nullable=True),
        avro_field(145, "content_size_in_bytes", "long", nullable=True),
    )


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    entry = _named(
        f"k{key_id}_v{value_id}",
        avro_field(key_id, "key", "int"),
        avro_field(value_id, "value", value),
    )
    return {"type": "array", "items": entry, "logicalType": "map"}


def _named(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}
