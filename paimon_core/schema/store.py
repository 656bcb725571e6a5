"""The schemas of one branch of a table (Java: `schema/SchemaManager`, reading and committing)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from paimon_core.errors import CommitStateUnknown, CorruptTable, StorageAccessDenied, TableGone
from paimon_core.io.file_io import FileIO, map_parallel, renames_atomically
from paimon_core.io.named_files import numbers_named
from paimon_core.io.read_retry import read_with_retries
from paimon_core.names import declared_roots
from paimon_core.paths import BRANCH_PREFIX, MAIN_BRANCH, SCHEMA_PREFIX, TablePaths
from paimon_core.schema.schema_json import schema_from_json, schema_to_json
from paimon_core.schema.table_schema import TableSchema

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """Reads and creates `schema/schema-N`; `table` is the name for messages.

    A schema is read once: its file never changes. (A fast-forward from a branch may replace a
    schema; open the table again to see it.)
    """

    io: FileIO
    paths: TablePaths
    table: str
    _known: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def of_branch(self, branch: str) -> SchemaStore:
        """Return the schemas of another branch."""
        return SchemaStore(self.io, self.paths.of_branch(branch), self.table)

    def ids(self) -> list[int]:
        """List all schema ids, sorted; CorruptTable if a folder has one."""
        return numbers_named(self.io, self.paths.schema_dir, SCHEMA_PREFIX, self.table)

    def latest(self) -> TableSchema | None:
        """Return the newest schema; None if the table does not exist, or is dropped right then."""
        ids = self.ids()
        try:
            return self.get(ids[-1]) if ids else None
        except CorruptTable:
            now = self.ids()
            if now == ids:
                raise
            return self.get(now[-1]) if now else None

    def get(self, schema_id: int) -> TableSchema:
        """Return the schema; CorruptTable if it is missing, because its id comes from metadata."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._read(schema_id)
            self._known[schema_id] = known
        return known

    def all(self) -> list[TableSchema]:
        """Return all schemas, sorted by id."""
        return map_parallel(self.io, self.get, self.ids())

    def declared_roots(self) -> list[str]:
        """Return the external folders that any schema of any branch declares."""
        folders = (f.name for f in self.io.list_dir(self.paths.branches_dir) if f.is_dir)
        branches = (n.removeprefix(BRANCH_PREFIX) for n in folders if n.startswith(BRANCH_PREFIX))
        stores = [self.of_branch(name) for name in (MAIN_BRANCH, *branches)]
        schemas = (schema for store in stores for schema in store.all())
        return sorted({root for schema in schemas for root in declared_roots(schema.options)})

    def exists(self, schema_id: int) -> bool:
        return self.io.exists(self.paths.schema(schema_id))

    def commit_new(self, schema: TableSchema) -> bool:
        """Create the schema; return False if its id is taken.

        CommitStateUnknown means that the store did not say, TableGone that the table was dropped or
        renamed meanwhile, also if there is another one of its name: then the schema is withdrawn.
        """
        path = self.paths.schema(schema.id)
        content = schema_to_json(schema).encode()
        try:
            if not self.io.create_if_absent(path, content):
                return False
        except StorageAccessDenied:
            raise
        except OSError as e:
            self._check_lost_reply(schema, e)
        try:
            return self._is_final(schema, content)
        except OSError as e:
            raise self._unknown(schema, e) from e

    def _is_final(self, schema: TableSchema, content: bytes) -> bool:
        """Return whether the schema that was just made stays, as `commit_new` says."""
        path = self.paths.schema(schema.id)
        try:
            found = self.io.read_bytes(path)
        except FileNotFoundError as e:
            raise TableGone(
                f"table {self.table} was dropped or renamed while its schema was changed",
                table=self.table,
            ) from e
        if found != content:
            # See SnapshotStore.try_commit: Java may replace a file that did not exist when it
            # checked.
            log.warning("table=%s schema=%d was replaced by another process", self.table, schema.id)
            return False
        before = self._known.get(schema.id - 1)
        if before is not None and not self._is_there(before):
            self._withdraw(schema)
            raise TableGone(
                f"table {self.table} was dropped or renamed while its schema was changed",
                table=self.table,
            )
        self._known[schema.id] = schema
        return True

    def _check_lost_reply(self, schema: TableSchema, failure: OSError) -> None:
        """Raise unless the id of the schema is taken now, by itself or another one.

        A local disk loses no replies: what is not there has failed.  A store may still be at work
        on a request that nobody waits for any more.
        """
        path = self.paths.schema(schema.id)
        try:
            if self.io.exists(path):
                return
        except OSError:
            raise self._unknown(schema, failure) from failure
        if renames_atomically(path):
            raise failure
        raise self._unknown(schema, failure) from failure

    def _unknown(self, schema: TableSchema, failure: OSError) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"whether table {self.table} has got schema {schema.id} is unknown: {failure}",
            table=self.table,
            file=self.paths.schema(schema.id),
            next_step=f"see whether the change is there (`caretaker read '{self.table}$schemas'`) before "
            "running again",
        )

    def _is_there(self, before: TableSchema) -> bool:
        """Return whether the schema that a new one follows is still that of the table."""
        try:
            return self._read(before.id) == before
        except CorruptTable:
            if self.exists(before.id):
                raise
            return False

    def _withdraw(self, added: TableSchema) -> None:
        """Delete a schema that was added to no table or another one, and its folder if empty."""
        if SchemaStore(self.io, self.paths, self.table).latest() != added:
            return
        log.warning("table=%s was dropped or renamed while its schema was changed", self.table)
        self.io.delete(self.paths.schema(added.id))
        self.io.delete_dir(self.paths.schema_dir, recursive=False)

    def _read(self, schema_id: int) -> TableSchema:
        path = self.paths.schema(schema_id)
        try:
            schema = read_with_retries(self.io, path, schema_from_json, table=self.table)
        except FileNotFoundError as e:
            raise CorruptTable(
                f"schema {schema_id} of table {self.table} is missing", table=self.table, file=path
            ) from e
        if schema.id != schema_id:
            raise CorruptTable(
                f"{path} of table {self.table} says that it is schema {schema.id}",
                table=self.table,
                file=path,
            )
        return schema
