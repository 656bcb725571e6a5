"""Partitions of format tables that the catalog keeps (Java: `table/format/CatalogSplitEnumerator`).

With `metastore.partitioned-table`, a REST catalog says which partitions a table has: rows in other
folders do not count.  Whoever writes a partition registers it.  Since Paimon 2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.options import PARTITIONED_TABLE
from paimon_core.schema.table_schema import TableSchema

IMPLEMENTATION: Final = "format-table.implementation"


class FormatPartitions(Protocol):
    """The partitions of one table.  A spec maps each partition column to the text of its folder."""

    def specs(self) -> list[dict[str, str]]:
        """All partitions."""

    def add(self, specs: Sequence[Mapping[str, str]], *, if_not_exists: bool) -> None:
        """Register partitions; AlreadyExists, and no change, for an existing one if not allowed."""

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Unregister the partitions that exist; folders stay."""


def keeps_partitions(schema: TableSchema) -> bool:
    """Whether a catalog that can keeps the partitions of this format table."""
    return bool(schema.partition_keys) and schema.options.value(PARTITIONED_TABLE)


def check_may_keep(identifier: str, schema: TableSchema, *, external: bool) -> None:
    """InvalidArgument if the options ask for what Java refuses.

    Java: `CatalogUtils.validateCatalogManagedFormatTablePartitions`.
    """
    if not schema.options.value(PARTITIONED_TABLE):
        return
    option = f"{PARTITIONED_TABLE.key}=true"
    wrong = None
    if schema.options.get(IMPLEMENTATION, "").lower() == "engine":
        wrong = (
            f"Cannot combine catalog-managed partitions ({option}) with {IMPLEMENTATION}=engine: the "
            "engine implementation reads the table directory itself."
        )
    elif external:
        wrong = (
            "Catalog-managed partitions are only supported for internal tables, but format table "
            f"{identifier} is external."
        )
    if wrong is not None:
        raise InvalidArgument(
            wrong,
            table=identifier,
            next_step=f"ALTER TABLE ... UNSET TBLPROPERTIES ('{PARTITIONED_TABLE.key}')",
        )


def texts_of(
    table: str, keys: Sequence[str], specs: Iterable[Mapping[str, str]]
) -> frozenset[tuple[str, ...]]:
    """The texts of the folders of partitions; CorruptTable for other columns."""
    found: set[tuple[str, ...]] = set()
    for spec in specs:
        if spec.keys() != set(keys):
            raise CorruptTable(
                f"the catalog returned a partition of format table {table} with the columns "
                f"({', '.join(spec)}) in place of ({', '.join(keys)})",
                table=table,
                next_step="correct the partitions in the catalog",
            )
        found.add(tuple(spec[k] for k in keys))
    return frozenset(found)
