"""`caretaker files TABLE`: the live data files, under the keys that the oracle uses too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from maintenance.cli.output import Output
from maintenance.cli.target import open_named
from maintenance.exit_codes import ExitCode
from maintenance.plan import human_bytes

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_core.manifest.data_file import ManifestEntry, SimpleStats
    from paimon_core.types.data_types import RowType


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the live files; an empty list for a table without snapshot."""
    from paimon_core.manifest.index_manifest import read_index_manifest  # noqa: PLC0415 - fast start
    from paimon_core.scan.scan import scan_files  # noqa: PLC0415 - fast start
    from paimon_core.table.time_travel import travel  # noqa: PLC0415 - fast start

    table, snapshot = travel(
        open_named(args), snapshot=args.snapshot, tag=args.tag, timestamp_millis=args.timestamp
    )
    files: list[dict[str, object]] = []
    index_files: list[dict[str, object]] = []
    if snapshot is not None:
        files = sorted(
            (file_json(table, entry) for entry in scan_files(table, snapshot)), key=_order
        )
        if snapshot.index_manifest is not None:
            path = table.paths.manifest(snapshot.index_manifest)
            for entry in read_index_manifest(table.io, path):
                file = entry.index_file
                index_files.append(
                    {
                        "partition": partition_json(table, entry.partition),
                        "bucket": entry.bucket,
                        "type": file.index_type,
                        "file": file.file_name,
                        "size": file.file_size,
                        "rows": file.row_count,
                        **_vectors(file.dv_ranges),
                    }
                )
    value = {
        "table": table.name,
        "snapshot": None if snapshot is None else snapshot.id,
        "files": files,
        "index_files": index_files,
    }
    output.result(value, _lines(value["snapshot"], files))
    return ExitCode.SUCCESS


def _vectors(ranges: object) -> dict[str, object]:
    if not isinstance(ranges, tuple):
        return {}
    return {
        "deletion_vectors": {
            r.data_file: {"offset": r.offset, "length": r.length, "cardinality": r.cardinality}
            for r in ranges
        }
    }


def _order(file: Mapping[str, object]) -> tuple[object, ...]:
    return (str(file["partition"]), file["bucket"], file["level"], file["min_seq"], file["file"])


def partition_json(table: FileStoreTable, partition: bytes) -> dict[str, object]:
    """The partition's values by key, in JSON's terms."""
    names = table.schema.partition_keys
    return dict(zip(names, _row(partition, table.schema.partition_type) or (), strict=True))


def file_json(table: FileStoreTable, entry: ManifestEntry) -> dict[str, object]:
    """One live file with everything that its manifest entry says."""
    file = entry.file
    schema = table.schemas.get(file.schema_id)
    value: dict[str, object] = {
        "kind": entry.kind.name,
        "partition": partition_json(table, entry.partition),
        "bucket": entry.bucket,
        "total_buckets": entry.total_buckets,
        "level": file.level,
        "file": file.file_name,
        "size": file.file_size,
        "rows": file.row_count,
        "delete_rows": file.delete_row_count,
        "min_seq": file.min_sequence_number,
        "max_seq": file.max_sequence_number,
        "schema_id": file.schema_id,
        "extra_files": list(file.extra_files),
        "embedded_index": None if file.embedded_index is None else file.embedded_index.hex(),
        "source": None if file.file_source is None else file.file_source.name,
        "creation_time": wall_clock_text(file.creation_time),
        "value_stats_cols": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "first_row_id": file.first_row_id,
        "write_cols": None if file.write_cols is None else list(file.write_cols),
        "path": table.paths.data_file(entry.partition, entry.bucket, file),
    }
    if table.has_primary_key:
        key = table.schema.key_type
        value["min_key"] = _row(file.min_key, key)
        value["max_key"] = _row(file.max_key, key)
        value["key_stats"] = _stats(file.key_stats, key)
    columns = schema.row_type
    if file.value_stats_cols is not None:
        columns = columns.project(file.value_stats_cols)
    value["value_stats"] = _stats(file.value_stats, columns)
    return value


def _row(data: bytes, row_type: RowType) -> list[object] | None:
    from paimon_core.types.binary_row import decode_row  # noqa: PLC0415 - fast start
    from paimon_core.types.text import json_value  # noqa: PLC0415 - fast start

    # Keys and statistics may be stored with fewer fields than the type has, or with none.
    arity = int.from_bytes(data[:4], "big")
    types = row_type.types[:arity]
    return [json_value(v, t) for v, t in zip(decode_row(data, types), types, strict=True)]


def _stats(stats: SimpleStats, row_type: RowType) -> dict[str, object]:
    return {
        "cols": list(row_type.names),
        "min": _row(stats.min_values, row_type),
        "max": _row(stats.max_values, row_type),
        "nulls": list(stats.null_counts or ()),
        "min_bytes": stats.min_values.hex(),
    }


def wall_clock_text(millis: int | None) -> str | None:
    """A creation time as Java prints a LocalDateTime; None stays None."""
    if millis is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    text = moment.strftime("%Y-%m-%dT%H:%M")
    fraction = millis % 1000
    if moment.second or fraction:
        text += f":{moment.second:02d}"
    return text + (f".{fraction:03d}" if fraction else "")


def _lines(snapshot: object, files: list[dict[str, object]]) -> Iterator[str]:
    size = sum(int(str(f["size"])) for f in files)
    rows = sum(int(str(f["rows"])) for f in files)
    yield f"snapshot {snapshot}: {len(files):,} files, {human_bytes(size)}, {rows:,} rows"
    for f in files:
        yield f"  level {f['level']}  {human_bytes(int(str(f['size']))):>9}  {f['rows']:>12,} rows  {f['path']}"
