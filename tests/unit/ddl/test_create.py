"""Schemas of new tables."""

from __future__ import annotations

import pytest

from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import SchemaError


def test_a_repeated_column_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="the column k is given more than once"):
        create_schema([Column("k", "INT"), Column("k", "STRING")], now_millis=1)


def test_only_the_last_sequence_field_may_be_empty() -> None:
    def create(sequence: str) -> None:
        columns = [Column(name, "INT") for name in ("k", "v", "w")]
        options = {"sequence.field": sequence, "bucket": "1"}
        create_schema(columns, now_millis=1, primary_keys=["k"], options=options)

    create("v,")
    for sequence in ("v,,w", ",v"):
        with pytest.raises(SchemaError, match="the sequence field '' is not a column"):
            create(sequence)
