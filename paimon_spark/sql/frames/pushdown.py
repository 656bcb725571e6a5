"""Conditions of a query that its tables can use to leave out files and rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from paimon_core.errors import InvalidArgument, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import And, Or, Predicate, conjunction, fields_of, parse_where
from paimon_core.scan.scan import partition_condition, scan_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.format.format_table import FormatTable
from paimon_core.types.data_types import INTEGER_TYPES, TypeRoot
from paimon_spark.sql.frames.literals import compared_alike, has_exponent

COMPARED_BY_SPARK = frozenset({TypeRoot.CHAR, TypeRoot.TIMESTAMP_LTZ})
"""Spark pads literals of CHAR, and reads those of the other type in the session's time zone."""
_EXACT = frozenset({*INTEGER_TYPES, TypeRoot.DECIMAL})
"""Numbers that Spark compares as DOUBLE with a literal that has an exponent."""
_FULL_SCAN = "read.allow.fullScan"
_DATE = re.compile(r"'\d{4}-\d{2}-\d{2}'")


def conditions_of(table: exp.Table) -> list[str]:
    """The conditions that the SELECT has on this table alone, joined by AND.

    A row that does not meet them cannot change the answer.  So they are those of WHERE, unless an
    outer join makes rows without the table's, and those of the table's own JOIN ... ON.
    """
    source = table.parent
    select = None if source is None else source.parent
    if not isinstance(source, exp.From | exp.Join) or not isinstance(select, exp.Select):
        return []
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return []
    if select.args.get("laterals") or table.args.get("sample") or table.args.get("pivots"):
        return []
    joins = select.args.get("joins") or []
    if any(j.side in ("RIGHT", "FULL") or j.method for j in joins):
        return []
    found: list[exp.Expr] = []
    where = select.args.get("where")
    if where is not None and (isinstance(source, exp.From) or _is_inner(source)):
        found += _conjuncts(where.this)
    if isinstance(source, exp.Join) and source.args.get("on"):
        found += _conjuncts(source.args["on"])
    others = [s.this for s in (select.args.get("from_") or select.args.get("from"), *joins) if s]
    databases = {table.db.lower()} - {o.alias_or_name.lower() for o in others}
    name = table.alias_or_name.lower()
    try:
        return [_bare(c).sql("spark") for c in found if _is_about(c, name, databases)]
    except RecursionError:
        return []  # sqlglot cannot write what is nested this deeply


def _is_inner(join: exp.Join) -> bool:
    return not join.side and join.kind in ("", "INNER", "CROSS")


def _is_about(condition: exp.Expr, name: str, databases: Collection[str]) -> bool:
    """Whether all columns of the condition may be of this table, and none is a field of a struct.

    `a.b.c` is a column only if `a` is the database of the table.

    A column without a table is this one's if it has such a column, as names of the inner query hide
    those of the outer one, and Spark refuses what two tables of a query have.
    """
    if condition.find(exp.Query) is not None:
        return False
    return all(
        c.table.lower() in ("", name) and not c.catalog and (not c.db or c.db.lower() in databases)
        for c in condition.find_all(exp.Column)
    )


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    left = [node]  # there may be thousands, each within the next one
    while left:
        node = left.pop()
        if isinstance(node, exp.And):
            left += [node.right, node.left]
        elif isinstance(node, exp.Paren):
            left.append(node.this)
        else:
            yield node


def _bare(node: exp.Expr) -> exp.Expr:
    """The condition without table names before columns, and with DATE literals."""

    def bare(n: exp.Expr) -> exp.Expr:
        if isinstance(n, exp.Column) and n.table:
            return exp.column(n.this.copy())
        if isinstance(n, exp.Cast) and n.is_type("date") and _DATE.fullmatch(n.this.sql("spark")):
            return exp.Var(this=f"DATE {n.this.sql('spark')}")
        return n

    return node.transform(bare)


def pushed(table: FileStoreTable | FormatTable, conditions: Sequence[str]) -> Predicate | None:
    """The conditions that the table understands as Spark does; None if there is none."""
    found = [p for p in (plain_condition(table, c) for c in conditions) if p is not None]
    return conjunction(found) if found else None


def plain_condition(table: FileStoreTable | FormatTable, condition: str) -> Predicate | None:
    """The condition as a predicate, None if Spark alone can decide it.

    A backslash begins an escape in Spark's texts, and a double quote a text; `parse_where` reads
    the one as it is and the other as the begin of a name.
    """
    if "\\" in condition or '"' in condition:
        return None
    try:
        predicate = parse_where(condition, table.schema.row_type, accepts=compared_alike)
    except (PaimonError, pa.ArrowException, ValueError, TypeError, RecursionError):
        return None
    if _compares_zero(predicate):
        return None
    fields = fields_of(predicate)
    roots = {f.type.root for f in table.schema.fields if f.name in fields}
    if roots & COMPARED_BY_SPARK or (roots & _EXACT and has_exponent(condition)):
        return None
    return predicate


def _compares_zero(predicate: Predicate) -> bool:
    """Whether it compares with 0.0, which only Spark treats as equal to -0.0."""
    match predicate:
        case And(children) | Or(children):
            return any(map(_compares_zero, children))
    return any(isinstance(v, float) and v == 0 for v in predicate.literals)


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
