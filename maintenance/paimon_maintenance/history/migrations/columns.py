"""Columns that several migrations share; like these, they never change."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

ROW_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""The type of generated ids: SQLite generates them only for the type INTEGER."""

_TABLE: Final = ("warehouse", "table_name", "branch")

SUMMED: Final = (
    "event",
    "at_millis",
    "part_of",
    "warehouse",
    "job",
    "table_name",
    "status",
    "seconds",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
)
"""The columns of entries that sums over a period need."""


def table_key() -> list[sa.Column[str]]:
    """The columns that name a table, as the primary key."""
    return [sa.Column(name, sa.String(512), primary_key=True) for name in _TABLE]


def table_columns() -> list[sa.Column[str]]:
    """The same columns in a table with a key of its own."""
    return [sa.Column(name, sa.String(512), nullable=False) for name in _TABLE]
