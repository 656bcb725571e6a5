"""The result of a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """Column names and rows of JSON values (`paimon_spark.sql.values`); empty for plain DDL.

    `types` are those of columns that a DataFrame of the rows cannot tell from their values.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = field(default_factory=tuple)
    types: Mapping[str, str] = field(default_factory=dict)


NOTHING = Result()
