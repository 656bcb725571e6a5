"""The unsupported features of Paimon; a table that uses one is refused with its name.

Java: `CoreOptions`, `schema/SchemaValidation`; java-rules M1.  A wrong read is worse than a refused
table, so each check lists the features that are *not* supported, and, for enumerations, the values
that are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from itertools import chain

from paimon_core.errors import UnsupportedFeature
from paimon_core.external_paths import ExternalPaths
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.format.blob.descriptor import dedicated_columns, descriptor_columns
from paimon_core.format.blob.elements import decoder_of
from paimon_core.format.blob.view import BLOB_VIEW_FIELD, VIEW_RESOLVE, view_columns
from paimon_core.iceberg.schema import unpublishable
from paimon_core.iceberg.settings import (
    CATALOG_LOCATION,
    DISABLED,
    FORMAT_VERSIONS,
    ICEBERG_FORMAT_VERSION,
    ICEBERG_STORAGE,
    ICEBERG_STORAGE_LOCATION,
    MANIFEST_COMPRESSION,
    STORAGES,
    TABLE_LOCATION,
    has_external_catalog,
    iceberg_folder,
)
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.index.hash_index import HASH_INDEX
from paimon_core.index.primary_key import COLUMNS, has_sources, other_index_options
from paimon_core.lsm.changelog_producers import CHANGELOG_PRODUCERS
from paimon_core.lsm.engines.traits import MERGE_ENGINES
from paimon_core.manifest.avro_codec import AVRO_CODECS
from paimon_core.options import (
    BLOB_AS_DESCRIPTOR,
    BUCKET_FUNCTION,
    CHANGELOG_PRODUCER,
    CLUSTERING_INCREMENTAL,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    FILE_FORMAT,
    INDEX_FILE_IN_DATA_FILE_DIR,
    MANIFEST_FORMAT,
    MAP_LAYOUT,
    MAP_LAYOUTS,
    MERGE_ENGINE,
    PARTITIONED_TABLE,
    POSTPONE_MERGE_ON_READ,
    ROW_TRACKING_ENABLED,
    SEQUENCE_FIELD,
    SNAPSHOT_ORDERING,
    TAG_TO_PARTITION,
    TAG_TO_PARTITION_PREVIEW,
    TYPES_WITH_SNAPSHOTS,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.types.data_types import RowType, TypeRoot, type_roots
from paimon_core.types.sql import type_to_sql

_MANIFEST_FORMATS = frozenset({"avro", "orc", "parquet"})
_IN_PARQUET = frozenset({TypeRoot.VECTOR})
"""Types that are read and written in Parquet files only."""
PK_CLUSTERING = "pk-clustering-override"
"""The option of tables whose files are in the order of other columns (java-rules G8)."""
CHAIN_TABLE = "chain-table.enabled"
CHAIN_PARTITION_KEYS = "chain-table.chain-partition-keys"


class ChainRole(StrEnum):
    """What a branch is for the chain table that reads it: the option that names the branch."""

    SNAPSHOT = "scan.fallback-snapshot-branch"
    DELTA = "scan.fallback-delta-branch"


_BLOB = f"data type {TypeRoot.BLOB}"
_WHOLE_ONLY = frozenset({DATA_EVOLUTION_ENABLED.key, _BLOB})
"""Features that reads of whole snapshots support, and nothing else."""

_READABLE_INDEXES = frozenset({HASH_INDEX, DELETION_VECTORS_INDEX})

_REFUSED_TO_READ = (
    DATA_EVOLUTION_ENABLED.key,
    CHAIN_TABLE,
)
"""Boolean options of features that change what a read returns."""

_REFUSED_TO_QUERY = ("query-auth.enabled",)
"""Boolean options by which queries show other rows and columns than the table holds.

Java: `TableQueryAuth`.
"""

_REFUSED_TO_QUERY_IF_SET = ("scan.bucket",)

_REFUSED_TO_WRITE = (
    "lookup.remote-file.enabled",
    INDEX_FILE_IN_DATA_FILE_DIR.key,
    "primary-key.nullable",
)
"""Boolean options of features that a native commit would leave outdated or broken."""

_REFUSED_TO_WRITE_IF_SET = (
    "commit.callbacks",
    "tag.callbacks",
)

_REFUSED_TO_TAG_IF_SET = ("tag.callbacks",)


def unreadable_features(
    table: FileStoreTable, columns: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the names of the features in use that prevent correct reading of these columns."""
    options = table.options
    for key in _REFUSED_TO_READ:
        if options.flag(key):
            yield key
    if ExternalPaths.elsewhere(options, table.root):
        yield "data-file.external-paths (on another store than the table)"
    if options.get("type", "table").lower() not in TYPES_WITH_SNAPSHOTS:
        yield f"type={options['type']}"
    yield from _map_layouts(table, columns)
    fields = table.schema.fields
    read = RowType(fields=tuple(f for f in fields if columns is None or f.name in columns))
    types = set(type_roots(read))
    if TypeRoot.BLOB in types:
        yield _BLOB
    file_format = options.value(FILE_FORMAT).lower()
    if file_format != "parquet":
        yield from (
            f"data type {root} in {file_format} files" for root in sorted(types & _IN_PARQUET)
        )
    if options.value(SNAPSHOT_ORDERING):
        # Where rows are numbered otherwise.
        if table.bucket_mode is BucketMode.POSTPONE:
            yield f"{SNAPSHOT_ORDERING.key} with bucket={POSTPONE_BUCKET}"
        if options.flag(CHAIN_TABLE):
            yield f"{SNAPSHOT_ORDERING.key} with {CHAIN_TABLE}"
    if table.has_primary_key and options.value(MERGE_ENGINE) not in MERGE_ENGINES:
        yield f"merge-engine={options.value(MERGE_ENGINE)}"
    for name in options.value(SEQUENCE_FIELD):
        if name not in table.schema.names:
            yield f"sequence.field={name} (no such column)"


def _map_layouts(table: FileStoreTable, columns: Collection[str] | None) -> Iterator[str]:
    """Yield the columns of maps with a layout of later versions."""
    for name, value in table.options.matching("fields.", f".{MAP_LAYOUT}").items():
        if value.strip().lower() not in MAP_LAYOUTS and (columns is None or name in columns):
            yield f"fields.{name}.{MAP_LAYOUT}={value}"


def _unreadable_blobs(
    table: FileStoreTable, columns: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield why BLOBs of these columns cannot be read, though the table stores some.

    With each reason comes the setting with which the column can be read, "" if there is none.
    """
    held = (f for f in table.schema.fields if TypeRoot.BLOB in type_roots(f.type))
    for field in (f for f in held if columns is None or f.name in columns):
        # A catalog finds the tables that views name; it reads the views themselves (`blob_views`).
        if field.name in view_columns(table.options) and table.options.value(VIEW_RESOLVE):
            option = f"{VIEW_RESOLVE.key}=false"
            yield f"{BLOB_VIEW_FIELD}={field.name} without {option}", option
        # A row may name any file, and fetching it would show it to whoever reads the row.
        described = field.name in descriptor_columns(table.options)
        if described and not table.options.value(BLOB_AS_DESCRIPTOR):
            option = f"{BLOB_AS_DESCRIPTOR.key}=true"
            yield f"blob-descriptor-field={field.name} without {option}", option
        if decoder_of(field.type) is None:
            yield f"data type {type_to_sql(field.type)}", ""
        if not table.has_primary_key and not table.options.value(DATA_EVOLUTION_ENABLED):
            yield f"{_BLOB} without {DATA_EVOLUTION_ENABLED.key}", ""


def _unwritable_blobs(table: FileStoreTable) -> Iterator[str]:
    """Yield why BLOBs cannot be written, though the table has such columns.

    Java: `SchemaValidation.validatePrimaryKeyBlobConfiguration`.
    """
    options = table.options
    managed = dedicated_columns(table.schema.row_type, options) if table.has_primary_key else set()
    if managed:
        for option, only in ((MERGE_ENGINE, "deduplicate"), (CHANGELOG_PRODUCER, "none")):
            if options.value(option) != only:
                yield f"{_BLOB} with {option.key}={options.value(option)}"
        if ExternalPaths.of(options) is not None:
            yield f"{_BLOB} with data-file.external-paths"
    for field in table.schema.fields:
        if TypeRoot.BLOB not in type_roots(field.type):
            continue
        if decoder_of(field.type) is None:
            yield f"data type {type_to_sql(field.type)}"
        if not table.has_primary_key and not table.options.value(DATA_EVOLUTION_ENABLED):
            yield f"{_BLOB} without {DATA_EVOLUTION_ENABLED.key}"
        if field.name in table.options.names("blob-external-storage-field"):
            yield f"blob-external-storage-field={field.name}"
        if table.has_primary_key and field.name in view_columns(options):
            yield f"{BLOB_VIEW_FIELD}={field.name} with a primary key"


def _unqueryable_features(
    table: FileStoreTable, columns: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the features in use that prevent showing rows; jobs may still rewrite them."""
    yield from unreadable_features(table, columns)
    yield from _hiding_features(table)
    yield from (key for key in _REFUSED_TO_QUERY_IF_SET if table.options.get(key, "").strip())


def _hiding_features(table: FileStoreTable) -> Iterator[str]:
    """Yield the features in use that hide rows or columns from some who ask."""
    yield from (key for key in _REFUSED_TO_QUERY if table.options.flag(key))


def unwritable_features(table: FileStoreTable) -> Iterator[str]:
    """Yield the names of the features in use that prevent correct writing."""
    yield from (f for f in unreadable_features(table) if f not in (*_WHOLE_ONLY, CHAIN_TABLE))
    yield from _unwritable_blobs(table)
    yield from _uncommittable(table)
    options = table.options
    if options.value(ROW_TRACKING_ENABLED) and table.has_primary_key:
        yield "row-tracking.enabled with a primary key"
    if options.flag(CHAIN_TABLE) and options.value(DELETION_VECTORS_ENABLED):
        # Rows are visible once a compaction has made the vectors, and none follows a write here.
        yield f"{CHAIN_TABLE} with {DELETION_VECTORS_ENABLED.key}"
    if options.value(BUCKET_FUNCTION) not in ("default", "mod", "hive"):
        yield f"bucket-function.type={options.value(BUCKET_FUNCTION)}"
    if options.value(TAG_TO_PARTITION) and options.value(TAG_TO_PARTITION_PREVIEW) != "none":
        yield TAG_TO_PARTITION_PREVIEW.key
    if options.value(CHANGELOG_PRODUCER) not in CHANGELOG_PRODUCERS:
        yield f"changelog-producer={options.value(CHANGELOG_PRODUCER)}"


def uncompactable_features(table: FileStoreTable) -> Iterator[str]:
    """Yield the names of the features in use that prevent correct compaction."""
    options = table.options
    evolves = options.value(DATA_EVOLUTION_ENABLED)
    # Columns of BLOBs stay in their files, and those of primary-key tables in their packs.
    supported = _WHOLE_ONLY if evolves else frozenset({_BLOB} if table.has_primary_key else ())
    yield from (f for f in unreadable_features(table) if f not in supported)
    yield from _unwritable_blobs(table) if table.has_primary_key else ()
    yield from _uncommittable(table)
    if evolves:
        yield from _unmergeable_columns(table)
    if options.value(CLUSTERING_INCREMENTAL) and table.bucket_mode is BucketMode.UNAWARE:
        yield f"{CLUSTERING_INCREMENTAL.key} (the job for it is sort_compact)"
    if options.value(ROW_TRACKING_ENABLED) and table.has_primary_key:
        yield "row-tracking.enabled with a primary key"


def _unmergeable_columns(table: FileStoreTable) -> Iterator[str]:
    """Yield why the files of a table with data evolution cannot be merged."""
    options = table.options
    for key in ("blob-external-storage-field", BLOB_VIEW_FIELD, "vector.file.format"):
        if options.get(key, "").strip():
            yield f"{key}={options[key]}"


def unrescalable_features(table: FileStoreTable) -> Iterator[str]:
    """Yield the names of the features in use that prevent moving rows between buckets."""
    yield from unreadable_features(table)
    yield from _uncommittable(table)
    options = table.options
    if table.bucket_mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        yield f"bucket={options.get('bucket', '-1')} ({table.bucket_mode.value} buckets)"
    if options.value(BUCKET_FUNCTION) not in ("default", "mod", "hive"):
        yield f"bucket-function.type={options.value(BUCKET_FUNCTION)}"
    if options.value(ROW_TRACKING_ENABLED):
        yield ROW_TRACKING_ENABLED.key


def unsortable_features(table: FileStoreTable) -> Iterator[str]:
    """Yield the names of the features in use that prevent clustering."""
    yield from unreadable_features(table)
    yield from _uncommittable(table)
    if table.has_primary_key and table.options.flag(PK_CLUSTERING):
        yield PK_CLUSTERING
    if table.bucket_mode is BucketMode.DYNAMIC:
        yield from unwritable_features(table)
    elif table.bucket_mode is not BucketMode.UNAWARE:
        yield f"bucket={table.options.get('bucket', '-1')} ({table.bucket_mode.value} buckets)"
    if table.options.value(ROW_TRACKING_ENABLED):
        yield ROW_TRACKING_ENABLED.key


def _uncommittable(table: FileStoreTable) -> Iterator[str]:
    options = table.options
    for key in _REFUSED_TO_WRITE:
        if options.flag(key):
            yield key
    for key in _REFUSED_TO_WRITE_IF_SET:
        if options.get(key, "").strip():
            yield key
    # A catalog that makes the commits keeps the partitions up to date by itself.
    kept = table.snapshots.owner is not None or table.partition_registry is not None
    if options.value(PARTITIONED_TABLE) and not kept:
        yield PARTITIONED_TABLE.key
    if options.value(CLUSTERING_INCREMENTAL) and table.bucket_mode is not BucketMode.UNAWARE:
        yield f"{CLUSTERING_INCREMENTAL.key} with {table.bucket_mode.value} buckets"
    if options.value(MANIFEST_FORMAT) not in _MANIFEST_FORMATS:
        yield f"{MANIFEST_FORMAT.key}={options.value(MANIFEST_FORMAT)}"
    yield from _unpublishable(table)
    yield from other_index_options(options)


def _untaggable(table: FileStoreTable) -> Iterator[str]:
    """Yield the features in use that need a callback for each tag change (Java: `TagCallback`)."""
    options = table.options
    for key in _REFUSED_TO_TAG_IF_SET:
        if options.get(key, "").strip():
            yield key
    if options.value(TAG_TO_PARTITION) is not None and table.partition_registry is None:
        yield TAG_TO_PARTITION.key
    if options.value(MANIFEST_FORMAT) not in _MANIFEST_FORMATS:
        yield f"{MANIFEST_FORMAT.key}={options.value(MANIFEST_FORMAT)}"
    yield from _unpublishable(table)


def _unpublishable(table: FileStoreTable) -> Iterator[str]:
    """Yield why the Iceberg metadata of the table cannot be written after each commit."""
    options = table.options
    storage = options.value(ICEBERG_STORAGE)
    if storage == DISABLED:
        return
    if storage not in STORAGES:
        yield f"{ICEBERG_STORAGE.key}={storage}"
    elif iceberg_folder(table.root, options) is None:
        yield f"{ICEBERG_STORAGE.key}={storage} outside of a folder DATABASE.db"
    elif has_external_catalog(options):
        from paimon_core.iceberg.register import unregistrable  # noqa: PLC0415 - fast start

        yield from unregistrable(table)
    if options.value(ICEBERG_STORAGE_LOCATION) not in (None, TABLE_LOCATION, CATALOG_LOCATION):
        yield f"{ICEBERG_STORAGE_LOCATION.key}={options.value(ICEBERG_STORAGE_LOCATION)}"
    if options.value(ICEBERG_FORMAT_VERSION) not in FORMAT_VERSIONS:
        yield f"{ICEBERG_FORMAT_VERSION.key}={options.value(ICEBERG_FORMAT_VERSION)}"
    if options.value(MANIFEST_COMPRESSION).lower() not in AVRO_CODECS:
        yield f"{MANIFEST_COMPRESSION.key}={options.value(MANIFEST_COMPRESSION)}"
    if options.value(DATA_EVOLUTION_ENABLED):
        yield f"{ICEBERG_STORAGE.key} with {DATA_EVOLUTION_ENABLED.key}"
    yield from (f"{ICEBERG_STORAGE.key} with {what}" for what in unpublishable(table.schema))


def _refuse(
    table: FileStoreTable, features: Iterator[str], what: str, *, next_step: str | None = None
) -> None:
    found = sorted(set(features))
    if found:
        names = ", ".join(found)
        raise UnsupportedFeature(
            names,
            f"table {table.name} cannot be {what}: it uses {names}, which is not supported",
            table=table.name,
            next_step=next_step,
        )


def chain_branches(table: FileStoreTable) -> tuple[str, str] | None:
    """Return the names of the snapshot and the delta branch that a chain table reads.

    None for other tables, and for these two branches by themselves (Java: `FileStoreTableFactory`).
    """
    snapshot, delta = (table.options.get(role, "").strip() for role in ChainRole)
    if not table.options.flag(CHAIN_TABLE) or not snapshot or not delta:
        return None
    return None if table.branch.lower() in (snapshot.lower(), delta.lower()) else (snapshot, delta)


def chain_role(table: FileStoreTable) -> ChainRole | None:
    """Return the role of the table's branch; None for other branches and tables.

    Java: `ChainTableUtils.isScanFallbackSnapshotBranch`, `isScanFallbackDeltaBranch`.
    """
    if not table.options.flag(CHAIN_TABLE):
        return None
    for role in ChainRole:
        name = table.options.get(role, "").strip()
        if name and name.lower() == table.branch.lower():
            return role
    return None


def shows_postponed(table: FileStoreTable) -> bool:
    """Return whether batch reads merge postponed rows (Java: `PostponeMergeOnRead.configured`)."""
    return (
        table.options.value(POSTPONE_MERGE_ON_READ)
        and table.bucket_mode is BucketMode.POSTPONE
        and table.has_primary_key
    )


def check_streamable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent reading as a stream."""
    check_readable(table)
    if shows_postponed(table):
        raise UnsupportedFeature(
            f"{POSTPONE_MERGE_ON_READ.key} in streams",
            f"Option '{POSTPONE_MERGE_ON_READ.key}' is only supported for batch reads.",
            table=table.name,
            next_step=f"set {POSTPONE_MERGE_ON_READ.key}=false for the stream",
        )


def check_readable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent reading."""
    _refuse(table, _unqueryable_features(table), "read")


def check_shown(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature if queries must not show all values of the table.

    The bounds of files are values of rows too; in Java, `FilesTable` plans an authorized scan.
    """
    _refuse(table, _hiding_features(table), "read")


def check_rows_readable(
    table: FileStoreTable, snapshot: Snapshot, columns: Collection[str] | None = None
) -> None:
    """Raise UnsupportedFeature naming what prevents reading these columns of a whole snapshot.

    Unlike changes, whole snapshots of tables with data evolution and BLOBs can be read.
    """
    supported = set(_WHOLE_ONLY)
    if not chain_branches(table):
        supported.add(CHAIN_TABLE)
    found = [f for f in _unqueryable_features(table, columns) if f not in supported]
    blobs = list(_unreadable_blobs(table, columns))
    options = "" if found else ", ".join(sorted({option for _, option in blobs if option}))
    features = chain(found, (feature for feature, _ in blobs))
    _refuse(table, features, "read", next_step=f"set {options}" if options else None)
    check_snapshot_readable(table, snapshot)


def check_snapshot_readable(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Raise UnsupportedFeature for an unknown index type that the snapshot needs for its rows.

    The snapshot decides, not the options: a table may disable deletion vectors and still have some.
    Global indexes and those of primary keys only help to find rows, so reading does without them.
    """
    needed = (e.index_file for e in table.index_entries(snapshot))
    found = {file.index_type for file in needed if file.global_index is None}
    _refuse(table, iter(f"index type {t}" for t in found - _READABLE_INDEXES), "read")


def check_snapshot_rewritable(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Raise UnsupportedFeature for index files that would not fit rewritten data files.

    B-trees and bitmaps of primary-key tables are built again.
    """
    files = (e.index_file for e in table.index_entries(snapshot))
    found = {f.index_type for f in files if f.index_type not in COLUMNS or not has_sources(f)}
    _refuse(table, iter(f"index type {t}" for t in found - _READABLE_INDEXES), "rewritten")


def check_snapshot_compactable(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Raise UnsupportedFeature for index files that would not fit compacted data files.

    With data evolution, rows keep their ids, by which global indexes name them.
    """
    if not table.options.value(DATA_EVOLUTION_ENABLED):
        check_snapshot_rewritable(table, snapshot)
        return
    found = [e.index_file for e in table.index_entries(snapshot)]
    own = {f.index_type for f in found if f.global_index is None}
    _refuse(table, iter(f"index type {t}" for t in own - {DELETION_VECTORS_INDEX}), "compacted")


def check_writable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent writing."""
    _refuse(table, unwritable_features(table), "written")


def check_rows_changeable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature unless single rows may be updated or deleted.

    A chain table reads rows of its branches, and a change would be written beside them.
    """
    check_writable(table)
    branches = chain_branches(table)
    if branches is not None:
        next_step = "change the rows of one of the branches: " + ", ".join(
            f"`{table.name.rpartition('.')[2]}$branch_{b}`" for b in branches
        )
        _refuse(table, iter([CHAIN_TABLE]), "changed row by row", next_step=next_step)


def check_not_chain(table: FileStoreTable, what: str) -> None:
    """Raise UnsupportedFeature for a chain table or one of its branches."""
    if table.options.flag(CHAIN_TABLE):
        _refuse(table, iter([CHAIN_TABLE]), what)


def check_not_renumbered(table: FileStoreTable, what: str) -> None:
    """Raise UnsupportedFeature if a commit would put old rows above newer ones.

    With `sequence.snapshot-ordering`, all rows of a commit are as new as its snapshot.
    """
    if table.options.value(SNAPSHOT_ORDERING):
        _refuse(table, iter([SNAPSHOT_ORDERING.key]), what)


def check_compactable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent compaction."""
    found = list(uncompactable_features(table))
    clustered = len(found) == 1 and found[0].startswith(CLUSTERING_INCREMENTAL.key)
    next_step = "run sort_compact instead" if clustered else None
    _refuse(table, iter(found), "compacted", next_step=next_step)


def check_rescalable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent rescaling."""
    _refuse(table, unrescalable_features(table), "rescaled")


def check_sortable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent sorting."""
    _refuse(table, unsortable_features(table), "sorted")


def check_committable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming what a native commit would leave outdated."""
    _refuse(table, _uncommittable(table), "committed to")


def check_droppable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature for a branch of a chain table, whose partitions need each other.

    Java: `metastore/ChainTableCommitPreCallback`, `ChainTableOverwriteCommitCallback`.
    """
    if table.options.flag(CHAIN_TABLE) and chain_branches(table) is None:
        what = f"branch {table.branch} changed by dropping partitions"
        next_step = "run expire_partitions on the table itself, or use Java Paimon"
        _refuse(table, iter([CHAIN_TABLE]), what, next_step=next_step)


def check_taggable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature naming the features in use that prevent changing tags."""
    _refuse(table, _untaggable(table), "tagged")
