"""Table options: typed access to the strings that a schema stores (Java: `CoreOptions`).

    >>> Options({"bucket": "4"}).value(BUCKET)
    4

Only options that Caretaker uses are defined here.  An invalid value raises InvalidArgument with key
and value; there is no silent fallback.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Generic, TypeVar

from paimon_core.errors import InvalidArgument

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MEMORY_UNITS: Final = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": 1024,
    "kb": 1024,
    "kibibytes": 1024,
    "m": 1024**2,
    "mb": 1024**2,
    "mebibytes": 1024**2,
    "g": 1024**3,
    "gb": 1024**3,
    "gibibytes": 1024**3,
    "t": 1024**4,
    "tb": 1024**4,
    "tebibytes": 1024**4,
}
_NANOS: Final = {
    "ns": 1,
    "nano": 1,
    "nanos": 1,
    "nanosecond": 1,
    "nanoseconds": 1,
    "µs": 1_000,
    "micro": 1_000,
    "micros": 1_000,
    "microsecond": 1_000,
    "microseconds": 1_000,
    "": 1_000_000,
    "ms": 1_000_000,
    "milli": 1_000_000,
    "millis": 1_000_000,
    "millisecond": 1_000_000,
    "milliseconds": 1_000_000,
    "s": 10**9,
    "sec": 10**9,
    "secs": 10**9,
    "second": 10**9,
    "seconds": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "mins": 60 * 10**9,
    "minute": 60 * 10**9,
    "minutes": 60 * 10**9,
    "h": 3600 * 10**9,
    "hour": 3600 * 10**9,
    "hours": 3600 * 10**9,
    "d": 86400 * 10**9,
    "day": 86400 * 10**9,
    "days": 86400 * 10**9,
}
_WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NUMBER_UNIT: Final = re.compile(r"^\s*(\d{1,19})\s*([^\d\s]*)\s*$")


def parse_memory_size(text: str) -> int:
    """Return the bytes of a size such as "128 mb" (Java: `MemorySize.parse`)."""
    match = _NUMBER_UNIT.match(text)
    unit = match and _MEMORY_UNITS.get(match.group(2).lower())
    if not match or unit is None:
        raise InvalidArgument(f"not a memory size: {text[:80]!r} (expected for example '128 mb')")
    return int(match.group(1)) * unit


def parse_duration_millis(text: str) -> int:
    """Return the milliseconds of a duration such as "1 d" (Java: `TimeUtils.parseDuration`).

    A number without unit is milliseconds; fractions of a millisecond are truncated.
    """
    match = _NUMBER_UNIT.match(text)
    unit = match and _NANOS.get(match.group(2).lower())
    if not match or unit is None:
        raise InvalidArgument(
            f"not a duration: {text[:80]!r} (expected for example '1 d' or '90 min')"
        )
    return int(match.group(1)) * unit // 1_000_000


def parse_bool(text: str) -> bool:
    """Parse "true" or "false" in any case."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise InvalidArgument(f"not a boolean: {text!r} (expected 'true' or 'false')")
    return lowered == "true"


def parse_int(text: str) -> int:
    """Parse an integer in plain digits (Java: `Integer.parseInt`, which refuses "1_000")."""
    if not _WHOLE.fullmatch(text):
        raise InvalidArgument("not a whole number")
    return int(text)


def parse_float(text: str) -> float:
    """Parse a number with optional fraction and exponent, without Python-only forms."""
    if not _NUMBER.fullmatch(text.strip()):
        raise InvalidArgument("not a number")
    return float(text)


@dataclass(frozen=True, slots=True)
class Option(Generic[T_co]):
    """An option: its key, its parser, its default, and older names."""

    key: str
    parse: Callable[[str], T_co]
    default: T_co
    fallback_keys: tuple[str, ...] = ()


class Options(Mapping[str, str]):
    """An immutable mapping of option keys to strings, as stored in a schema."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Options({self._values!r})"

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Options) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def value(self, option: Option[T]) -> T:
        """Return the option's value, or its default if absent; InvalidArgument if it is invalid."""
        for key in (option.key, *option.fallback_keys):
            text = self._values.get(key)
            if text is None:
                continue
            try:
                return option.parse(text)
            except ValueError as e:
                why = e.message if isinstance(e, InvalidArgument) else str(e)
                raise InvalidArgument(
                    f"table option {key!r} has the unreadable value {text!r}: {why}",
                    next_step="correct the option, with ALTER TABLE ... SET or where it was given "
                    "for this run, and run again",
                ) from e
        return option.default

    def flag(self, key: str) -> bool:
        """Return whether this option is "true".

        False if absent, InvalidArgument for other words.
        """
        return self.value(Option(key, parse_bool, False))

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names that this option lists, separated by commas."""
        return tuple(n.strip() for n in self._values.get(key, "").split(",") if n.strip())

    def has(self, option: Option[T]) -> bool:
        """Return whether the option (or an older name of it) is set."""
        return any(k in self._values for k in (option.key, *option.fallback_keys))

    def matching(self, prefix: str, suffix: str = "") -> dict[str, str]:
        """Return the part between prefix and suffix -> value for every key that has both."""
        end = len(suffix)
        return {
            k[len(prefix) : len(k) - end]: v
            for k, v in self._values.items()
            if k.startswith(prefix) and k.endswith(suffix) and len(k) > len(prefix) + end
        }


_MISTYPED: Final = 0.94
"""The minimum similarity of two names that differ by one letter."""


def lacking(own: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted options that are not set under any of their names."""
    return {k: v for k, v in wanted.items() if not any(n in own for n in _names_of(k))}


def _names_of(key: str) -> tuple[str, ...]:
    return next(
        (names for o in all_options() if key in (names := (o.key, *o.fallback_keys))), (key,)
    )


def check_option(key: str, text: str) -> None:
    """Raise InvalidArgument if Caretaker knows the option and its value is invalid."""
    for option in all_options():
        if key in (option.key, *option.fallback_keys):
            Options({key: text}).value(option)


def similar_option(key: str) -> str | None:
    """Return the option whose key differs from this one by a letter; None if there is none."""
    names = [name for o in all_options() for name in (o.key, *o.fallback_keys)]
    if key in names:
        return None
    near = get_close_matches(key, names, n=1, cutoff=_MISTYPED)
    return near[0] if near and abs(len(near[0]) - len(key)) <= 1 else None


def all_options() -> Iterator[Option[Any]]:
    """Yield every option that Caretaker uses."""
    return (o for o in tuple(globals().values()) if isinstance(o, Option))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _lower(text: str) -> str:
    return text.strip().lower()


def _by_level(text: str) -> Mapping[int, str]:
    """Parse level -> value from a string such as "0:avro,3:parquet"."""
    pairs = (part.split(":", 1) for part in text.split(",") if part.strip())
    return {int(level): value.strip().lower() for level, value in pairs}


def _optional_int(text: str) -> int | None:
    return parse_int(text)


def _optional_size(text: str) -> int | None:
    return parse_memory_size(text)


def _above_zero(text: str) -> int:
    number = parse_int(text)
    if number <= 0:
        raise ValueError("it must be above 0")
    return number


def _optional_duration(text: str) -> int | None:
    return parse_duration_millis(text)


def _part_of_name(text: str) -> str:
    # Java takes a folder, and looks for the file beside it: then the rows are lost.
    if any(separator in text for separator in "/\\\0"):
        raise InvalidArgument("file names begin with it, so it must hold no separator and no NUL")
    return text


def _optional_text(text: str) -> str | None:
    return text


MB: Final = 1024**2

# --- layout -------------------------------------------------------------------------------------
BUCKET: Final = Option("bucket", parse_int, -1)
SCAN_PLAN_SORT_PARTITION: Final = Option("scan.plan-sort-partition", parse_bool, False)
BUCKET_FUNCTION: Final = Option("bucket-function.type", _lower, "default")
PATH: Final = Option("path", _optional_text, None)
FILE_FORMAT: Final = Option("file.format", _lower, "parquet")
FILE_COMPRESSION: Final = Option("file.compression", _lower, "zstd")
ZSTD_LEVEL: Final = Option("file.compression.zstd-level", parse_int, 1)
FILE_FORMAT_PER_LEVEL: Final[Option[Mapping[int, str]]] = Option(
    "file.format.per.level", _by_level, {}
)
FILE_COMPRESSION_PER_LEVEL: Final[Option[Mapping[int, str]]] = Option(
    "file.compression.per.level", _by_level, {}
)
STATS_MODE_PER_LEVEL: Final[Option[Mapping[int, str]]] = Option(
    "metadata.stats-mode.per.level", _by_level, {}
)
CHANGELOG_FILE_FORMAT: Final[Option[str | None]] = Option("changelog-file.format", _lower, None)
CHANGELOG_FILE_COMPRESSION: Final[Option[str | None]] = Option(
    "changelog-file.compression", _lower, None
)
CHANGELOG_FILE_STATS_MODE: Final[Option[str | None]] = Option(
    "changelog-file.stats-mode", _lower, None
)
FILE_INDEX_IN_MANIFEST_THRESHOLD: Final = Option(
    "file-index.in-manifest-threshold", parse_memory_size, 500
)
FILE_INDEX_READ_ENABLED: Final = Option("file-index.read.enabled", parse_bool, True)
ORC_LEGACY_LTZ: Final = Option("orc.timestamp-ltz.legacy.type", parse_bool, True)
ORC_TIME_ZONE: Final = Option("caretaker.orc-time-zone", str, "UTC")
DATA_FILE_PREFIX: Final = Option("data-file.prefix", _part_of_name, "data-")
CHANGELOG_FILE_PREFIX: Final = Option("changelog-file.prefix", _part_of_name, "changelog-")
FILE_SUFFIX_INCLUDE_COMPRESSION: Final = Option(
    "file.suffix.include.compression", parse_bool, False
)
DATA_FILE_PATH_DIRECTORY: Final = Option("data-file.path-directory", _optional_text, None)
DATA_FILE_EXTERNAL_PATHS: Final[Option[tuple[str, ...]]] = Option(
    "data-file.external-paths", _names, ()
)
GLOBAL_INDEX_EXTERNAL_PATH: Final = Option("global-index.external-path", _optional_text, None)
GLOBAL_INDEX_ENABLED: Final = Option("global-index.enabled", parse_bool, True)
GLOBAL_INDEX_COLUMN_UPDATE_ACTION: Final = Option(
    "global-index.column-update-action", _lower, "throw_error"
)
SORTED_INDEX_RECORDS_PER_RANGE: Final = Option(
    "sorted-index.records-per-range", parse_int, 10_000_000, ("btree-index.records-per-range",)
)
BITMAP_INDEX_BLOCK_SIZE: Final = Option(
    "bitmap-index.dictionary-block-size", parse_memory_size, 16 * 1024
)
BITMAP_INDEX_COMPRESSION: Final = Option("bitmap-index.compression", _lower, "none")
BITMAP_INDEX_COMPRESSION_LEVEL: Final = Option("bitmap-index.compression-level", parse_int, 1)
PK_BITMAP_INDEX_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    "pk-bitmap.index.columns", _names, ()
)
PK_BTREE_INDEX_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    "pk-btree.index.columns", _names, ()
)
BTREE_INDEX_BLOCK_SIZE: Final = Option("btree-index.block-size", parse_memory_size, 64 * 1024)
BTREE_INDEX_COMPRESSION: Final = Option("btree-index.compression", _lower, "none")
BTREE_INDEX_COMPRESSION_LEVEL: Final = Option("btree-index.compression-level", parse_int, 1)
EXTERNAL_PATHS_STRATEGY: Final = Option("data-file.external-paths.strategy", _lower, "none")
EXTERNAL_PATHS_SPECIFIC_FS: Final = Option(
    "data-file.external-paths.specific-fs", _optional_text, None
)
EXTERNAL_PATHS_WEIGHTS: Final[Option[tuple[int, ...]]] = Option(
    "data-file.external-paths.weights", lambda text: tuple(map(int, _names(text))), ()
)
INDEX_FILE_IN_DATA_FILE_DIR: Final = Option("index-file-in-data-file-dir", parse_bool, False)
PARTITION_DEFAULT_NAME: Final = Option("partition.default-name", str, "__DEFAULT_PARTITION__")
PARTITION_LEGACY_NAME: Final = Option("partition.legacy-name", parse_bool, True)
DATA_FILE_THIN_MODE: Final = Option("data-file.thin-mode", parse_bool, False)
STATS_MODE: Final = Option("metadata.stats-mode", _lower, "truncate(16)")
STATS_DENSE_STORE: Final = Option("metadata.stats-dense-store", parse_bool, True)
STATS_KEEP_FIRST_N: Final = Option("metadata.stats-keep-first-n-columns", parse_int, -1)
MANIFEST_FORMAT: Final = Option("manifest.format", _lower, "avro")
MANIFEST_COMPRESSION: Final = Option("manifest.compression", _lower, "zstd")
MANIFEST_TARGET_SIZE: Final = Option("manifest.target-file-size", parse_memory_size, 8 * MB)
MANIFEST_MERGE_MIN_COUNT: Final = Option("manifest.merge-min-count", parse_int, 30)
MANIFEST_FULL_COMPACTION_SIZE: Final = Option(
    "manifest.full-compaction-threshold-size", parse_memory_size, 16 * MB
)

IGNORE_EMPTY_COMMIT: Final = Option("snapshot.ignore-empty-commit", parse_bool, default=True)

# --- clustering ---------------------------------------------------------------------------------
SORT_RANGE_STRATEGY: Final = Option("sort-compaction.range-strategy", _lower, "size")
SORT_SAMPLE_MAGNIFICATION: Final = Option(
    "sort-compaction.local-sample.magnification", parse_int, 1000
)
ZORDER_TEXT_BYTES: Final = Option("zorder.var-length-contribution", parse_int, 8)
CLUSTERING_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    "clustering.columns", _names, (), ("sink.clustering.by-columns",)
)
CLUSTERING_STRATEGY: Final = Option(
    "clustering.strategy", _lower, "auto", ("sink.clustering.strategy",)
)
CLUSTERING_INCREMENTAL: Final = Option("clustering.incremental", parse_bool, False)
CLUSTERING_HISTORY_IDLE: Final = Option(
    "clustering.history-partition.idle-to-full-sort", _optional_duration, None
)
CLUSTERING_HISTORY_LIMIT: Final = Option("clustering.history-partition.limit", parse_int, 5)

# --- merging ------------------------------------------------------------------------------------
MERGE_ENGINE: Final = Option("merge-engine", _lower, "deduplicate")
IGNORE_DELETE: Final = Option(
    "ignore-delete",
    parse_bool,
    False,
    (
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
)
TYPES_WITH_SNAPSHOTS: Final = ("table", "materialized-table")
"""The values of `type` with which a table is Paimon's own (Java: `AbstractCatalog.createTable`)."""
READ_SEQUENCE_NUMBER: Final = Option("table-read.sequence-number.enabled", parse_bool, False)
IGNORE_UPDATE_BEFORE: Final = Option("ignore-update-before", parse_bool, False)
SEQUENCE_FIELD: Final[Option[tuple[str, ...]]] = Option("sequence.field", _names, ())
SEQUENCE_FIELD_SORT_ORDER: Final = Option("sequence.field.sort-order", _lower, "ascending")
AGGREGATION_REMOVE_RECORD_ON_DELETE: Final = Option(
    "aggregation.remove-record-on-delete", parse_bool, False
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE: Final = Option(
    "partial-update.remove-record-on-delete", parse_bool, False
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP: Final[Option[tuple[str, ...]]] = Option(
    "partial-update.remove-record-on-sequence-group", _names, ()
)
ROWKIND_FIELD: Final = Option("rowkind.field", _optional_text, None)
FULL_COMPACTION_DELTA_COMMITS: Final[Option[int | None]] = Option(
    "full-compaction.delta-commits", _above_zero, None
)
CHANGELOG_PRODUCER: Final = Option("changelog-producer", _lower, "none")
CHANGELOG_ROW_DEDUPLICATE: Final = Option("changelog-producer.row-deduplicate", parse_bool, False)
CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "changelog-producer.row-deduplicate-ignore-fields", lambda text: tuple(text.split(",")), ()
)
DELETION_VECTORS_ENABLED: Final = Option("deletion-vectors.enabled", parse_bool, False)
DELETION_VECTORS_MERGE_ON_READ: Final = Option("deletion-vectors.merge-on-read", parse_bool, False)
DELETION_VECTOR_BITMAP64: Final = Option("deletion-vectors.bitmap64", parse_bool, False)
DELETION_VECTOR_FILE_SIZE: Final = Option(
    "deletion-vector.index-file.target-size", parse_memory_size, 2 * MB
)
FORCE_LOOKUP: Final = Option("force-lookup", parse_bool, False)
RECORD_LEVEL_EXPIRE_TIME: Final = Option("record-level.expire-time", _optional_duration, None)
RECORD_LEVEL_TIME_FIELD: Final = Option("record-level.time-field", _optional_text, None)

# --- writing and compaction ---------------------------------------------------------------------
WRITE_ONLY: Final = Option("write-only", parse_bool, False, ("write.compaction-skip",))
TARGET_FILE_SIZE: Final = Option("target-file-size", _optional_size, None)
TARGET_FILE_ROW_NUM: Final = Option("target-file-row-num", _above_zero, 2**63 - 1)
NUM_SORTED_RUN_TRIGGER: Final = Option("num-sorted-run.compaction-trigger", parse_int, 5)
NUM_LEVELS: Final = Option("num-levels", _optional_int, None)
MAX_SIZE_AMPLIFICATION: Final = Option("compaction.max-size-amplification-percent", parse_int, 200)
SIZE_RATIO: Final = Option("compaction.size-ratio", parse_int, 1)
COMPACTION_MIN_FILE_NUM: Final = Option("compaction.min.file-num", parse_int, 5)
COMPACTION_FORCE_UP_LEVEL_0: Final = Option("compaction.force-up-level-0", parse_bool, False)
COMPACTION_TOTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.total-size-threshold", _optional_size, None
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.incremental-size-threshold", _optional_size, None
)
COMPACTION_OFF_PEAK_START: Final = Option("compaction.offpeak.start.hour", parse_int, -1)
COMPACTION_OFF_PEAK_END: Final = Option("compaction.offpeak.end.hour", parse_int, -1)
COMPACTION_OFF_PEAK_RATIO: Final = Option("compaction.offpeak-ratio", parse_int, 0)
COMPACTION_SMALL_FILE_RATIO: Final[Option[float | None]] = Option(
    "compaction.small-file-ratio", parse_float, None
)
COMPACTION_SKIP_EXPIRED_PARTITIONS: Final = Option(
    "compaction.skip-expired-partitions", parse_bool, False
)
COMPACTION_DELETE_RATIO_THRESHOLD: Final = Option(
    "compaction.delete-ratio-threshold", parse_float, 0.2
)
LOOKUP_COMPACT: Final = Option("lookup-compact", _lower, "radical")
LOOKUP_COMPACT_MAX_INTERVAL: Final = Option("lookup-compact.max-interval", _optional_int, None)
OPEN_FILE_COST: Final = Option("source.split.open-file-cost", parse_memory_size, 4 * MB)
COMPACTION_OPTIMIZATION_INTERVAL: Final = Option(
    "compaction.optimization-interval", _optional_duration, None
)
COMPACTION_FORCE_REWRITE_ALL_FILES: Final = Option(
    "compaction.force-rewrite-all-files", parse_bool, False
)
UPSERT_KEY: Final[Option[tuple[str, ...]]] = Option("upsert-key", _names, ())
"""Columns by which rows that are added to an append table replace others."""
COMMIT_LAST_SAFE_SNAPSHOT: Final = Option(
    "commit.strict-mode.last-safe-snapshot", _optional_int, None
)
COMMIT_TIMEOUT: Final = Option("commit.timeout", _optional_duration, None)
COMMIT_USER_PREFIX: Final[Option[str | None]] = Option("commit.user-prefix", _part_of_name, None)
COMMIT_MAX_RETRIES: Final = Option("commit.max-retries", parse_int, 10)
COMMIT_MIN_RETRY_WAIT: Final = Option("commit.min-retry-wait", parse_duration_millis, 10)
COMMIT_MAX_RETRY_WAIT: Final = Option("commit.max-retry-wait", parse_duration_millis, 10_000)
DYNAMIC_PARTITION_OVERWRITE: Final = Option("dynamic-partition-overwrite", parse_bool, True)
OVERWRITE_UPGRADE: Final = Option("overwrite-upgrade", parse_bool, True)
DATA_EVOLUTION_ENABLED: Final = Option("data-evolution.enabled", parse_bool, default=False)
REASSIGN_SKIP_CONTIGUOUS_ROWS: Final = Option(
    "data-evolution.reassign.skip-contiguous-row-count", parse_int, 1_000_000_000
)
MAP_LAYOUT: Final = "map.storage-layout"
"""The option `fields.COLUMN.*` of the layout of a map; its values are `MAP_LAYOUTS`."""
SHARED_MAPS: Final = "shared-shredding"
"""The layout of maps whose keys share columns of a file."""
MAP_LAYOUTS: Final = ("default", SHARED_MAPS)
"""All values.  Both are read; files that we write have the first, whatever the option says."""
BLOB_COMPACTION_ENABLED: Final = Option("blob-compaction.enabled", parse_bool, default=False)
REWRITE_ROW_IDS: Final = Option(
    "data-evolution.compaction.rewrite-row-ids", parse_bool, default=False
)
BLOB_AS_DESCRIPTOR: Final = Option("blob-as-descriptor", parse_bool, default=False)
ROW_TRACKING_ENABLED: Final = Option("row-tracking.enabled", parse_bool, False)
ROW_IDS_BY_PARTITION: Final = Option(
    "row-tracking.partition-group-on-commit", parse_bool, default=True
)
SNAPSHOT_ORDERING: Final = Option("sequence.snapshot-ordering", parse_bool, False)
DYNAMIC_BUCKET_TARGET_ROWS: Final = Option("dynamic-bucket.target-row-num", parse_int, 2_000_000)
DYNAMIC_BUCKET_INITIAL_BUCKETS: Final = Option(
    "dynamic-bucket.initial-buckets", _optional_int, None
)
DYNAMIC_BUCKET_ASSIGNERS: Final = Option("dynamic-bucket.assigner-parallelism", _optional_int, None)
DYNAMIC_BUCKET_MAX_BUCKETS: Final = Option("dynamic-bucket.max-buckets", parse_int, -1)
POSTPONE_DEFAULT_BUCKETS: Final = Option("postpone.default-bucket-num", parse_int, 1)
POSTPONE_TARGET_ROWS: Final = Option("postpone.target-row-num-per-bucket", _optional_int, None)
POSTPONE_MERGE_ON_READ: Final = Option("postpone.merge-on-read", parse_bool, False)
WRITE_BUFFER_SIZE: Final = Option("write-buffer-size", parse_memory_size, 256 * MB)
WRITE_BUFFER_SPILLABLE: Final = Option("write-buffer-spillable", parse_bool, True)
WRITE_BUFFER_MAX_DISK_SIZE: Final = Option("write-buffer-spill.max-disk-size", _optional_size, None)
WRITE_MAX_WRITERS_TO_SPILL: Final = Option("write-max-writers-to-spill", parse_int, 10)

# --- retention ----------------------------------------------------------------------------------
SNAPSHOT_NUM_RETAINED_MIN: Final = Option("snapshot.num-retained.min", parse_int, 10)
SNAPSHOT_NUM_RETAINED_MAX: Final = Option("snapshot.num-retained.max", parse_int, 2**31 - 1)
SNAPSHOT_EXPIRE_EXECUTION_MODE: Final = Option("snapshot.expire.execution-mode", _lower, "sync")
SNAPSHOT_TIME_RETAINED: Final = Option("snapshot.time-retained", parse_duration_millis, 3_600_000)
SNAPSHOT_EXPIRE_LIMIT: Final = Option("snapshot.expire.limit", parse_int, 50)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES: Final = Option(
    "snapshot.clean-empty-directories",
    parse_bool,
    False,
    ("snapshot.expire.clean-empty-directories",),
)
CHANGELOG_NUM_RETAINED_MIN: Final = Option("changelog.num-retained.min", _optional_int, None)
CHANGELOG_NUM_RETAINED_MAX: Final = Option("changelog.num-retained.max", _optional_int, None)
CHANGELOG_TIME_RETAINED: Final = Option("changelog.time-retained", _optional_duration, None)
CONSUMER_EXPIRATION_TIME: Final = Option("consumer.expiration-time", _optional_duration, None)
STREAMING_READ_SNAPSHOT_DELAY: Final = Option(
    "streaming.read.snapshot.delay", _optional_duration, None
)
UPDATE_CONFLICT_MAX_ATTEMPTS: Final = Option(
    "write.data-evolution.update-conflict-retry.max-attempts", parse_int, 20
)
UPDATE_CONFLICT_WAIT_MILLIS: Final = Option(
    "write.data-evolution.update-conflict-retry.wait-ms", parse_int, 10
)
SCAN_FALLBACK_BRANCH: Final = Option("scan.fallback-branch", str.strip, "")
SCAN_PRIMARY_BRANCH: Final = Option("scan.primary-branch", str.strip, "")
SCAN_AUTO_TAG_TIME_RETAINED: Final = Option(
    "scan.plan-auto-tag-for-read.time-retained", _optional_duration, None
)
SCAN_IGNORE_CORRUPT_FILES: Final = Option("scan.ignore-corrupt-files", parse_bool, False)
SCAN_IGNORE_LOST_FILES: Final = Option("scan.ignore-lost-files", parse_bool, False)
STREAMING_READ_OVERWRITE: Final = Option("streaming-read-overwrite", parse_bool, False)
CONSUMER_CHANGELOG_ONLY: Final = Option("consumer.changelog-only", parse_bool, False)
TAG_AUTOMATIC_CREATION: Final = Option("tag.automatic-creation", _lower, "none")
TAG_CREATION_PERIOD: Final = Option("tag.creation-period", _lower, "daily")
TAG_CREATION_PERIOD_DURATION: Final = Option(
    "tag.creation-period-duration", _optional_duration, None
)
TAG_CREATION_DELAY: Final = Option("tag.creation-delay", parse_duration_millis, 0)
TAG_PERIOD_FORMATTER: Final = Option("tag.period-formatter", _lower, "with_dashes")
TAG_NUM_RETAINED_MAX: Final = Option("tag.num-retained-max", _optional_int, None)
TAG_DEFAULT_TIME_RETAINED: Final = Option("tag.default-time-retained", _optional_duration, None)
TAG_AUTOMATIC_COMPLETION: Final = Option("tag.automatic-completion", parse_bool, False)
TAG_TIME_EXPIRE_ENABLED: Final = Option("tag.time-expire-enabled", parse_bool, True)
TAG_CREATE_SUCCESS_FILE: Final = Option("tag.create-success-file", parse_bool, False)
TAG_BATCH_CUSTOMIZED_NAME: Final = Option("tag.batch.customized-name", _optional_text, None)
SINK_PROCESS_TIME_ZONE: Final = Option("sink.process-time-zone", _optional_text, None)
SINK_WATERMARK_TIME_ZONE: Final = Option("sink.watermark-time-zone", str, "UTC")
PARTITION_EXPIRATION_TIME: Final = Option("partition.expiration-time", _optional_duration, None)
PARTITION_EXPIRATION_STRATEGY: Final = Option(
    "partition.expiration-strategy", _lower, "values-time"
)
PARTITION_EXPIRATION_CHECK_INTERVAL: Final = Option(
    "partition.expiration-check-interval", parse_duration_millis, 3_600_000
)
END_INPUT_CHECK_PARTITION_EXPIRE: Final = Option(
    "end-input.check-partition-expire", parse_bool, False
)
PARTITION_EXPIRATION_MAX_NUM: Final = Option("partition.expiration-max-num", parse_int, 100)
PARTITION_EXPIRATION_BATCH_SIZE: Final = Option(
    "partition.expiration-batch-size", _optional_int, None
)
PARTITION_TIMESTAMP_FORMAT_STRICT: Final = Option(
    "partition.timestamp-format.strict", parse_bool, False
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option("partition.timestamp-formatter", _optional_text, None)
PARTITION_TIMESTAMP_PATTERN: Final = Option("partition.timestamp-pattern", _optional_text, None)
PARTITIONED_TABLE: Final = Option("metastore.partitioned-table", parse_bool, False)
TAG_TO_PARTITION: Final = Option("metastore.tag-to-partition", _optional_text, None)
TAG_TO_PARTITION_PREVIEW: Final = Option("metastore.tag-to-partition.preview", _lower, "none")
PARTITION_MARK_DONE_ACTION: Final[Option[tuple[str, ...]]] = Option(
    "partition.mark-done-action", _names, ("success-file",)
)
PARTITION_MARK_DONE_WHEN_END_INPUT: Final = Option("partition.end-input-to-done", parse_bool, False)
PARTITION_MARK_DONE_HTTP_URL: Final = Option(
    "partition.mark-done-action.http.url", _optional_text, None
)
PARTITION_MARK_DONE_HTTP_PARAMS: Final = Option(
    "partition.mark-done-action.http.params", _optional_text, None
)
