"""Format tables of a REST catalog: the server keeps their columns and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from paimon_core.catalog.rest.format_partitions import RestFormatPartitions
from paimon_core.catalog.rest.payloads import audit_of, changes_json, identifier_json, schema_json
from paimon_core.catalog.table_files import with_table_defaults
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.errors import AlreadyExists, StorageError
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.names import Boundary, checked_text, checked_texts, optional_text
from paimon_core.options import PATH, Options
from paimon_core.remote.rest_client import ResourceNotFound, RestClient, reading
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.format_table import (
    FORMAT_TABLE,
    FormatTable,
    check_format_table,
    is_format_table,
)
from paimon_core.table.format.registered import check_may_keep, keeps_partitions
from paimon_core.table.open import split_identifier
from paimon_core.types.sql import field_from_json


class _Catalog(Protocol):
    """What `RestFormatTables` needs of its catalog."""

    @property
    def client(self) -> RestClient: ...

    def details(self, database: str) -> dict[str, str]: ...

    def storage(self, identifier: str, path: str, *, external: bool) -> tuple[FileIO, str]: ...

    def rename_table(self, identifier: str, new_identifier: str) -> None: ...

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class RestFormatTables:
    """`FormatTables` of a REST catalog."""

    catalog: _Catalog

    def names(self, database: str) -> list[str]:
        """The names of the database's format tables, sorted."""
        found = self.catalog.details(database)
        return sorted(name for name, kind in found.items() if kind == FORMAT_TABLE)

    def find(self, identifier: str) -> FormatTable | None:
        """The format table; None if there is none of this name."""
        path = self._path(identifier)
        try:
            found = self.catalog.client.get(path)
        except ResourceNotFound:
            return None
        with reading(path):
            schema = _schema_of(found)
            location = checked_text(found["path"], "path")
            external = found.get("isExternal")
        if not is_format_table(schema):
            return None
        if not isinstance(external, bool | None):
            raise StorageError(
                f"the REST catalog does not say whether format table {identifier} is external",
                table=identifier,
            )
        io, root = self.catalog.storage(identifier, location, external=bool(external))
        return FormatTable(
            name=identifier,
            schema=schema,
            location=location,
            io=ConfinedFileIO(io, Boundary(root)),
            root=root,
            external=bool(external),
            registered=RestFormatPartitions(self.catalog.client, path)
            if keeps_partitions(schema)
            else None,
            catalog_properties=audit_of(found),
        )

    def create(self, identifier: str, schema: TableSchema) -> None:
        """Create the table, with the catalog's options `table-default.KEY`; as `FormatTables`."""
        wanted = with_table_defaults(schema, self.catalog.client.options)
        check_format_table(wanted)
        folder = wanted.options.value(PATH)
        check_may_keep(identifier, wanted, external=folder is not None)
        if folder is not None:
            io, root = open_file_io(folder, self.catalog.client.options)
            io.make_dirs(root)
        database, _ = split_identifier(identifier)
        body = {"identifier": identifier_json(identifier), "schema": schema_json(wanted)}
        try:
            self.catalog.client.post(
                self.catalog.client.path("databases", database, "tables"), body
            )
        except AlreadyExists as e:
            e.table = identifier
            raise

    def alter(self, identifier: str, changes: Sequence[SchemaChange]) -> None:
        """Change columns and options, as far as the server does that."""
        self.catalog.client.post(self._path(identifier), changes_json(changes))

    def rename(self, identifier: str, new_identifier: str) -> None:
        """Give the table another name; NotFound, AlreadyExists."""
        self.catalog.rename_table(identifier, new_identifier)

    def drop(self, identifier: str) -> None:
        """Delete the table; the server deletes its files unless it is external."""
        self.catalog.drop_table(identifier)

    def _path(self, identifier: str) -> str:
        database, table = split_identifier(identifier)
        return self.catalog.client.path("databases", database, "tables", table)


def _schema_of(found: Mapping[str, Any]) -> TableSchema:
    """The schema of an answer; one of `UNREADABLE` for anything else."""
    parts = found["schema"]
    fields = tuple(field_from_json(f) for f in parts.get("fields") or ())
    options = checked_texts(parts.get("options"), "options")
    options.pop(PATH.key, None)
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=max((f.id for f in fields), default=-1),
        partition_keys=tuple(checked_text(k, "key") for k in parts.get("partitionKeys") or ()),
        primary_keys=tuple(checked_text(k, "key") for k in parts.get("primaryKeys") or ()),
        options=Options(options),
        comment=optional_text(parts.get("comment"), "comment"),
    )
