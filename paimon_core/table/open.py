"""Opens tables by name.

Reading a filesystem warehouse needs no catalog object: `warehouse/DB.db/TABLE` is the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from paimon_core.errors import InvalidArgument, NotFound, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.settings import iceberg_folder
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.io.open import open_file_io
from paimon_core.lsm.java_rules import JavaRules
from paimon_core.names import Boundary, declared_roots, is_file_name
from paimon_core.options import SEQUENCE_FIELD
from paimon_core.paths import MAIN_BRANCH, TablePaths, table_paths
from paimon_core.refs.branches import BranchStore
from paimon_core.refs.consumers import ConsumerStore
from paimon_core.refs.tags import TagStore
from paimon_core.scan.engine import rules_of
from paimon_core.schema.schema_commit import SchemaCommit
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.changelog import ChangelogStore
from paimon_core.snapshot.partition_registry import PartitionRegistry
from paimon_core.snapshot.snapshot_commit import SnapshotCommit
from paimon_core.snapshot.store import SnapshotStore
from paimon_core.snapshot.version_management import VersionManagement
from paimon_core.table.owned_io import CatalogOwnedFileIO
from paimon_core.types.data_types import TypeRoot


def split_identifier(identifier: str) -> tuple[str, str]:
    """Return database and table of "db.table"; InvalidArgument for anything else."""
    database, dot, table = identifier.partition(".")
    if not dot or not is_file_name(database) or not is_file_name(table):
        raise InvalidArgument(f"not a table name: {identifier!r} (expected DATABASE.TABLE)")
    return database, table


def check_new_name(identifier: str) -> None:
    """InvalidArgument for a name with `$`, which is that of a branch or system table.

    Java: `CatalogUtils.checkNotSystemTable` and `checkNotBranch`.
    """
    if "$" in split_identifier(identifier)[1]:
        raise InvalidArgument(
            f"no table can have the name {identifier}: names with $ are those of branches and system "
            "tables",
            table=identifier,
            next_step="choose a name without $",
        )


def open_table(
    warehouse: str,
    identifier: str,
    *,
    branch: str | None = None,
    dynamic_options: Mapping[str, str | None] | None = None,
    file_io_options: Mapping[str, str] | None = None,
    watch: Callable[[FileIO, str], FileIO] | None = None,
) -> FileStoreTable:
    """Open the table `identifier` ("db.t") of a filesystem warehouse with its newest schema.

    `dynamic_options` apply to this handle only; None removes an option.  `watch` gets the storage
    and the table's folder, and returns the storage to use.  Raises NotFound if the table or branch
    does not exist.
    """
    database, name = split_identifier(identifier)
    io, root = open_file_io(warehouse, file_io_options)
    folder = f"{root.rstrip('/')}/{database}.db/{name}"
    return open_table_at(
        io if watch is None else watch(io, folder),
        folder,
        identifier,
        branch=branch,
        dynamic_options=dynamic_options,
        location=f"{warehouse.rstrip('/')}/{database}.db/{name}",
    )


def open_table_at(
    io: FileIO,
    root: str,
    name: str,
    *,
    branch: str | None = None,
    dynamic_options: Mapping[str, str | None] | None = None,
    snapshot_commit: SnapshotCommit | None = None,
    partition_registry: PartitionRegistry | None = None,
    versions: VersionManagement | None = None,
    schema_commit: SchemaCommit | None = None,
    location: str | None = None,
) -> FileStoreTable:
    """The table whose folder is `root`; errors as in `open_table`.

    `snapshot_commit` is the part that the table's catalog takes in commits, if it takes one;
    `partition_registry` its partitions for other engines, if it keeps them; `versions` its part in
    changes of the history, `schema_commit` in changes of the schema; `location` the root as the
    catalog spells it.
    """
    chosen = branch or MAIN_BRANCH
    bare = TablePaths(root=root, branch=chosen)
    schemas = SchemaStore(io, bare, name)
    latest = schemas.latest()
    if latest is None:
        what = f"table {name}" if chosen == MAIN_BRANCH else f"branch {chosen} of table {name}"
        raise NotFound(
            f"{what} does not exist: no schema under {bare.schema_dir}",
            table=name,
            next_step="check warehouse, database, table and branch",
        )
    schema = latest.with_options(dynamic_options or {})
    boundary = Boundary(root, declared_roots(schema.options), schemas.declared_roots)
    beside = iceberg_folder(root, schema.options)
    changeable = replace(boundary, declared=(*boundary.declared, beside)) if beside else boundary
    io = ConfinedFileIO(io, changeable)
    if snapshot_commit is not None and snapshot_commit.owner is not None:
        io = CatalogOwnedFileIO(io, root, snapshot_commit)
    paths = table_paths(root, schema.partition_type, schema.options, branch=chosen, limits=boundary)
    table = FileStoreTable(
        io=io,
        root=root,
        name=name,
        branch=chosen,
        schema=schema,
        schemas=replace(schemas, io=io),
        paths=paths,
        snapshots=SnapshotStore(io, paths, name, snapshot_commit),
        changelogs=ChangelogStore(io, paths, name),
        tags=TagStore(io, paths, name),
        branches=BranchStore(io, paths, name),
        consumers=ConsumerStore(io, paths, name),
        partition_registry=partition_registry,
        versions=versions,
        schema_commit=schema_commit,
        location=location,
        dynamic_options=dict(dynamic_options or {}),
    )
    return replace(table, schema=replace(schema, signed_zeros=_has_signed_zeros(table)))


def under_schema(table: FileStoreTable, schema: TableSchema) -> FileStoreTable:
    """The handle under a schema that is about to follow its newest one.

    Files can be written through it before; nothing may be committed.
    """
    schema = schema.with_options(table.dynamic_options)
    limits = replace(table.paths.boundary, declared=declared_roots(schema.options))
    paths = table_paths(
        table.root, schema.partition_type, schema.options, branch=table.branch, limits=limits
    )
    inner = table.io.inner if isinstance(table.io, ConfinedFileIO) else table.io
    return replace(table, io=ConfinedFileIO(inner, limits), schema=schema, paths=paths)


def _has_signed_zeros(table: FileStoreTable) -> bool:
    """Return whether -0.0 sorts below 0.0 in the table's row order, as in Java from 2.0 on.

    The newest snapshot is read only for tables with such columns; if it is unreadable, the next
    operation that needs it reports the error.
    """
    schema = table.schema
    ordering = {*schema.trimmed_primary_keys, *schema.options.value(SEQUENCE_FIELD)}
    floats = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    if not any(f.name in ordering and f.type.root in floats for f in schema.fields):
        return False
    try:
        return rules_of(table) is JavaRules.JAVA_2_0
    except PaimonError:
        return False
