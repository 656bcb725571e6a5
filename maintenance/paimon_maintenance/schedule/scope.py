"""The tables of a lake that one call of the scheduler works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.policy.model import EnginePolicy
from paimon_maintenance.storage.catalogs import open_table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The tables of a round, how to open them, and the engine that was typed or configured."""

    warehouse: str
    tables: tuple[str, ...]
    branch: str | None = None
    storage: Mapping[str, str] | None = None
    engine: EnginePolicy = field(default_factory=EnginePolicy)
    default_engine: EnginePolicy = field(default_factory=EnginePolicy)

    def open(self, name: str) -> FileStoreTable:
        """The table under its newest schema."""
        return open_table_of(self.warehouse, name, branch=self.branch, file_io_options=self.storage)
