"""The options of a table that ask for Iceberg metadata (Java: `iceberg/IcebergOptions`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_core.io.file_io import join, parent
from paimon_core.options import Option, Options, parse_bool, parse_int

DISABLED: Final = "disabled"
TABLE_LOCATION: Final = "table-location"
HADOOP_CATALOG: Final = "hadoop-catalog"
HIVE_CATALOG: Final = "hive-catalog"
REST_CATALOG: Final = "rest-catalog"
STORAGES: Final = (DISABLED, TABLE_LOCATION, HADOOP_CATALOG, HIVE_CATALOG, REST_CATALOG)
CATALOG_LOCATION: Final = "catalog-location"
FORMAT_VERSIONS: Final = (2, 3)
_DATABASE_SUFFIX: Final = ".db"


def _lower(text: str) -> str:
    return text.strip().lower()


def _optional_lower(text: str) -> str | None:
    return text.strip().lower()


ICEBERG_STORAGE: Final = Option("metadata.iceberg.storage", _lower, DISABLED)
ICEBERG_STORAGE_LOCATION: Final = Option("metadata.iceberg.storage-location", _optional_lower, None)
ICEBERG_FORMAT_VERSION: Final = Option("metadata.iceberg.format-version", parse_int, 2)
COMPACT_MIN_FILES: Final = Option("metadata.iceberg.compaction.min.file-num", parse_int, 10)
COMPACT_MAX_FILES: Final = Option("metadata.iceberg.compaction.max.file-num", parse_int, 50)
DELETE_AFTER_COMMIT: Final = Option(
    "metadata.iceberg.delete-after-commit.enabled", parse_bool, default=True
)
PREVIOUS_VERSIONS_MAX: Final = Option("metadata.iceberg.previous-versions-max", parse_int, 0)
MANIFEST_COMPRESSION: Final = Option("metadata.iceberg.manifest-compression", _lower, "snappy")
MANIFEST_LEGACY: Final = Option(
    "metadata.iceberg.manifest-legacy-version", parse_bool, default=False
)
ICEBERG_URI: Final = "metadata.iceberg.uri"
ICEBERG_HIVE_CONF_DIR: Final = "metadata.iceberg.hive-conf-dir"
ICEBERG_HIVE_CLIENT: Final = "metadata.iceberg.hive-client-class"
ICEBERG_DATABASE: Final = "metadata.iceberg.database"
ICEBERG_TABLE: Final = "metadata.iceberg.table"
ICEBERG_REST: Final = "metadata.iceberg.rest."
"""The prefix of the options of an Iceberg REST catalog."""
SKIP_ARCHIVE: Final = Option("metadata.iceberg.glue.skip-archive", parse_bool, default=False)
SKIP_STATS: Final = Option("metadata.iceberg.hive-skip-update-stats", parse_bool, default=False)


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """Where and how the metadata of a table is written.

    `folder` holds all files.  `legacy_names`: manifest lists have the names of Iceberg 1.4.
    `previous_versions` is the number of older `vN.metadata.json` files to keep, None: all.
    """

    folder: str
    format_version: int
    compression: str
    legacy_names: bool
    compact_min_files: int
    compact_max_files: int
    previous_versions: int | None


def iceberg_folder(root: str, options: Options) -> str | None:
    """Return the folder of the Iceberg metadata; None if there is none, or no place for it.

    Java: `IcebergCommitCallback.catalogTableMetadataPath`.  Metadata outside of the table is at
    `WAREHOUSE/iceberg/DATABASE/TABLE/metadata`, and needs a database folder `DATABASE.db`.
    """
    storage = options.value(ICEBERG_STORAGE)
    if storage == DISABLED:
        return None
    default = TABLE_LOCATION if storage == TABLE_LOCATION else CATALOG_LOCATION
    if (options.value(ICEBERG_STORAGE_LOCATION) or default) == TABLE_LOCATION:
        return join(root, "metadata")
    database = parent(root)
    name = database.rsplit("/", 1)[-1]
    if not name.endswith(_DATABASE_SUFFIX):
        return None
    table = root.rstrip("/").rsplit("/", 1)[-1]
    return f"{parent(database)}/iceberg/{name.removesuffix(_DATABASE_SUFFIX)}/{table}/metadata"


def iceberg_settings(root: str, options: Options) -> IcebergSettings | None:
    """Return the settings of a table; None if it has no Iceberg metadata."""
    folder = iceberg_folder(root, options)
    if folder is None:
        return None
    keep_all = not options.value(DELETE_AFTER_COMMIT)
    return IcebergSettings(
        folder=folder,
        format_version=options.value(ICEBERG_FORMAT_VERSION),
        compression=options.value(MANIFEST_COMPRESSION),
        legacy_names=options.value(MANIFEST_LEGACY),
        compact_min_files=options.value(COMPACT_MIN_FILES),
        compact_max_files=options.value(COMPACT_MAX_FILES),
        previous_versions=None if keep_all else options.value(PREVIOUS_VERSIONS_MAX),
    )


def has_external_catalog(options: Options) -> bool:
    """Return whether the table is registered in another catalog."""
    return options.value(ICEBERG_STORAGE) in (HIVE_CATALOG, REST_CATALOG)
