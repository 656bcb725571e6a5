"""The schemas of a table and what changed from one to the next, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paimon_core.file_store_table import FileStoreTable
from paimon_core.known_options import unknown_options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.sql import type_to_sql
from paimon_maintenance.storage.options import hide_secrets

MOST_SCHEMAS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLine:
    """One column; `key` is "primary", "partition" or both, joined with a plus sign."""

    name: str
    type: str
    key: str
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLine:
    """One schema, and what it changed."""

    id: int
    at_millis: int | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaHistory:
    """Columns and options of the newest schema; the schemas, newest first.

    Values of options that look like secrets are hidden.
    """

    columns: tuple[ColumnLine, ...]
    options: tuple[tuple[str, str], ...]
    unknown_options: tuple[str, ...]
    comment: str | None
    schemas: tuple[SchemaLine, ...]
    left_out: int


def schema_history(table: FileStoreTable) -> SchemaHistory:
    """The schema history of the table's branch."""
    ids = sorted(table.schemas.ids())
    read = ids[-(MOST_SCHEMAS + 1) :]
    schemas = [table.schemas.get(i) for i in read]
    lines = [
        SchemaLine(id=new.id, at_millis=new.time_millis, changes=tuple(_changes(old, new)))
        for old, new in zip([None, *schemas], schemas, strict=False)
    ]
    newest = table.schema
    return SchemaHistory(
        columns=tuple(
            ColumnLine(
                name=field.name,
                type=type_to_sql(field.type),
                key="+".join(_keys(newest, field.name)),
                comment=field.description,
            )
            for field in newest.fields
        ),
        options=tuple(sorted(hide_secrets(dict(newest.options)).items())),
        unknown_options=tuple(unknown_options(newest.options)),
        comment=newest.comment,
        schemas=tuple(reversed(lines[-MOST_SCHEMAS:])),
        left_out=max(0, len(ids) - MOST_SCHEMAS),
    )


def _keys(schema: TableSchema, name: str) -> Iterator[str]:
    if name in schema.primary_keys:
        yield "primary"
    if name in schema.partition_keys:
        yield "partition"


def _changes(old: TableSchema | None, new: TableSchema) -> Iterator[str]:
    if old is None:
        if new.id == 0:
            yield "the table was created"
        return
    before, after = {f.id: f for f in old.fields}, {f.id: f for f in new.fields}
    for number, field in after.items():
        if number not in before:
            yield f"added column {field.name} {type_to_sql(field.type)}"
            continue
        was = before[number]
        if was.name != field.name:
            yield f"renamed column {was.name} to {field.name}"
        if was.type != field.type:
            types = f"from {type_to_sql(was.type)} to {type_to_sql(field.type)}"
            yield f"changed column {field.name} {types}"
        if was.description != field.description:
            yield f"changed the comment of column {field.name}"
    for number, field in before.items():
        if number not in after:
            yield f"dropped column {field.name}"
    was_set, is_set = hide_secrets(dict(old.options)), hide_secrets(dict(new.options))
    for key in sorted(was_set.keys() | is_set.keys()):
        if key not in was_set:
            yield f"set {key} = {is_set[key]}"
        elif key not in is_set:
            yield f"removed option {key}"
        elif old.options[key] != new.options[key]:
            yield f"changed {key} from {was_set[key]} to {is_set[key]}"
    if old.comment != new.comment:
        yield "changed the comment of the table"
