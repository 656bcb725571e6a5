"""Apache Paimon tables in Python: `open_catalog` is the way in (docs/library.md).

The names below are those of `paimon_core.api`.  They are loaded when they are first used, so that
importing a module of the core stays cheap.
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
