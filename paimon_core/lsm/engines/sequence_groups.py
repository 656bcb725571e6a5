"""Validates the options of partial-update tables (Java: `PartialUpdateMergeFunction`)."""

from __future__ import annotations

from typing import Final

from paimon_core.errors import SchemaError
from paimon_core.lsm.aggregates.options import check_aggregate_functions
from paimon_core.options import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
)
from paimon_core.schema.table_schema import TableSchema

GROUP_SUFFIX: Final = ".sequence-group"
_REMOVE_ON_DELETE: Final = PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key
_REMOVE_ON_GROUP: Final = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key


def check_partial_update(schema: TableSchema) -> None:
    """Raise SchemaError unless all sequence groups name existing columns, each column once."""
    check_aggregate_functions(schema)
    options = schema.options
    ordering, ordered = _groups(schema)
    _check_aggregates(schema, ordering, ordered)
    remove_on_delete = options.flag(_REMOVE_ON_DELETE)
    remove_on_group = options.get(_REMOVE_ON_GROUP)
    if options.value(IGNORE_DELETE) and (remove_on_delete or remove_on_group is not None):
        conflict = _REMOVE_ON_DELETE if remove_on_delete else _REMOVE_ON_GROUP
        raise SchemaError(f"ignore-delete cannot be combined with {conflict}")
    if remove_on_delete and (ordering or ordered):
        raise SchemaError(f"sequence groups cannot be combined with {_REMOVE_ON_DELETE}")
    for name in (remove_on_group or "").split(",") if remove_on_group else ():
        if name not in ordering:
            raise SchemaError(
                f"{_REMOVE_ON_GROUP} names {name!r}, which is not the sequence field of a group"
            )


def _groups(schema: TableSchema) -> tuple[set[str], set[str]]:
    """Return the columns that order groups, and the columns that they order."""
    ordering: set[str] = set()
    ordered: set[str] = set()
    for key, value in schema.options.items():
        if not (key.startswith("fields.") and key.endswith(GROUP_SUFFIX)):
            continue
        by = key[len("fields.") : -len(GROUP_SUFFIX)].split(",")
        members = value.split(",")
        for name in (*by, *members):
            if name not in schema.names:
                raise SchemaError(f"the option {key!r} names {name!r}, which is not a column")
        for name in members:
            if name in ordered or members.count(name) > 1:
                raise SchemaError(f"the column {name!r} is in more than one sequence group")
        ordering.update(by)
        ordered.update(members)
    return ordering, ordered


def _check_aggregates(schema: TableSchema, ordering: set[str], ordered: set[str]) -> None:
    default = schema.options.get("fields.default-aggregate-function")
    for name in schema.names:
        function = schema.options.get(f"fields.{name}.aggregate-function", default)
        if (
            function not in (None, "last_non_null_value")
            and name not in ordering
            and name not in ordered
            and name not in schema.primary_keys
        ):
            raise SchemaError(
                f"the column {name!r} is aggregated by {function}, so it must be in a sequence group"
            )
