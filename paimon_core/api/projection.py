"""The columns of a read, which may be fields of structs (Java: `types/RowType.project`).

As in pypaimon, "address.city" names the field `city` of the struct `address`, and comes back as the
column `address_city`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_core.api.predicates import no_column
from paimon_core.errors import InvalidArgument
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.schema.tracked import ROW_ID
from paimon_core.types.data_types import DataField, RowType

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """What is shown of the rows of a table: `row_type`, each field from the column of its path."""

    row_type: RowType
    paths: tuple[_Path, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are read."""
        return list(dict.fromkeys(path[0] for path in self.paths))

    @property
    def tracked(self) -> bool:
        """Whether ids or sequence numbers of rows are shown."""
        return not {ROW_ID, SEQUENCE_NUMBER}.isdisjoint(self.columns)

    def shown(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `_VALUE_KIND` and the fields of the row type, from batches with the columns.

        A field of a struct that is null is null.
        """
        if all(len(path) == 1 for path in self.paths):
            yield from batches
            return
        for batch in batches:
            found = [_at(batch.column(path[0]), path[1:]) for path in self.paths]
            yield pa.RecordBatch.from_arrays(
                [batch.column(VALUE_KIND), *found], [VALUE_KIND, *self.row_type.names]
            )


def _at(column: pa.Array, path: _Path) -> pa.Array:
    return pc.struct_field(column, list(path)) if path else column


def projection(columns: Sequence[str] | None, row_type: RowType) -> Projection:
    """Return these columns, and fields of structs, in this order; None: all columns.

    A column with dots in its name comes before a field.  Raises InvalidArgument for an unknown
    name, or one that is given more than once.
    """
    names = row_type.names if columns is None else columns
    fields: list[DataField] = []
    paths: list[_Path] = []
    for name in names:
        path = (name,) if row_type.get(name) is not None else tuple(name.split("."))
        field = _field(row_type, path)
        if field is None:
            raise no_column(name, row_type)
        if any(field.name == other.name for other in fields):
            raise InvalidArgument(f"column {field.name} is given more than once")
        fields.append(field)
        paths.append(path)
    return Projection(replace(row_type, fields=tuple(fields)), tuple(paths))


def _field(row_type: RowType, path: _Path) -> DataField | None:
    """Return the field at a path, named by it; None if there is none."""
    field = row_type.get(path[0])
    for name in path[1:]:
        if field is None or not isinstance(field.type, RowType):
            return None
        nullable = field.type.nullable
        field = field.type.get(name)
        if field is not None and nullable:
            field = replace(field, type=field.type.with_nullable(True))
    return None if field is None else replace(field, name="_".join(path))
