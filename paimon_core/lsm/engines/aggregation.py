"""Merge engine `aggregation`: each field has a function (Java: `AggregateMergeFunction`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paimon_core.errors import InvalidArgument
from paimon_core.lsm.aggregates.functions import ColumnFunction
from paimon_core.lsm.aggregates.operations import ADD, RETRACT, SET, Operations
from paimon_core.lsm.aggregates.options import PREFIX, column_function, function_name
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.key_versions import Versions, assembled
from paimon_core.lsm.merge_engine import (
    DELETE,
    INSERT,
    MergedRows,
    MergeSlice,
    is_retract,
)
from paimon_core.options import AGGREGATION_REMOVE_RECORD_ON_DELETE, SEQUENCE_FIELD
from paimon_core.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates the versions of a key; -U and -D retract a value.

    With `remove_on_delete`, a -D restarts the row with its own values, and removes the row if it is
    the last version.
    """

    functions: Mapping[str, ColumnFunction]
    remove_on_delete: bool = False

    def merge(self, rows: MergeSlice) -> MergedRows:
        if rows.is_merged:
            return MergedRows(rows.in_order())
        versions = Versions.of(rows)
        codes = np.where(is_retract(versions.kinds), RETRACT, ADD).astype(np.int8)
        kinds = None
        if self.remove_on_delete:
            deletes = versions.kinds == DELETE
            codes[deletes] = SET
            kinds = np.where(deletes[versions.ends - 1], DELETE, INSERT).astype(np.int8)
        operations = Operations(versions, codes)
        columns = {
            name: self.functions[name].merge(column, operations)
            for name, column in zip(rows.batch.schema.names, rows.batch.columns, strict=True)
            if name in self.functions
        }
        return assembled(rows, versions, columns, kinds=kinds)


def aggregation_of(schema: TableSchema, rules: JavaRules) -> Aggregation:
    """Return the engine of a table; InvalidArgument for functions that do not fit their fields."""
    options = schema.options
    sequence = options.value(SEQUENCE_FIELD)
    remove = options.value(AGGREGATION_REMOVE_RECORD_ON_DELETE)
    functions = {}
    for field in schema.fields:
        if field.name in sequence:
            name = "last_value"
        elif field.name in schema.primary_keys:
            name = "primary-key"
        else:
            name = function_name(field.name, options) or "last_non_null_value"
        if remove and options.flag(f"{PREFIX}{field.name}.ignore-retract"):
            raise InvalidArgument(
                f"{AGGREGATION_REMOVE_RECORD_ON_DELETE.key} and "
                f"{PREFIX}{field.name}.ignore-retract cannot be combined"
            )
        functions[field.name] = column_function(name, field, options, rules=rules)
    return Aggregation(functions, remove)
