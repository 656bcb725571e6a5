"""Filters on a table of all types: the rows that Java keeps are the rows that we keep."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from oracle import Oracle
from paimon_core.predicate import evaluate, from_oracle_filter
from paimon_core.types.arrow import column_from_internal
from paimon_core.types.data_types import RowType, TypeRoot
from paimon_core.types.json_values import from_json_value
from paimon_core.types.sql import field_from_json

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


def some_filter(
    r: random.Random, row_type: RowType, rows: list[list[Any]], *, unsigned: bool
) -> dict[str, Any]:
    """A filter that meets some of the rows; `unsigned`: bytes may be compared by order.

    Filters of 1.4.2 compare bytes as signed numbers, those of 2.0.0 (and keys everywhere) do not.
    """
    if r.random() < 0.3:
        children = [
            some_filter(r, row_type, rows, unsigned=unsigned) for _ in range(r.randrange(1, 4))
        ]
        return {r.choice(["and", "or"]): children}
    at = r.randrange(len(row_type))
    field = row_type.fields[at]
    pool = [row[at] for row in rows if row[at] is not None]
    if field.type.root in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW) or not pool:
        return {"field": field.name, "op": r.choice(["isNull", "isNotNull"])}

    def literal() -> Any:
        value = r.choice(pool)
        return "-0.0" if isinstance(value, float) and str(value) == "-0.0" else value

    ops = [*COMPARISONS, "in", "between", "isNull", "startsWith"]
    if field.type.root in (TypeRoot.BINARY, TypeRoot.VARBINARY) and not unsigned:
        ops = ["=", "<>", "in", "isNull"]
    op = r.choice(ops)
    if op == "startsWith":
        if field.type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
            op = "="
        else:
            return {"field": field.name, "op": op, "value": literal()[: r.randrange(3)]}
    value: Any = literal()
    if op == "in":
        value = [literal() for _ in range(r.randrange(1, 25))]
    elif op == "between":
        value = [literal(), literal()]
    return {"field": field.name, "op": op, "value": value}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["types_append_parquet", "types_append_avro", "types_pk_parquet"])
def test_random_filters(oracle: Oracle, golden: Callable[..., Any], name: str) -> None:
    table = golden(name, oracle.version)
    schema = table.expected["schemas"][-1]
    row_type = RowType(fields=tuple(map(field_from_json, schema["fields"])))
    where = {"warehouse": str(table.warehouse), "database": "db", "table": "t"}
    rows = [row[1:] for row in oracle.rows(**where)]
    held = {
        f.name: column_from_internal([from_json_value(row[i], f.type) for row in rows], f.type)
        for i, f in enumerate(row_type.fields)
    }
    batch = pa.record_batch(held)
    r = random.Random(name)
    for _ in range(40):
        chosen = some_filter(r, row_type, rows, unsigned=oracle.version != "1.4.2")
        answer = [row[1:] for row in oracle.rows(**where, filter=chosen)]
        mask = evaluate(from_oracle_filter(chosen, row_type), batch).to_pylist()
        ours = [row for row, keep in zip(rows, mask, strict=True) if keep]
        assert answer == ours, chosen
