"""A catalog of folders that keeps format tables in memory, as a REST server does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.format_tables import FormatTables
from paimon_core.ddl.schema_change import RemoveOption, SchemaChange, SetOption
from paimon_core.errors import AlreadyExists, NotFound, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.local import LocalFileIO
from paimon_core.names import Boundary
from paimon_core.options import PATH, Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import FormatTable, check_format_table
from paimon_core.table.format.registered import check_may_keep, keeps_partitions
from paimon_spark.sql.session import SqlSession


@dataclass
class KeptPartitions:
    """`FormatPartitions` in memory, as the server of Paimon 2.0 keeps them."""

    known: list[dict[str, str]] = field(default_factory=list)

    def specs(self) -> list[dict[str, str]]:
        return list(self.known)

    def add(self, specs: Sequence[Mapping[str, str]], *, if_not_exists: bool) -> None:
        if not if_not_exists and any(spec in self.known for spec in specs):
            raise AlreadyExists("a partition already exists")
        self.known += (dict(spec) for spec in specs if spec not in self.known)

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        self.known = [spec for spec in self.known if spec not in specs]


@dataclass
class KeptFormatTables:
    """`FormatTables` in memory; managed tables have folders beside those of other tables."""

    folder: Path
    tables: dict[str, FormatTable] = field(default_factory=dict)
    partitions: dict[str, KeptPartitions] = field(default_factory=dict)

    def names(self, database: str) -> list[str]:
        return sorted(n.partition(".")[2] for n in self.tables if n.startswith(f"{database}."))

    def find(self, identifier: str) -> FormatTable | None:
        found = self.tables.get(identifier)
        if found is None or not keeps_partitions(found.schema):
            return found
        return replace(found, registered=self.partitions.setdefault(identifier, KeptPartitions()))

    def create(self, identifier: str, schema: TableSchema) -> None:
        check_format_table(schema)
        check_may_keep(identifier, schema, external=schema.options.value(PATH) is not None)
        if identifier in self.tables:
            raise AlreadyExists(f"table {identifier} already exists")
        path = schema.options.value(PATH)
        root = path or f"{self.folder}/{identifier.replace('.', '.db/')}"
        options = {k: v for k, v in schema.options.items() if k != PATH.key}
        self.tables[identifier] = FormatTable(
            name=identifier,
            schema=replace(schema, options=Options(options)),
            location=root,
            io=ConfinedFileIO(LocalFileIO(), Boundary(root)),
            root=root,
            external=path is not None,
        )

    def alter(self, identifier: str, changes: Sequence[SchemaChange]) -> None:
        table = self.tables[identifier]
        options: dict[str, str | None] = {}
        for change in changes:
            match change:
                case SetOption(key, value):
                    options[key] = value
                case RemoveOption(key):
                    options[key] = None
                case _:
                    raise AssertionError(change)
        self.tables[identifier] = replace(table, schema=table.schema.with_options(options))

    def rename(self, identifier: str, new_identifier: str) -> None:
        self.tables[new_identifier] = replace(self.tables.pop(identifier), name=new_identifier)

    def drop(self, identifier: str) -> None:
        if identifier not in self.tables:
            raise NotFound(f"table {identifier} does not exist")
        table = self.tables.pop(identifier)
        if not table.external:
            LocalFileIO().delete_dir(table.root)


class FolderCatalog:
    """A filesystem catalog with format tables."""

    def __init__(self, folder: Path) -> None:
        self._plain = FileSystemCatalog(str(folder))
        self.format_tables: FormatTables = KeptFormatTables(folder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def get_table(self, identifier: str, **arguments: Any) -> FileStoreTable:
        if self.format_tables.find(identifier) is not None:
            raise UnsupportedFeature("type=format-table", table=identifier)
        return self._plain.get_table(identifier, **arguments)


def session_with_formats(folder: Path, spark: Any = None) -> SqlSession:
    """A session over a new catalog of this kind."""
    catalog: Any = FolderCatalog(folder)

    def start() -> Any:
        assert spark is not None, "this statement needs no Spark"
        return spark

    return SqlSession(
        warehouse=str(folder), start_spark=start, open_catalog=lambda *_, **__: catalog
    )
