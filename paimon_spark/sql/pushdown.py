"""Conditions of a query that its tables can use to leave out files and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import Predicate, conjunction, fields_of, parse_where
from paimon_core.scan.scan import partition_condition, scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import TypeRoot

COMPARED_BY_SPARK = frozenset({TypeRoot.CHAR, TypeRoot.TIMESTAMP_LTZ})
"""Spark pads literals of the one, and reads those of the other on the session's clock."""
_FULL_SCAN = "read.allow.fullScan"


def conditions_of(table: exp.Table) -> list[str]:
    """The conditions, joined by AND, of the one SELECT that reads this table and no other."""
    source = table.parent
    select = None if source is None else source.parent
    if not isinstance(source, exp.From) or not isinstance(select, exp.Select):
        return []
    if select.args.get("joins") or select.args.get("laterals") or not select.args.get("where"):
        return []
    return [_bare(c).sql("spark") for c in _conjuncts(select.args["where"].this)]


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    elif isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    else:
        yield node


def _bare(node: exp.Expr) -> exp.Expr:
    """The condition without the table before its columns."""
    return node.transform(
        lambda n: exp.column(n.this.copy()) if isinstance(n, exp.Column) and n.table else n
    )


def pushed(table: FileStoreTable, conditions: Sequence[str]) -> Predicate | None:
    """The conditions that the table understands as Spark does; None if there is none."""
    found = [p for p in (plain_condition(table, c) for c in conditions) if p is not None]
    return conjunction(found) if found else None


def plain_condition(table: FileStoreTable, condition: str) -> Predicate | None:
    """The condition as a predicate, None if Spark alone can decide it."""
    try:
        predicate = parse_where(condition, table.schema.row_type)
    except (PaimonError, pa.ArrowException, ValueError, TypeError):
        return None
    fields = fields_of(predicate)
    roots = {f.type.root for f in table.schema.fields if f.name in fields}
    return None if roots & COMPARED_BY_SPARK else predicate


def check_full_scan(table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None) -> None:
    """InvalidArgument under `read.allow.fullScan` = false if the query reads all partitions.

    Java: `PaimonBaseScan`.
    """
    if table.options.get(_FULL_SCAN, "true").lower() != "false" or not table.schema.partition_keys:
        return
    everything = {e.partition for e in scan_files(table, snapshot)}
    condition = partition_condition(table, predicate)
    if condition is not None:
        chosen = {e.partition for e in scan_files(table, snapshot, predicate=condition)}
        if chosen < everything:
            return
    raise InvalidArgument(
        "Full scan is not supported.",
        table=table.name,
        next_step=f"select some of the partitions, or reset {_FULL_SCAN}",
    )
