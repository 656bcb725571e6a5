"""The REST catalog: a server that owns databases, tables and commits (Java: `rest/RESTCatalog`).

The API is that of Paimon 1.4.2.  Schemas, snapshots, tags and data are files that the server and
its clients share; the server alone creates schemas and snapshots.  Tables that it does not manage
("external") are committed to in their files, as in Java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from paimon_core.catalog.catalog import Database, OtherObject, Partition, Watch
from paimon_core.catalog.maintained import maintained_jobs
from paimon_core.catalog.partitions import partitions_of_files
from paimon_core.catalog.rest.commit import RestSnapshotCommit
from paimon_core.catalog.rest.format_tables import RestFormatTables
from paimon_core.catalog.rest.payloads import (
    audit_of,
    changes_json,
    identifier_json,
    object_name,
    partition_of,
    schema_json,
)
from paimon_core.catalog.rest.token_io import DATA_TOKEN_ENABLED, TokenFileIO
from paimon_core.catalog.rest.version_management import RestVersions
from paimon_core.catalog.rest.views import RestViews
from paimon_core.catalog.table_files import TableFiles, with_table_defaults
from paimon_core.ddl.create import normalized
from paimon_core.ddl.schema_change import SchemaChange, SetOption, change_from_object
from paimon_core.ddl.validation import validate_schema
from paimon_core.errors import (
    AlreadyExists,
    CatalogError,
    CorruptTable,
    InvalidArgument,
    NotFound,
    StorageAccessDenied,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.names import checked_texts, optional_text, shown
from paimon_core.options import PATH, TYPES_WITH_SNAPSHOTS, Options, parse_bool
from paimon_core.remote.rest_client import ResourceNotFound, RestClient, name_of, reading
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.open import check_new_name, open_table_at, split_identifier

_LOOKS: Final = 3
"""How often to look again for a schema that changes while the table is opened."""


@dataclass(frozen=True, slots=True)
class RestCatalog:
    """Databases and tables of a REST server."""

    client: RestClient

    @classmethod
    def connect(cls, options: Mapping[str, str]) -> RestCatalog:
        """The catalog, with the options that the server adds."""
        return cls(RestClient.connect(options))

    @property
    def options(self) -> Mapping[str, str]:
        return self.client.options

    @property
    def metastore(self) -> str:
        return "rest"

    @property
    def views(self) -> RestViews:
        """The views of the catalog."""
        return RestViews(self.client)

    @property
    def format_tables(self) -> RestFormatTables:
        """The format tables of the catalog."""
        return RestFormatTables(self)

    @property
    def maintained_jobs(self) -> frozenset[str]:
        return maintained_jobs(self.options)

    # --- databases ---

    def list_databases(self) -> list[str]:
        """The names of all databases, sorted."""
        return sorted(self.client.pages(self.client.path("databases"), "databases"))

    def get_database(self, database: str) -> Database:
        """The database with its properties; NotFound if it does not exist."""
        path = self.client.path("databases", database)
        answer = self.client.get(path)
        with reading(path):
            return Database(
                name=database,
                location=optional_text(answer.get("location"), "location"),
                properties={
                    **checked_texts(answer.get("options"), "options"),
                    **audit_of(answer),
                },
            )

    def create_database(
        self,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create the database; AlreadyExists unless `if_not_exists`."""
        body = {"name": database, "options": dict(properties or {})}
        try:
            self.client.post(self.client.path("databases"), body)
        except AlreadyExists:
            if not if_not_exists:
                raise

    def alter_database(
        self,
        database: str,
        *,
        changes: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Set and remove properties."""
        body = {"removals": list(removed), "updates": dict(changes or {})}
        self.client.post(self.client.path("databases", database), body)

    def drop_database(
        self, database: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Delete the database; InvalidArgument if it has tables, unless `cascade`."""
        try:
            tables = [] if cascade else self.details(database)
            if tables:
                raise InvalidArgument(
                    f"database {database} is not empty: it has {len(tables)} tables",
                    next_step="drop its tables first",
                )
            self.client.delete(self.client.path("databases", database))
        except NotFound:
            if not if_exists:
                raise

    # --- tables ---

    def list_tables(self, database: str) -> list[str]:
        """The names of the database's Paimon tables, sorted."""
        return sorted(
            n for n, kind in self.details(database).items() if kind in TYPES_WITH_SNAPSHOTS
        )

    def list_others(self, database: str) -> list[OtherObject]:
        """Format tables, object tables and others with their type, and views, sorted by name."""
        found = [
            OtherObject(n, k)
            for n, k in self.details(database).items()
            if k not in TYPES_WITH_SNAPSHOTS
        ]
        try:
            views = self.views.names(database)
        except UnsupportedFeature:
            views = []
        found += [OtherObject(name, "view") for name in views]
        return sorted(found, key=lambda other: other.name)

    def details(self, database: str) -> dict[str, str]:
        """The names of all tables with their types; a server may list a table once a branch."""
        path = self.client.path("databases", database, "table-details")
        return dict(
            self.client.pages(path, "tableDetails", lambda t: (name_of(t["name"]), _type(t)))
        )

    def _path(self, identifier: str, *rest: str, branch: str | None = None) -> str:
        database, table = split_identifier(identifier)
        name = object_name(table, branch)
        return self.client.path("databases", database, "tables", name, *rest)

    def _response(self, identifier: str, branch: str | None) -> dict[str, Any]:
        try:
            found = self.client.get(self._path(identifier, branch=branch))
        except ResourceNotFound as e:
            what = identifier if branch is None else f"{identifier} (branch {branch})"
            raise NotFound(
                f"table {what} does not exist in the REST catalog at {self.client.uri}",
                table=identifier,
                next_step="check the names of catalog, database and table",
            ) from e
        path, external = found.get("path"), found.get("isExternal")
        if not isinstance(path, str) or not path or not isinstance(found.get("schemaId"), int):
            raise StorageError(
                f"the REST catalog gave table {identifier} without path or schema id",
                table=identifier,
            )
        if not isinstance(external, bool | None):
            # Commits to external tables are files, those to others belong to the server.
            raise StorageError(
                f"the REST catalog does not say whether table {identifier} is external: "
                f"isExternal is {shown(external)}",
                table=identifier,
            )
        if _type(found) not in TYPES_WITH_SNAPSHOTS:
            raise UnsupportedFeature(
                f"type={_type(found)}",
                f"{identifier} is not a Paimon table but a {_type(found)}",
                table=identifier,
                next_step="no action is needed: Paimon's maintenance does not apply to it",
            )
        return found

    def get_table(
        self,
        identifier: str,
        *,
        branch: str | None = None,
        dynamic_options: Mapping[str, str | None] | None = None,
        watch: Watch | None = None,
    ) -> FileStoreTable:
        """The table under its newest schema; the catalog makes its commits, unless it is external.

        UnsupportedFeature for a format table or another type, StorageError if the server does not
        answer, CorruptTable if the newest schema file is not the catalog's newest schema.
        """
        looks = 0
        while True:
            found = self._response(identifier, branch)
            table = self._open(identifier, found, branch, dynamic_options, watch)
            if table.schema.id == found["schemaId"]:
                return table
            looks += 1
            if looks == _LOOKS:
                raise CorruptTable(
                    f"the newest schema of table {identifier} is {found['schemaId']} in the REST "
                    f"catalog, and {table.schema.id} in its folder {table.root}",
                    table=identifier,
                    next_step="find out who changes the table without the catalog; nothing was "
                    "changed",
                )

    def _open(
        self,
        identifier: str,
        found: Mapping[str, Any],
        branch: str | None,
        dynamic_options: Mapping[str, str | None] | None,
        watch: Watch | None,
    ) -> FileStoreTable:
        path, external = str(found["path"]), bool(found.get("isExternal"))
        io, root = self.storage(identifier, path, external=external)
        commit = RestSnapshotCommit(self.client, identifier, str(found.get("id")))
        table = open_table_at(
            io if watch is None else watch(io, root),
            root,
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
            snapshot_commit=None if external else commit,
            versions=None if external else RestVersions(self.client, identifier, branch),
            schema_commit=RestSchemaCommit(self, identifier, branch),
            location=path,
        )
        return replace(table, catalog_properties=audit_of(found))

    def storage(self, identifier: str, path: str, *, external: bool) -> tuple[FileIO, str]:
        """The table's store, and its folder there."""
        if external or not parse_bool(self.options.get(DATA_TOKEN_ENABLED, "false")):
            return open_file_io(path, self.options)
        scheme, separator, rest = path.partition("://")
        root = f"{scheme}://{rest.rstrip('/')}" if separator else open_file_io(path)[1]
        return TokenFileIO(self.client, identifier, root), root

    def create_table(
        self, identifier: str, schema: TableSchema, *, if_not_exists: bool = False
    ) -> None:
        """Create the table; catalog options `table-default.KEY` stand in for missing options.

        With the option `path` it is external: its schema file is created here, because not every
        server does it, or the table in the folder is taken up if `schema` agrees with it.
        """
        check_new_name(identifier)
        path = schema.options.value(PATH)
        if path is not None:
            self._create_external(identifier, schema, path, if_not_exists=if_not_exists)
            return
        self._post_table(identifier, self._with_defaults(schema), if_not_exists=if_not_exists)

    def _with_defaults(self, schema: TableSchema) -> TableSchema:
        """The schema with the catalog's options for tables; SchemaError for an invalid one."""
        schema = normalized(with_table_defaults(schema, self.options))
        validate_schema(schema)
        return schema

    def _create_external(
        self, identifier: str, schema: TableSchema, path: str, *, if_not_exists: bool
    ) -> None:
        io, root = open_file_io(path, self.options)
        files = TableFiles(io=io, path=root, identifier=identifier, options=self.options)
        was_there = files.schemas().latest() is not None
        first = files.create_first(schema, external=True)
        if first is None:
            raise AlreadyExists(
                f"another client is creating a table in {path}",
                table=identifier,
                next_step="run again",
            )
        wanted = replace(first, options=Options({**first.options, PATH.key: path}))
        try:
            self._post_table(identifier, wanted, if_not_exists=if_not_exists)
        except (CatalogError, InvalidArgument, StorageAccessDenied, UnsupportedFeature):
            if not was_there:
                files.withdraw_first(first)
            raise

    def _post_table(self, identifier: str, schema: TableSchema, *, if_not_exists: bool) -> None:
        database, _ = split_identifier(identifier)
        body = {"identifier": identifier_json(identifier), "schema": schema_json(schema)}
        try:
            self.client.post(self.client.path("databases", database, "tables"), body)
        except AlreadyExists as e:
            if not if_not_exists:
                e.table = identifier
                raise

    def replace_table(self, identifier: str, schema: TableSchema) -> bool:
        """True; where the server cannot replace tables, this drops and creates them, as in Java.

        NotFound if there is no table of this name.
        """
        schema = self._with_defaults(schema)
        try:
            self.client.post(self._path(identifier, "replace"), {"schema": schema_json(schema)})
        except UnsupportedFeature:
            self.drop_table(identifier)
            self.create_table(identifier, schema)
        return True

    def alter_table(
        self,
        identifier: str,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,  # noqa: ARG002 - the server has its own clock
        branch: str | None = None,
    ) -> TableSchema:
        """The new schema, which the server made."""
        wanted = [change_from_object(c) if isinstance(c, Mapping) else c for c in changes]
        self.client.post(self._path(identifier, branch=branch), changes_json(wanted))
        return self.get_table(identifier, branch=branch).schema

    def rename_table(self, identifier: str, new_identifier: str) -> None:
        """Give the table another name; NotFound, AlreadyExists."""
        check_new_name(new_identifier)
        body = {
            "source": identifier_json(identifier),
            "destination": identifier_json(new_identifier),
        }
        self.client.post(self.client.path("tables", "rename"), body)

    def drop_table(self, identifier: str, *, if_exists: bool = False) -> None:
        """Delete the table; NotFound unless `if_exists`."""
        try:
            self.client.delete(self._path(identifier))
        except NotFound:
            if not if_exists:
                raise

    def list_partitions(self, identifier: str) -> list[Partition]:
        """The partitions as the server keeps them; from the files where it keeps none."""
        try:
            path = self._path(identifier, "partitions")
            return self.client.pages(path, "partitions", partition_of)
        except UnsupportedFeature:
            return partitions_of_files(self.get_table(identifier))


@dataclass(frozen=True, slots=True)
class RestSchemaCommit:
    """The server makes the schemas of one table or branch."""

    catalog: RestCatalog
    identifier: str
    branch: str | None

    def commit(self, schemas: SchemaStore, changed: TableSchema) -> bool:
        """Refused by the table's storage: the server takes changes, no schemas."""
        return schemas.commit_new(changed)

    def set_options(
        self, schemas: SchemaStore, changed: TableSchema, options: Mapping[str, str]
    ) -> bool:
        """Ask the server for the change, unless there is a newer schema."""
        latest = schemas.latest()
        if latest is None or latest.id >= changed.id:
            return False
        changes = [SetOption(key, value) for key, value in options.items()]
        self.catalog.alter_table(self.identifier, changes, now_millis=0, branch=self.branch)
        return True


def _type(response: Mapping[str, Any]) -> str:
    """The option `type` of a table: table, format-table, object-table, ..."""
    schema = response.get("schema")
    options = schema.get("options") if isinstance(schema, Mapping) else None
    found = options.get("type") if isinstance(options, Mapping) else None
    return str(found or "table").lower().replace("_", "-")
