"""Snapshots, schemas, options, tags, branches and consumers as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from paimon_core.io.json_text import to_flat_json, to_pretty_json
from paimon_core.refs.tags import Tag
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.statistics import columns_to_object, read_statistics
from paimon_core.table.system.definition import Row, SystemRead, SystemTable
from paimon_core.types.sql import field_to_json, type_to_sql

_NANOS: Final = 10**9


def _snapshots(read: SystemRead) -> Iterator[Row]:
    for s in read.table.snapshots.all():
        operation = s.extra.get("operation")
        yield (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind.value,
            read.wall_clock(s.time_millis),
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
            None if operation is None else str(operation),
        )


SNAPSHOTS: Final = SystemTable(
    {
        "snapshot_id": "BIGINT NOT NULL",
        "schema_id": "BIGINT NOT NULL",
        "commit_user": "STRING NOT NULL",
        "commit_identifier": "BIGINT NOT NULL",
        "commit_kind": "STRING NOT NULL",
        "commit_time": "TIMESTAMP(3) NOT NULL",
        "base_manifest_list": "STRING NOT NULL",
        "delta_manifest_list": "STRING NOT NULL",
        "changelog_manifest_list": "STRING",
        "total_record_count": "BIGINT",
        "delta_record_count": "BIGINT",
        "changelog_record_count": "BIGINT",
        "watermark": "BIGINT",
        "next_row_id": "BIGINT",
    },
    _snapshots,
    {"operation": "STRING"},
)


def _schemas(read: SystemRead) -> Iterator[Row]:
    for s in read.table.schemas.all():
        yield (
            s.id,
            to_flat_json([field_to_json(f) for f in s.fields]),
            to_flat_json(list(s.partition_keys)),
            to_flat_json(list(s.primary_keys)),
            to_flat_json(dict(s.options)),
            s.comment,
            read.wall_clock(s.time_millis or 0),
        )


SCHEMAS: Final = SystemTable(
    {
        "schema_id": "BIGINT NOT NULL",
        "fields": "STRING NOT NULL",
        "partition_keys": "STRING NOT NULL",
        "primary_keys": "STRING NOT NULL",
        "options": "STRING NOT NULL",
        "comment": "STRING",
        "update_time": "TIMESTAMP(3) NOT NULL",
    },
    _schemas,
)


def _newest_schema(read: SystemRead) -> TableSchema:
    # The stored one, without the caller's dynamic options.
    return read.table.schemas.latest() or read.table.schema


def _options(read: SystemRead) -> Iterator[Row]:
    yield from _newest_schema(read).options.items()


OPTIONS: Final = SystemTable({"key": "STRING NOT NULL", "value": "STRING NOT NULL"}, _options)


def _tags(read: SystemRead) -> Iterator[Row]:
    for tag in sorted(read.table.tags.all(), key=lambda t: t.name):
        s = tag.snapshot
        yield (
            tag.name,
            s.id,
            s.schema_id,
            read.wall_clock(s.time_millis),
            s.total_record_count,
            tag.create_time,
            _retained(tag),
        )


def _retained(tag: Tag) -> str | None:
    return None if tag.time_retained is None else duration_text(tag.time_retained)


def duration_text(nanos: int) -> str:
    """Format a duration like Java's `Duration.toString`: "PT24H", "PT1H30M", "PT0.5S"."""
    if nanos == 0:
        return "PT0S"
    seconds, fraction = divmod(abs(nanos), _NANOS)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    sign = "-" if nanos < 0 else ""
    text = "PT"
    if hours:
        text += f"{sign}{hours}H"
    if minutes:
        text += f"{sign}{minutes}M"
    if seconds or fraction:
        digits = f".{fraction:09}".rstrip("0") if fraction else ""
        text += f"{sign}{seconds}{digits}S"
    return text


TAGS: Final = SystemTable(
    {
        "tag_name": "STRING NOT NULL",
        "snapshot_id": "BIGINT NOT NULL",
        "schema_id": "BIGINT NOT NULL",
        "commit_time": "TIMESTAMP(3) NOT NULL",
        "record_count": "BIGINT",
        "create_time": "TIMESTAMP(3)",
        "time_retained": "STRING",
    },
    _tags,
)


def _branches(read: SystemRead) -> Iterator[Row]:
    table = read.table
    for name in table.branches.names():
        made = table.io.stat(table.paths.branch_dir(name)).modified_millis
        yield name, read.wall_clock(made)


BRANCHES: Final = SystemTable(
    {"branch_name": "STRING NOT NULL", "create_time": "TIMESTAMP(3) NOT NULL"}, _branches
)


def _consumers(read: SystemRead) -> Iterator[Row]:
    for consumer in read.table.consumers.all():
        yield consumer.id, consumer.next_snapshot


CONSUMERS: Final = SystemTable(
    {"consumer_id": "STRING NOT NULL", "next_snapshot_id": "BIGINT NOT NULL"}, _consumers
)


def _statistics(read: SystemRead) -> Iterator[Row]:
    found = None if read.snapshot is None else read_statistics(read.table, read.snapshot)
    if found is not None:
        columns = columns_to_object(found, read.table.schema_of(found.schema_id))
        yield (
            found.snapshot_id,
            found.schema_id,
            found.merged_record_count,
            found.merged_record_size,
            to_pretty_json(columns),
        )


STATISTICS: Final = SystemTable(
    {
        "snapshot_id": "BIGINT NOT NULL",
        "schema_id": "BIGINT NOT NULL",
        "mergedRecordCount": "BIGINT",
        "mergedRecordSize": "BIGINT",
        "colstat": "STRING",
    },
    _statistics,
    shows_values=True,
)


def _aggregation_fields(read: SystemRead) -> Iterator[Row]:
    schema = _newest_schema(read)
    keys: dict[str, list[str]] = defaultdict(list)
    for key in schema.options:
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields":
            keys[parts[1]].append(key)
    for field in schema.fields:
        mine = keys.get(field.name, [])
        yield (
            field.name,
            type_to_sql(field.type),
            f"[{', '.join(schema.options[k] for k in mine)}]",
            f"[{', '.join(mine)}]",
            field.description,
        )


AGGREGATION_FIELDS: Final = SystemTable(
    {
        "field_name": "STRING NOT NULL",
        "field_type": "STRING NOT NULL",
        "function": "STRING",
        "function_options": "STRING",
        "comment": "STRING",
    },
    _aggregation_fields,
)
