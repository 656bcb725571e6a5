"""Apache Paimon tables in Python.  Start with `open_catalog`; docs/library.md has examples.

This module exports the main names of `paimon_core.api`.  It imports them on first use, because
importing a module of the core must stay cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from paimon_core.api import (
        Catalog,
        PredicateBuilder,
        Schema,
        SchemaChange,
        Table,
        open_catalog,
    )

__all__ = ["Catalog", "PredicateBuilder", "Schema", "SchemaChange", "Table", "open_catalog"]

_API: Final = "paimon_core.api"


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = vars(import_module(_API))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
