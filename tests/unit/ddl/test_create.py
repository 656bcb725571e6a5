"""Schemas of new tables."""

from __future__ import annotations

import pytest

from paimon_core.ddl.create import Column, create_schema
from paimon_core.errors import SchemaError


def test_a_repeated_column_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="the column k is given more than once"):
        create_schema([Column("k", "INT"), Column("k", "STRING")], now_millis=1)
