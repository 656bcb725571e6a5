"""The schemas of one table in its folder: what catalogs without a server share.

A catalog decides where the folder is, and who may change it at a time; here the schema files are
created and changed (Java: `schema/SchemaManager`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_core.catalog.table_folder import is_link
from paimon_core.ddl.alter import apply_changes
from paimon_core.ddl.create import normalized
from paimon_core.ddl.schema_change import SchemaChange, change_from_object
from paimon_core.ddl.validation import check_fallback_branch, validate_schema
from paimon_core.errors import (
    AlreadyExists,
    NotFound,
    PaimonError,
    SchemaError,
    TableGone,
    UnsupportedFeature,
)
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.io.file_io import FileIO
from paimon_core.known_options import check_values, similar_name, unknown_options
from paimon_core.names import Boundary
from paimon_core.options import DATA_FILE_EXTERNAL_PATHS, PATH, Options
from paimon_core.paths import SNAPSHOT_PREFIX, TablePaths
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.store import SnapshotStore
from paimon_core.table.other_tables import other_table, refused
from paimon_core.types.data_types import ArrayType, DataType, MapType, RowType

log = logging.getLogger(__name__)

TABLE_DEFAULT: Final = "table-default."
_NOT_COMPARED: Final = frozenset({"owner", PATH.key})
_ATTEMPTS: Final = 10


def with_table_defaults(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    """Return the schema with the options `table-default.KEY` of a catalog that it does not set."""
    defaults = Options(options).matching(TABLE_DEFAULT)
    defaults.pop(PATH.key, None)
    return replace(schema, options=Options({**defaults, **schema.options}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The folder `path` of table `identifier`, there or not; `options` are the catalog's."""

    io: FileIO
    path: str
    identifier: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def schemas(self, branch: str | None = None) -> SchemaStore:
        """The schemas of the table or of a branch, which are written below its folder only."""
        paths = TablePaths(root=self.path)
        io = ConfinedFileIO(self.io, Boundary(self.path))
        return SchemaStore(io, paths.of_branch(branch) if branch else paths, self.identifier)

    def create_first(self, schema: TableSchema, *, external: bool = False) -> TableSchema | None:
        """The schema as the table's first; None if the folder holds one already.

        Catalog options `table-default.KEY` are defaults for options that the schema does not set.
        The folder of an `external` table may hold a table: its newest schema comes back then, if
        `schema` agrees with it.  SchemaError or UnsupportedFeature for a schema that is refused.
        """
        store = self.schemas()
        latest = store.latest()
        if latest is not None:
            return self._taken_up(latest, schema) if external else None
        if not schema.fields:
            raise SchemaError(
                f"table {self.identifier} has no columns, and the folder {self.path} holds no table "
                "to take them from",
                table=self.identifier,
                next_step="name columns, or the folder of a table",
            )
        self._check_no_snapshots()
        with self._named():
            first = normalized(with_table_defaults(schema, self.options))
            check_values(first.options)
            self._warn_of_unknown(first.options)
            validate_schema(first)
            check_fallback_branch(
                first.options, lambda name: store.of_branch(name).latest() is not None
            )
        return first if store.commit_new(first) else None

    def _check_no_snapshots(self) -> None:
        """SchemaError if the folder holds snapshots, which the new table would take for its own."""
        folder = TablePaths(root=self.path).snapshot_dir
        if any(f.name.startswith(SNAPSHOT_PREFIX) for f in self.io.list_dir(folder)):
            raise SchemaError(
                f"table {self.identifier} cannot be created: the folder {self.path} holds snapshots "
                "of another table, but no schema",
                table=self.identifier,
                next_step="move the folder away, or delete it if it was left by a drop",
            )

    def _taken_up(self, latest: TableSchema, schema: TableSchema) -> TableSchema:
        """The newest schema of the folder.

        SchemaError if `schema` has other columns, keys, options.  What `schema`
        leaves out is not compared.
        """
        wanted = normalized(schema)
        differing = [
            what
            for what, same in (
                ("columns", not wanted.fields or _columns(wanted) == _columns(latest)),
                (
                    "partition keys",
                    wanted.partition_keys in ((), latest.partition_keys),
                ),
                ("primary keys", wanted.primary_keys in ((), latest.primary_keys)),
                (
                    "options",
                    all(
                        key in _NOT_COMPARED or latest.options.get(key) == value
                        for key, value in wanted.options.items()
                    ),
                ),
            )
            if not same
        ]
        if differing:
            raise SchemaError(
                f"the folder {self.path} holds a table with other {', '.join(differing)} than "
                f"table {self.identifier} is to have",
                next_step="create the table with the schema of its folder, or without columns, keys "
                "and options",
                table=self.identifier,
            )
        return latest

    def withdraw_first(self, first: TableSchema) -> None:
        """Delete the first schema of a table that its catalog refused, and folders that are empty.

        A folder to which another client has written stays unchanged.
        """
        store = self.schemas()
        latest = store.latest()
        if latest is None or latest.id != first.id or self.io.list_dir(store.paths.snapshot_dir):
            return
        self.io.delete(store.paths.schema(first.id))
        for folder in (store.paths.schema_dir, self.path):
            self.io.delete_dir(folder, recursive=False)

    def alter(
        self,
        changes: Sequence[SchemaChange | Mapping[str, object]],
        *,
        now_millis: int,
        branch: str | None = None,
    ) -> TableSchema:
        """Apply the changes to the newest schema in order; return the new schema.

        Changes are values of `ddl.schema_change`, or the JSON objects that it reads.  If another
        process changes the schema meanwhile, they are applied again to its schema.  Raises NotFound
        for a missing table, SchemaError or UnsupportedFeature for an invalid change.
        """
        wanted = [change_from_object(c) if isinstance(c, Mapping) else c for c in changes]
        store = self.schemas(branch)
        snapshots = SnapshotStore(self.io, store.paths, self.identifier)
        for _ in range(_ATTEMPTS):
            latest = store.latest()
            if latest is None:
                raise NotFound(f"table {self.identifier} does not exist", table=self.identifier)
            with self._named():
                changed = apply_changes(
                    latest,
                    wanted,
                    now_millis=now_millis,
                    has_snapshots=lambda: snapshots.latest_id() is not None,
                )
                check_fallback_branch(
                    changed.options, lambda name: self.schemas(name).latest() is not None
                )
            try:
                if not store.commit_new(changed):
                    continue
            except TableGone:
                self.io.delete_dir(store.paths.schema_dir.rpartition("/")[0], recursive=False)
                store = self.schemas(branch)  # of the table that is there now, if there is one
                continue
            before = latest.options.items()
            self._warn_of_unknown(dict(o for o in changed.options.items() if o not in before))
            return changed
        raise AlreadyExists(
            f"other schema changes of table {self.identifier} were committed first in every attempt",
            table=self.identifier,
            next_step="run again",
        )

    def check_droppable(self) -> None:
        """UnsupportedFeature for a table with data outside of its folder.

        Java deletes the folders of the option with all files in them, those of other tables too.
        OutsideTable if the table's folder holds another table, or lies in one's partition: its
        files would go, too.
        """
        if any(DATA_FILE_EXTERNAL_PATHS.key in s.options for s in self.schemas().all()):
            raise UnsupportedFeature(
                DATA_FILE_EXTERNAL_PATHS.key,
                f"tables with {DATA_FILE_EXTERNAL_PATHS.key} cannot be dropped",
                table=self.identifier,
                next_step="truncate the table, and remove its folder and its external files by hand",
            )
        theirs = None if is_link(self.io, self.path) else other_table(self.io, self.path)
        if theirs is not None:
            raise refused(f"table {self.identifier}", theirs, table=self.identifier)

    def _warn_of_unknown(self, options: Mapping[str, str]) -> None:
        """Log the keys that Paimon does not know; it stores and ignores them."""
        for key in unknown_options(options):
            near = similar_name(key)
            hint = "" if near is None else f"; did you mean {near}?"
            log.warning("table=%s option %r is unknown to Paimon%s", self.identifier, key, hint)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the table name to errors raised inside."""
        try:
            yield
        except PaimonError as e:
            e.table = e.table or self.identifier
            raise


def _columns(schema: TableSchema) -> list[tuple[object, ...]]:
    """Names and types without field ids, also those in structs."""
    return [(f.name, _without_ids(f.type), f.description) for f in schema.fields]


def _without_ids(data_type: DataType) -> DataType:
    match data_type:
        case RowType(fields=fields):
            return replace(
                data_type,
                fields=tuple(replace(f, id=0, type=_without_ids(f.type)) for f in fields),
            )
        case ArrayType():
            return replace(data_type, element=_without_ids(data_type.element))
        case MapType():
            return replace(
                data_type,
                key=_without_ids(data_type.key),
                value=_without_ids(data_type.value),
            )
    return data_type
