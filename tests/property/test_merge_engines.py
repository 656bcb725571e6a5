"""First-row, aggregation and partial-update by columns against the same, record by record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.errors import CorruptTable
from paimon_core.lsm.chosen_engine import merge_engine_of
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.options import Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.types.data_types import DataType, RowType, TypeRoot
from tests import java_engines as java
from tests.merge_model import (
    BIGINT,
    INT,
    STRING,
    MergeFunction,
    Record,
    atomic,
    kv_batches,
    merge,
    nullable,
    record_runs,
    records_of,
    row_type,
)

KEY = INT.with_nullable(False)
SMALL = nullable(st.integers(-3, 3))


def table(fields: RowType, engine: str, options: Mapping[str, str]) -> TableSchema:
    return TableSchema(
        id=0,
        fields=fields.fields,
        highest_field_id=len(fields),
        primary_keys=("k",),
        options=Options({"merge-engine": engine, **options}),
    )


def check(
    data: st.DataObject,
    fields: RowType,
    values: Mapping[str, st.SearchStrategy[Any]],
    engine: str,
    options: Mapping[str, str],
    model: MergeFunction,
    *,
    kinds: tuple[int, ...],
) -> None:
    runs = data.draw(
        record_runs(
            fields,
            ["k"],
            {"k": st.integers(0, 3), **values},
            kinds=kinds,
            equal_sequences=False,
            repeats=data.draw(st.booleans()),
        )
    )
    drop = data.draw(st.booleans())
    size = data.draw(st.integers(1, 9))
    actual = records_of(
        merge_sorted(
            [kv_batches(run, fields, size) for run in runs],
            key=fields.project(["k"]),
            engine=merge_engine_of(table(fields, engine, options)).engine,
            drop_deletes=drop,
            buffered_rows=size,
        ),
        fields,
    )
    expected = merge(runs, ["k"], model, drop_deletes=drop)
    assert list(map(repr, actual)) == [repr(normal(r, fields)) for r in expected]


def normal(record: Record, fields: RowType) -> Record:
    return Record(record.sequence, record.kind, {f.name: record.values[f.name] for f in fields})


# --- first-row ------------------------------------------------------------------------------------


@given(st.data())
def test_first_row(data: st.DataObject) -> None:
    fields = row_type(k=KEY, v=STRING)
    check(
        data,
        fields,
        {"v": nullable(st.text(max_size=2))},
        "first-row",
        {"ignore-delete": "true"},
        java.first_row(),
        kinds=(0, 2, 3),
    )


# --- aggregation ----------------------------------------------------------------------------------

DECIMAL = atomic(TypeRoot.DECIMAL, precision=4, scale=1)
WIDE = atomic(TypeRoot.DECIMAL, precision=30, scale=2)
TINYINT = atomic(TypeRoot.TINYINT)
SMALLINT = atomic(TypeRoot.SMALLINT)
FLOAT = atomic(TypeRoot.FLOAT)
DOUBLE = atomic(TypeRoot.DOUBLE)
BOOLEAN = atomic(TypeRoot.BOOLEAN)

floats = st.floats(width=32, allow_nan=False) | st.sampled_from(
    [-0.0, 0.0, math.inf, float(np.float32(0.1))]
)
bigints = st.integers(-(2**63), 2**63 - 1)
texts = st.sampled_from(["", "a", "ab", "b", "ä", "\U0001f600", "\uffff"])


def greatest(a: Any, b: Any) -> Any:
    return b if order(a) < order(b) else a


def least(a: Any, b: Any) -> Any:
    return b if order(a) > order(b) else a


def order(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return value


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**digits - 1
    return st.integers(-bound, bound).map(lambda i: Decimal(f"{i}e-{scale}"))


# name of the test -> type, values, function name, model; with retractions where Java has them
RETRACTABLE: dict[str, tuple[DataType, Any, str, java.Aggregator]] = {
    "sum tinyint": (TINYINT, st.integers(-128, 127), "sum", java.int_sum(8)),
    "sum smallint": (SMALLINT, st.integers(-(2**15), 2**15 - 1), "sum", java.int_sum(16)),
    "sum int": (INT, st.integers(-(2**31), 2**31 - 1), "sum", java.int_sum(32)),
    "sum bigint": (BIGINT, bigints, "sum", java.int_sum(64)),
    "sum float": (FLOAT, floats, "sum", java.float_sum(np.float32)),
    "sum double": (DOUBLE, floats, "sum", java.float_sum(np.float64)),
    "sum decimal": (DECIMAL, decimals(4, 1), "sum", java.decimal_sum(4)),
    "sum wide decimal": (WIDE, decimals(28, 2), "sum", java.decimal_sum(30)),
    "sum small wide decimal": (WIDE, decimals(3, 2), "sum", java.decimal_sum(30)),
    "product int": (INT, st.integers(1, 9), "product", java.int_product(32)),
    "product tinyint": (TINYINT, st.integers(-9, -1), "product", java.int_product(8)),
    "last_value": (STRING, texts, "last_value", java.LastValue()),
    "last_non_null_value": (INT, st.integers(), "last_non_null_value", java.LastNonNull()),
}
RETRACTABLE["last_non_null_value"] = (
    INT,
    st.integers(0, 9),
    "last_non_null_value",
    java.LastNonNull(),
)
ADDING: dict[str, tuple[DataType, Any, str, java.Aggregator]] = {
    "product bigint": (BIGINT, bigints, "product", java.int_product(64)),
    "max int": (INT, st.integers(-5, 5), "max", java.Simple(greatest)),
    "min bigint": (BIGINT, bigints, "min", java.Simple(least)),
    "max double": (DOUBLE, floats, "max", java.Simple(greatest)),
    "min float": (FLOAT, floats, "min", java.Simple(least)),
    "max string": (STRING, texts, "max", java.Simple(greatest)),
    "min string": (STRING, texts, "min", java.Simple(least)),
    "min decimal": (WIDE, decimals(28, 2), "min", java.Simple(least)),
    "bool_or": (BOOLEAN, st.booleans(), "bool_or", java.Simple(lambda a, b: a or b)),
    "bool_and": (BOOLEAN, st.booleans(), "bool_and", java.Simple(lambda a, b: a and b)),
    "first_value": (INT, st.integers(0, 9), "first_value", java.FirstValue()),
    "first_non_null_value": (
        INT,
        st.integers(0, 9),
        "first_non_null_value",
        java.FirstNonNull(),
    ),
    "first_not_null_value": (STRING, texts, "first_not_null_value", java.FirstNonNull()),
    "listagg": (STRING, texts, "listagg", java.listagg(";")),
}
FUNCTIONS = {**RETRACTABLE, **ADDING}


def fitting(value: int, width: int) -> int:
    """What Java 2.0 has in the place of `wrap`."""
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise OverflowError
    return value


OVERFLOWING = [n for n in FUNCTIONS if n.split()[-1] in ("tinyint", "smallint", "int", "bigint")]


@pytest.mark.parametrize("name", [n for n in OVERFLOWING if n.startswith(("sum", "product"))])
@given(st.data())
@settings(max_examples=examples(40))
def test_integers_that_overflow_are_an_error_in_2_0(name: str, data: st.DataObject) -> None:
    data_type, values, function, aggregator = FUNCTIONS[name]
    kinds = (0, 2, 3) if name in RETRACTABLE else (0, 2)
    fields = row_type(k=KEY, v=data_type)
    near = st.sampled_from([0, 1, -1, 2, -2])
    drawn = {"k": st.integers(0, 3), "v": nullable(values | near)}
    runs = data.draw(record_runs(fields, ["k"], drawn, kinds=kinds, equal_sequences=False))
    schema = table(fields, "aggregation", {"fields.v.aggregate-function": function})
    engine = merge_engine_of(schema, rules=JavaRules.JAVA_2_0).engine

    def merged() -> list[Record]:
        batches = [kv_batches(run, fields, 5) for run in runs]
        key = fields.project(["k"])
        return records_of(merge_sorted(batches, key=key, engine=engine, drop_deletes=False), fields)

    model = java.aggregation({"k": java.PrimaryKey(), "v": aggregator})
    with patch.object(java, "wrap", fitting):
        try:
            expected = merge(runs, ["k"], model, drop_deletes=False)
        except (OverflowError, ZeroDivisionError):
            with pytest.raises(CorruptTable):
                merged()
            return
    assert list(map(repr, merged())) == [repr(normal(r, fields)) for r in expected]


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mode", ["plain", "remove", "ignore"])
@given(data=st.data())
@settings(max_examples=examples(15))
def test_aggregation(name: str, mode: str, data: st.DataObject) -> None:
    data_type, values, function, aggregator = FUNCTIONS[name]
    fields = row_type(k=KEY, v=data_type)
    options = {
        "fields.v.aggregate-function": function,
        "fields.v.list-agg-delimiter": ";",
    }
    kinds: tuple[int, ...] = (0, 0, 2, 1, 3) if name in RETRACTABLE else (0, 2)
    model = {"k": java.PrimaryKey(), "v": aggregator}
    if mode == "remove":
        options["aggregation.remove-record-on-delete"] = "true"
        kinds = (*kinds, 3)
    elif mode == "ignore":
        options["fields.v.ignore-retract"] = "true"
        kinds = (0, 2, 1, 3)
        model["v"] = java.IgnoreRetract(aggregator)
    check(
        data,
        fields,
        {"v": nullable(values)},
        "aggregation",
        options,
        java.aggregation(model, remove_on_delete=mode == "remove"),
        kinds=kinds,
    )


# --- partial-update -------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["plain", "ignore", "remove"])
@given(data=st.data())
def test_partial_update(mode: str, data: st.DataObject) -> None:
    fields = row_type(k=KEY, a=INT, b=STRING, c=INT)
    options = {
        "plain": {},
        "ignore": {"ignore-delete": "true"},
        "remove": {"partial-update.remove-record-on-delete": "true"},
    }[mode]
    check(
        data,
        fields,
        {"a": SMALL, "b": nullable(texts), "c": SMALL},
        "partial-update",
        options,
        java.PartialUpdate(
            fields.names, ignore_delete=mode == "ignore", remove_on_delete=mode == "remove"
        ),
        kinds=(0, 2) if mode == "plain" else (0, 2, 1, 3),
    )


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["plain", "ignore", "remove one", "remove both"])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_sequence_groups(mode: str, data: st.DataObject) -> None:
    # Fields in an order in which sequence fields come before and after what they order.
    fields = row_type(a=INT, k=KEY, s1=INT, b=INT, c=STRING, s2=INT, s3=STRING, d=INT, e=INT)
    groups = {("s1",): ["a", "b"], ("s2", "s3"): ["c", "d"]}
    removing = {"remove one": ["s1"], "remove both": ["s1", "s3"]}.get(mode, [])
    options = {"fields.s1.sequence-group": "a,b", "fields.s2,s3.sequence-group": "c,d"}
    if removing:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(removing)
    if mode == "ignore":
        options["ignore-delete"] = "true"
    values = {n: SMALL for n in fields.names if n != "k"}
    values |= {"c": nullable(texts), "s3": nullable(st.sampled_from(["", "a", "b"]))}
    check(
        data,
        fields,
        values,
        "partial-update",
        options,
        java.PartialUpdate(
            fields.names, groups=groups, ignore_delete=mode == "ignore", remove_on_groups=removing
        ),
        kinds=(0, 0, 2, 1, 3),
    )


AGGREGATED = {
    name: FUNCTIONS[name]
    for name in (
        "sum int",
        "sum double",
        "sum decimal",
        "product int",
        "last_value",
        "last_non_null_value",
        "max string",
        "min bigint",
        "bool_or",
        "first_value",
        "first_non_null_value",
        "listagg",
    )
}


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", AGGREGATED)
@pytest.mark.parametrize("mode", ["plain", "ignore retract", "remove"])
@given(data=st.data())
@settings(max_examples=examples(20))
def test_aggregates_in_sequence_groups(name: str, mode: str, data: st.DataObject) -> None:
    data_type, values, function, aggregator = AGGREGATED[name]
    fields = row_type(k=KEY, v=data_type, s=INT, w=INT)
    options = {
        "fields.s.sequence-group": "v,w",
        "fields.v.aggregate-function": function,
        "fields.v.list-agg-delimiter": ";",
    }
    kinds: tuple[int, ...] = (0, 2, 1, 3)
    model: java.Aggregator = aggregator
    if mode == "ignore retract":
        options["fields.v.ignore-retract"] = "true"
        model = java.IgnoreRetract(aggregator)
    elif name not in RETRACTABLE:
        kinds = (0, 2)
    if mode == "remove":
        options["partial-update.remove-record-on-sequence-group"] = "s"
        kinds = (*kinds, 3) if name in RETRACTABLE else (0, 2)
    check(
        data,
        fields,
        {"v": nullable(values), "s": SMALL, "w": SMALL},
        "partial-update",
        options,
        java.PartialUpdate(
            fields.names,
            groups={("s",): ["v", "w"]},
            aggregators={"v": model},
            remove_on_groups=["s"] if mode == "remove" else [],
        ),
        kinds=kinds,
    )
