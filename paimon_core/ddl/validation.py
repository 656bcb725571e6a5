"""Validates schemas like Java (Java: `schema/SchemaValidation`, `TableSchema`, 1.4.2).

Every new schema is validated before it is written, so that Java can open every table.  Features
that only Java maintains are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from paimon_core.ddl.blob_columns import check_blobs
from paimon_core.ddl.chain_table import check_chain_table
from paimon_core.ddl.column_directives import VECTOR_FIELD
from paimon_core.ddl.indexed_types import check_indexed_types
from paimon_core.ddl.map_layouts import check_map_layouts
from paimon_core.errors import InvalidArgument, SchemaError, UnsupportedFeature
from paimon_core.features import PK_CLUSTERING
from paimon_core.format.avro.schema import file_schema
from paimon_core.index.global_index.keys import KeyType
from paimon_core.index.primary_key import COLUMNS, level_indexes
from paimon_core.lsm.changelog_producers import CHANGELOG_PRODUCERS, changelog_producer_of
from paimon_core.lsm.engines.traits import MERGE_ENGINES, traits_of
from paimon_core.options import (
    BUCKET,
    BUCKET_FUNCTION,
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_PRODUCER,
    CLUSTERING_COLUMNS,
    CLUSTERING_INCREMENTAL,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MERGE_ON_READ,
    FILE_FORMAT,
    FULL_COMPACTION_DELTA_COMMITS,
    MERGE_ENGINE,
    PARTITION_EXPIRATION_TIME,
    READ_SEQUENCE_NUMBER,
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
    ROW_TRACKING_ENABLED,
    ROWKIND_FIELD,
    SCAN_FALLBACK_BRANCH,
    SCAN_PRIMARY_BRANCH,
    SEQUENCE_FIELD,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_ORDERING,
    STREAMING_READ_OVERWRITE,
    TARGET_FILE_ROW_NUM,
    TYPES_WITH_SNAPSHOTS,
    UPSERT_KEY,
    WRITE_ONLY,
    Option,
    parse_bool,
    parse_duration_millis,
)
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.schema.scan_options import check_scan_options
from paimon_core.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from paimon_core.schema.tracked import ROW_ID
from paimon_core.types.data_types import AtomicType, TypeRoot, type_roots
from paimon_core.types.sql import type_to_sql

_NESTED: Final = frozenset(
    {TypeRoot.MAP, TypeRoot.ARRAY, TypeRoot.ROW, TypeRoot.MULTISET, TypeRoot.VECTOR}
)
_VECTOR_FORMAT: Final = "vector.file.format"
_SYSTEM_FIELDS: Final = frozenset({SEQUENCE_NUMBER, VALUE_KIND, ROW_ID, "_LEVEL", "rowkind"})
_BUCKET_FUNCTIONS: Final = ("default", "mod", "hive")
_FORMATS: Final = ("parquet", "orc", "avro")
_DEFAULT_AGGREGATE: Final = "default-aggregate-function"

_BUCKET_APPEND_ORDERED: Final = Option("bucket-append-ordered", parse_bool, True)


def validate_schema(schema: TableSchema) -> None:
    """Raise SchemaError for a schema that Java refuses, UnsupportedFeature for a feature."""
    try:
        for check in _CHECKS:
            check(schema)
    except InvalidArgument as e:
        raise SchemaError(e.message) from e


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads like an assertion
    if not condition:
        raise SchemaError(message)


def _check_known_words(schema: TableSchema) -> None:
    options = schema.options
    for option, words in (
        (MERGE_ENGINE, MERGE_ENGINES),
        (CHANGELOG_PRODUCER, CHANGELOG_PRODUCERS),
    ):
        value = options.value(option)
        _require(
            value in words, f"{option.key} is {value!r}, but must be one of {', '.join(words)}"
        )
    function = options.get(BUCKET_FUNCTION.key, "default")
    _require(function in _BUCKET_FUNCTIONS, f"unknown bucket function {function!r}")
    kind = options.get("type", "table").lower()
    if kind not in TYPES_WITH_SNAPSHOTS:
        raise UnsupportedFeature(f"type={kind}")


def _check_keys(schema: TableSchema) -> None:
    types = {f.name: f.type for f in schema.fields}
    upsert = schema.options.value(UPSERT_KEY)
    for what, keys in (
        ("primary key", schema.primary_keys),
        ("partition key", schema.partition_keys),
        ("upsert key", upsert),
    ):
        for key in keys:
            _require(key in types, f"the {what} {key!r} is not a column")
            _require(
                types[key].root not in _NESTED,
                f"the {what} {key!r} has the type {type_to_sql(types[key])}; "
                "nested types cannot be keys",
            )
    _require(
        not (upsert and schema.primary_keys), "upsert-key cannot be combined with a primary key"
    )
    if schema.primary_keys:
        _require(
            any(k not in schema.partition_keys for k in schema.primary_keys),
            f"the primary key ({', '.join(schema.primary_keys)}) consists of partition keys only, "
            "so a partition could hold only one row",
        )


def _check_bucket_key(schema: TableSchema) -> None:
    text = schema.options.get("bucket-key")
    if text is None or not text.strip():
        return
    keys = text.split(",")  # as in Java, blanks are part of the name
    _require(len(set(keys)) == len(keys), f"bucket-key names a column twice: {text}")
    for key in keys:
        _require(key in schema.names, f"the bucket key {key!r} is not a column")
        _require(
            key not in schema.partition_keys,
            f"the bucket key {key!r} is a partition key: it has the same value in the whole partition",
        )
        _require(
            not schema.primary_keys or key in schema.primary_keys,
            f"the bucket key {key!r} is not part of the primary key",
        )


def _check_bucket(schema: TableSchema) -> None:
    options = schema.options
    buckets = options.value(BUCKET)
    if buckets == -1:
        _require(
            "bucket-key" not in options, "bucket-key needs a fixed number of buckets, not bucket=-1"
        )
        _require(
            bool(schema.primary_keys) or FULL_COMPACTION_DELTA_COMMITS.key not in options,
            "full-compaction.delta-commits cannot be combined with an append table of bucket=-1",
        )
        return
    postpone = buckets == POSTPONE_BUCKET and bool(schema.primary_keys)
    _require(
        buckets >= 1 or postpone, f"the number of buckets must be greater than 0, not {buckets}"
    )
    _require(
        bool(schema.primary_keys) or bool(schema.bucket_keys),
        "an append table with a fixed number of buckets needs a bucket-key",
    )
    nested = [
        f.name for f in schema.fields if f.name in schema.bucket_keys and f.type.root in _NESTED
    ]
    _require(not nested, f"nested types cannot be bucket keys: {', '.join(nested)}")


def _check_field_options(schema: TableSchema) -> None:
    for key in schema.options:
        if not key.startswith("fields."):
            continue
        for name in key.split(".")[1].split(","):
            _require(
                name in (*schema.names, _DEFAULT_AGGREGATE),
                f"the option {key!r} names {name!r}, which is not a column",
            )


def _check_sequence_field(schema: TableSchema) -> None:
    # Java's split drops empty names at the end, and no others.
    text = schema.options.get(SEQUENCE_FIELD.key, "").rstrip(",")
    names = [n.strip() for n in text.split(",")]
    if names == [""]:
        return
    for name in names:
        _require(name in schema.names, f"the sequence field {name!r} is not a column")
        _require(
            f"fields.{name}.aggregate-function" not in schema.options,
            f"the sequence field {name!r} cannot be aggregated",
        )
        _require(names.count(name) == 1, f"the sequence field {name!r} is given more than once")
    engine = traits_of(schema.options)
    _require(
        engine.allows_sequence_field,
        f"sequence.field cannot be combined with merge-engine={engine.name}",
    )
    crossing = schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys)
    _require(
        not crossing,
        "sequence.field cannot be combined with updates across partitions: the primary key "
        f"({', '.join(schema.primary_keys)}) does not hold all partition keys "
        f"({', '.join(schema.partition_keys)})",
    )


def _check_merge_engine(schema: TableSchema) -> None:
    if schema.primary_keys:
        traits_of(schema.options).check(schema)


def _check_changelog(schema: TableSchema) -> None:
    producer = changelog_producer_of(schema.options)
    overwrite = schema.options.value(STREAMING_READ_OVERWRITE)
    _require(
        bool(schema.primary_keys) or not producer.needs_primary_key,
        "Can not set changelog-producer on table without primary keys, please define primary keys.",
    )
    _require(
        not (overwrite and producer.by_compaction),
        "streaming-read-overwrite would read changes twice with "
        f"changelog-producer={producer.name}",
    )
    _require(
        bool(schema.primary_keys) or not overwrite,
        "streaming-read-overwrite needs a primary key; an append table has "
        "streaming-read-append-overwrite",
    )
    engine = traits_of(schema.options)
    _require(
        engine.changelog_producers is None or producer.name in engine.changelog_producers,
        f"merge-engine={engine.name} cannot be combined with changelog-producer={producer.name}",
    )


def _check_file_rows(schema: TableSchema) -> None:
    schema.options.value(TARGET_FILE_ROW_NUM)  # raises if it is none


def _check_retention(schema: TableSchema) -> None:
    options = schema.options
    least = options.value(SNAPSHOT_NUM_RETAINED_MIN)
    most = options.value(SNAPSHOT_NUM_RETAINED_MAX)
    changelog_least = options.value(CHANGELOG_NUM_RETAINED_MIN)
    changelog_most = options.value(CHANGELOG_NUM_RETAINED_MAX)
    for kind, low, high in (
        ("snapshot", least, most),
        (
            "changelog",
            least if changelog_least is None else changelog_least,
            most if changelog_most is None else changelog_most,
        ),
    ):
        _require(low > 0, f"{kind}.num-retained.min must be at least 1, not {low}")
        _require(
            low <= high,
            f"{kind}.num-retained.min ({low}) is greater than {kind}.num-retained.max ({high})",
        )


def _check_columns(schema: TableSchema) -> None:
    for name in schema.names:
        _require(name not in _SYSTEM_FIELDS, f"{name!r} is reserved for Paimon's own columns")
        _require(
            not name.startswith(KEY_PREFIX),
            f"the column {name!r} starts with the prefix of Paimon's key columns",
        )
    _check_vectors(schema)
    check_blobs(schema)
    file_format = schema.options.value(FILE_FORMAT)
    if file_format not in _FORMATS:
        raise UnsupportedFeature(f"file.format={file_format}")
    if file_format == "avro":
        try:
            file_schema(schema.row_type)
        except UnsupportedFeature as e:
            raise SchemaError(f"file.format=avro cannot hold these columns: {e.message}") from e


def _check_vectors(schema: TableSchema) -> None:
    options = schema.options
    types = {f.name: f.type for f in schema.fields}
    for name in filter(None, map(str.strip, options.get(VECTOR_FIELD, "").split(","))):
        _require(name in types, f"{VECTOR_FIELD}: {name!r} is not a column")
        _require(
            types[name].root is TypeRoot.VECTOR,
            f"{VECTOR_FIELD}: {name!r} has the type {type_to_sql(types[name])}, not VECTOR",
        )
    if TypeRoot.VECTOR not in type_roots(schema.row_type):
        return
    if options.value(FILE_FORMAT) != "parquet":
        raise UnsupportedFeature(f"VECTOR columns in {options.value(FILE_FORMAT)} files")
    if _VECTOR_FORMAT in options:
        raise UnsupportedFeature(f"{_VECTOR_FORMAT}={options[_VECTOR_FORMAT]}")


def _check_expiration(schema: TableSchema) -> None:
    options = schema.options
    if PARTITION_EXPIRATION_TIME.key in options:
        _require(bool(schema.partition_keys), "partition.expiration-time needs a partitioned table")
        parse_duration_millis(options[PARTITION_EXPIRATION_TIME.key])
    time_field = options.get(RECORD_LEVEL_TIME_FIELD.key)
    if time_field is None:
        return
    field = schema.row_type.get(time_field)
    _require(field is not None, f"record-level.time-field {time_field!r} is not a column")
    assert field is not None
    allowed = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    _require(
        isinstance(field.type, AtomicType) and field.type.kind in allowed,
        f"record-level.time-field {time_field!r} has the type {type_to_sql(field.type)}; "
        "it must be INT, BIGINT or a timestamp",
    )


def _check_row_options(schema: TableSchema) -> None:
    kind_field = schema.options.value(ROWKIND_FIELD)
    _require(
        kind_field is None or kind_field in schema.names,
        f"rowkind.field {kind_field!r} is not a column",
    )
    _require(
        bool(schema.primary_keys) or not schema.options.value(READ_SEQUENCE_NUMBER),
        f"{READ_SEQUENCE_NUMBER.key} needs a primary key",
    )


def _check_deletion_vectors(schema: TableSchema) -> None:
    if not schema.options.value(DELETION_VECTORS_ENABLED):
        return
    producer = changelog_producer_of(schema.options)
    _require(
        producer.allows_deletion_vectors,
        f"deletion-vectors.enabled cannot be combined with changelog-producer={producer.name}",
    )
    engine = traits_of(schema.options)
    # Java allows the option for first-row with other sort columns, where it has no effect.
    _require(
        engine.allows_deletion_vectors or schema.options.flag(PK_CLUSTERING),
        f"deletion-vectors.enabled cannot be combined with merge-engine={engine.name}",
    )


def _check_clustered_keys(schema: TableSchema) -> None:
    """Java: `validatePkClusteringOverride`."""
    options = schema.options
    if not options.flag(PK_CLUSTERING):
        return
    columns = options.value(CLUSTERING_COLUMNS)
    _require(bool(columns), f"{PK_CLUSTERING} needs {CLUSTERING_COLUMNS.key}")
    types = {f.name: f.type for f in schema.fields}
    for name in columns:
        _require(name in types, f"the column {name!r} of {CLUSTERING_COLUMNS.key} does not exist")
        _require(
            types[name].root not in _NESTED,
            f"the column {name!r} of {CLUSTERING_COLUMNS.key} has the type "
            f"{type_to_sql(types[name])}, whose values have no order",
        )
    engine, producer = traits_of(options), changelog_producer_of(options)
    _require(
        options.value(DELETION_VECTORS_ENABLED) or engine.keeps_first,
        f"{PK_CLUSTERING} needs {DELETION_VECTORS_ENABLED.key}=true",
    )
    for key, allowed in (
        (f"{MERGE_ENGINE.key}={engine.name}", engine.name in ("deduplicate", "first-row")),
        (f"{CHANGELOG_PRODUCER.key}={producer.name}", producer.name in ("none", "input")),
        (SEQUENCE_FIELD.key, not options.value(SEQUENCE_FIELD)),
        (RECORD_LEVEL_EXPIRE_TIME.key, options.value(RECORD_LEVEL_EXPIRE_TIME) is None),
    ):
        _require(allowed, f"{PK_CLUSTERING} cannot be combined with {key}")


def _check_level_indexes(schema: TableSchema) -> None:
    """Java: `validatePrimaryKeySortedIndexes`, 2.0."""
    options = schema.options
    for index in level_indexes(schema):
        KeyType(index.field.type, index.field.name)
        key = COLUMNS[index.kind].key
        _require(bool(schema.primary_keys), f"{key} needs a primary key")
        _require(
            options.value(DELETION_VECTORS_ENABLED),
            f"{key} needs {DELETION_VECTORS_ENABLED.key}=true",
        )
        _require(
            options.value(BUCKET) > 0 or options.value(BUCKET) == POSTPONE_BUCKET,
            f"{key} needs fixed buckets, or {BUCKET.key}={POSTPONE_BUCKET}",
        )
        for other in (PK_CLUSTERING, DELETION_VECTORS_MERGE_ON_READ.key):
            _require(not options.flag(other), f"{key} cannot be combined with {other}")


def _check_snapshot_ordering(schema: TableSchema) -> None:
    """Java: `validateSnapshotSequenceOrdering`, 2.0."""
    if not schema.options.value(SNAPSHOT_ORDERING):
        return
    _require(bool(schema.primary_keys), f"{SNAPSHOT_ORDERING.key} needs a primary key")
    _require(
        not schema.options.value(SEQUENCE_FIELD),
        f"{SNAPSHOT_ORDERING.key} cannot be combined with {SEQUENCE_FIELD.key}",
    )
    _require(
        schema.options.value(WRITE_ONLY),
        f"{SNAPSHOT_ORDERING.key} needs {WRITE_ONLY.key}=true: only a dedicated compaction knows the "
        "snapshots of the rows",
    )


def _check_row_tracking(schema: TableSchema) -> None:
    if schema.options.value(ROW_TRACKING_ENABLED):
        _require(schema.options.value(BUCKET) == -1, "row-tracking.enabled needs bucket=-1")
        _require(
            not schema.primary_keys, "row-tracking.enabled cannot be combined with a primary key"
        )
    if schema.options.value(DATA_EVOLUTION_ENABLED):
        _require(
            schema.options.value(ROW_TRACKING_ENABLED),
            "Data evolution config must enabled with row-tracking.enabled",
        )
        # 1.4.2 refuses deletion vectors, too; 2.0 has them.
        _require(
            not schema.options.value(CLUSTERING_INCREMENTAL),
            f"Data evolution config must disabled with {CLUSTERING_INCREMENTAL.key}",
        )


def _check_clustering(schema: TableSchema) -> None:
    options = schema.options
    if not options.value(CLUSTERING_INCREMENTAL):
        return
    _require(
        not schema.primary_keys, "clustering.incremental cannot be combined with a primary key"
    )
    if options.value(BUCKET) != -1:
        _require(
            not options.value(_BUCKET_APPEND_ORDERED),
            "clustering.incremental with buckets needs bucket-append-ordered=false",
        )
        _require(
            not options.value(DELETION_VECTORS_ENABLED),
            "clustering.incremental with buckets cannot be combined with deletion-vectors.enabled",
        )


def _check_scan(schema: TableSchema) -> None:
    check_scan_options(schema.options)


_CHECKS: Final[tuple[Callable[[TableSchema], None], ...]] = (
    _check_known_words,
    _check_keys,
    _check_bucket_key,
    _check_bucket,
    _check_scan,
    _check_field_options,
    _check_sequence_field,
    _check_merge_engine,
    _check_changelog,
    _check_file_rows,
    _check_retention,
    _check_columns,
    _check_expiration,
    check_map_layouts,
    _check_row_options,
    _check_deletion_vectors,
    _check_row_tracking,
    _check_clustered_keys,
    _check_level_indexes,
    _check_snapshot_ordering,
    _check_clustering,
    check_chain_table,
    check_indexed_types,
)


def check_fallback_branch(options: Mapping[str, str], branch_exists: Callable[[str], bool]) -> None:
    """Raise SchemaError for a missing fallback branch (Java: `validateFallbackBranch`)."""
    keys = (SCAN_FALLBACK_BRANCH.key, SCAN_PRIMARY_BRANCH.key)
    named = {k: options[k] for k in keys if options.get(k, "").strip()}
    _require(len(named) < 2, f"{keys[0]} and {keys[1]} cannot both be set")
    for key, branch in named.items():
        _require(branch_exists(branch), f"{key} names the branch {branch!r}, which does not exist")
