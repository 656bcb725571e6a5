"""The merge by columns against the merge row by row: every key type, order and batch size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples

from paimon_core.lsm.engines.deduplicate import Deduplicate
from paimon_core.lsm.tree.sort_merge import merge_sorted
from paimon_core.types.data_types import RowType, TypeRoot
from tests.merge_model import (
    INT,
    KEY_VALUES,
    STRING,
    Record,
    atomic,
    deduplicate,
    kv_batches,
    merge,
    nullable,
    record_runs,
    records_of,
    row_type,
)


def merged(
    runs: list[list[Record]], fields: RowType, key: list[str], *, size: int, **options: Any
) -> list[Record]:
    ignore_delete = options.pop("ignore_delete", False)
    return records_of(
        merge_sorted(
            [kv_batches(run, fields, size) for run in runs],
            key=fields.project(key),
            engine=Deduplicate(ignore_delete=ignore_delete),
            buffered_rows=size,
            **options,
        ),
        fields,
    )


def same(a: list[Record], b: list[Record]) -> bool:
    return repr(a) == repr(b)  # NaN equals NaN in print


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KEY_VALUES)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_one_key_column(kind: str, data: st.DataObject) -> None:
    key_type, values = KEY_VALUES[kind]
    fields = row_type(k=key_type, v=STRING)
    runs = data.draw(
        record_runs(fields, ["k"], {"k": values, "v": nullable(st.text(max_size=3))}, repeats=True)
    )
    size = data.draw(st.integers(1, 9))
    assert same(merged(runs, fields, ["k"], size=size), merge(runs, ["k"], deduplicate()))


@given(data=st.data())
@settings(max_examples=examples(60))
def test_two_key_columns(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KEY_VALUES)), min_size=2, max_size=3))
    names = [f"k{i}" for i in range(len(kinds))]
    fields = row_type(**{n: KEY_VALUES[k][0] for n, k in zip(names, kinds, strict=True)}, v=INT)
    values = {n: KEY_VALUES[k][1] for n, k in zip(names, kinds, strict=True)}
    runs = data.draw(record_runs(fields, names, {**values, "v": st.integers(0, 9)}))
    size = data.draw(st.integers(1, 9))
    assert same(merged(runs, fields, names, size=size), merge(runs, names, deduplicate()))


@given(data=st.data())
@settings(max_examples=examples(60))
def test_sequence_fields_deletes_and_directions(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KEY_VALUES)), max_size=2))
    names = [f"s{i}" for i in range(len(kinds))]
    sequence = {n: KEY_VALUES[k] for n, k in zip(names, kinds, strict=True)}
    fields = row_type(
        k=INT.with_nullable(False),
        **{n: t.with_nullable(True) for n, (t, _) in sequence.items()},
        v=INT,
    )
    values = {n: nullable(v) for n, (_, v) in sequence.items()}
    runs = data.draw(
        record_runs(
            fields,
            ["k"],
            {"k": st.integers(0, 4), **values, "v": st.integers(0, 9)},
            kinds=(0, 2, 1, 3),
            repeats=data.draw(st.booleans()),
        )
    )
    ignore_delete = data.draw(st.booleans())
    options: dict[str, Any] = {
        "sequence_fields": names,
        "descending": data.draw(st.booleans()),
        "drop_deletes": data.draw(st.booleans()),
    }
    actual = merged(
        runs,
        fields,
        ["k"],
        size=data.draw(st.integers(1, 9)),
        ignore_delete=ignore_delete,
        **options,
    )
    assert same(actual, merge(runs, ["k"], deduplicate(ignore_delete=ignore_delete), **options))


@given(data=st.data())
@settings(max_examples=examples(25))
def test_nullable_key(data: st.DataObject) -> None:
    fields = row_type(a=STRING, b=atomic(TypeRoot.INT))
    values = {"a": nullable(KEY_VALUES["string"][1]), "b": nullable(st.integers(0, 3))}
    runs = data.draw(record_runs(fields, ["a", "b"], values))
    size = data.draw(st.integers(1, 9))
    actual = merged(runs, fields, ["a", "b"], size=size)
    assert same(actual, merge(runs, ["a", "b"], deduplicate()))
