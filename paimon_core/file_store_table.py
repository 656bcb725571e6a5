"""The table handle (Java: `table/FileStoreTable`).

A handle has no state except its schema and caches: every operation reads the newest snapshot from
storage.  A handle can be pickled, without its caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from paimon_core.errors import CorruptTable, NotFound
from paimon_core.io.file_io import FileIO
from paimon_core.manifest.cache import ManifestCache
from paimon_core.manifest.data_file import IndexManifestEntry
from paimon_core.manifest.index_manifest import read_index_manifest
from paimon_core.options import BUCKET, Options
from paimon_core.paths import POSTPONE_BUCKET, TablePaths
from paimon_core.refs.branches import BranchStore
from paimon_core.refs.consumers import ConsumerStore
from paimon_core.refs.tags import TagStore
from paimon_core.schema.schema_commit import SchemaCommit
from paimon_core.schema.store import SchemaStore
from paimon_core.schema.table_schema import TableSchema
from paimon_core.snapshot.changelog import ChangelogStore
from paimon_core.snapshot.partition_registry import PartitionRegistry
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.store import SnapshotStore
from paimon_core.snapshot.version_management import VersionManagement


class BucketMode(Enum):
    """The assignment of rows to buckets (Java: `table/BucketMode`)."""

    FIXED = "fixed"
    UNAWARE = "unaware"
    DYNAMIC = "dynamic"
    CROSS_PARTITION = "cross-partition"
    POSTPONE = "postpone"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStoreTable:
    """A handle of one branch of one table.

    - `name`: "db.t".
    - `root`: the table's folder, as a path in `io`.
    - `schema`: the newest schema when the handle was opened, with `dynamic_options` merged in.
    - `partition_registry`: the partitions in the catalog, if it stores them for other engines.
    - `versions`: changes the history through the catalog, if the catalog requires that.
    - `schema_commit`: the catalog's part in schema changes, if it has one.
    - `location`: the root as the catalog spells it ("file:/w/db.db/t"), for paths
      that other programs read.
    - `catalog_properties`: what the catalog says about the table beside its
      schema, such as its owner.
    """

    io: FileIO
    root: str
    name: str
    branch: str
    schema: TableSchema
    schemas: SchemaStore
    paths: TablePaths
    snapshots: SnapshotStore
    changelogs: ChangelogStore
    tags: TagStore
    branches: BranchStore
    consumers: ConsumerStore
    partition_registry: PartitionRegistry | None = field(default=None, compare=False, repr=False)
    versions: VersionManagement | None = field(default=None, compare=False, repr=False)
    schema_commit: SchemaCommit | None = field(default=None, compare=False, repr=False)
    location: str | None = field(default=None, compare=False, repr=False)
    catalog_properties: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    dynamic_options: Mapping[str, str | None] = field(default_factory=dict)
    manifests: ManifestCache = field(default_factory=ManifestCache, compare=False, repr=False)

    @property
    def options(self) -> Options:
        return self.schema.options

    @property
    def has_primary_key(self) -> bool:
        return bool(self.schema.primary_keys)

    @property
    def bucket_mode(self) -> BucketMode:
        buckets = self.options.value(BUCKET)
        if buckets == POSTPONE_BUCKET:
            return BucketMode.POSTPONE
        if buckets != -1:
            return BucketMode.FIXED
        if not self.has_primary_key:
            return BucketMode.UNAWARE
        if all(k in self.schema.primary_keys for k in self.schema.partition_keys):
            return BucketMode.DYNAMIC
        return BucketMode.CROSS_PARTITION

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the schema of this id."""
        return self.schema if schema_id == self.schema.id else self.schemas.get(schema_id)

    def commit_schema(self, changed: TableSchema) -> bool:
        """Commit a schema that follows the newest one; False if its id is taken.

        The catalog's copy of columns and options follows it.
        """
        if self.schema_commit is None:
            return self.schemas.commit_new(changed)
        return self.schema_commit.commit(self.schemas, changed)

    def refreshed(self) -> FileStoreTable:
        """Return the same table with its newest schema."""
        latest = self.schemas.latest()
        if latest is None:
            raise NotFound(f"table {self.name} no longer has a schema", table=self.name)
        schema = latest.with_options(self.dynamic_options)
        return replace(self, schema=replace(schema, signed_zeros=self.schema.signed_zeros))

    def at_newest_snapshot(self) -> tuple[FileStoreTable, Snapshot | None]:
        """Return the newest snapshot, and the table under a schema with all columns of its files.

        Whoever rewrites rows under an older schema loses the columns that were added since.
        """
        table = self
        while True:
            snapshot = table.snapshots.latest()
            if snapshot is None or snapshot.schema_id <= table.schema.id:
                return table, snapshot
            table = table.refreshed()

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """Return all index files of the snapshot; CorruptTable if its index manifest is missing."""
        if snapshot.index_manifest is None:
            return []
        path = self.paths.manifest(snapshot.index_manifest)
        try:
            return read_index_manifest(self.io, path)
        except FileNotFoundError as e:
            raise CorruptTable(
                f"index manifest {path} of table {self.name} is missing",
                table=self.name,
                file=path,
                snapshot=snapshot.id,
                next_step="if the snapshot expired meanwhile, run again; "
                "otherwise run `caretaker verify` on the table",
            ) from e

    def latest_or_not_found(self) -> Snapshot:
        """Return the newest snapshot; NotFound before the first commit."""
        latest = self.snapshots.latest()
        if latest is None:
            raise NotFound(
                f"table {self.name} has no snapshot yet",
                table=self.name,
                next_step="nothing to do until the first commit",
            )
        return latest
