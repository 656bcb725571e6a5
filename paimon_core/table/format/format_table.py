"""Format tables: folders with files of one format and no snapshots (Java: `table/FormatTable`).

Only the catalog knows their columns.  Whoever puts a file into the folder adds its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_core.errors import InvalidArgument, SchemaError, UnsupportedFeature
from paimon_core.io.confined import ConfinedFileIO
from paimon_core.options import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME, Options
from paimon_core.schema.table_schema import TableSchema
from paimon_core.table.format.registered import FormatPartitions, check_may_keep

TYPE: Final = "type"
FORMAT_TABLE: Final = "format-table"
"""The value of the option `type`."""
FILE_FORMAT: Final = "file.format"
FORMATS: Final = ("csv", "orc", "parquet", "json", "text")
ONLY_VALUES: Final = "format-table.partition-path-only-value"
CSV_DELIMITER: Final = "csv.field-delimiter"
HIVE_SYNC: Final = "format-table.commit-hive-sync-url"
_DEFAULT_FORMAT: Final = "parquet"
_COMPRESSIONS: Final = ("file.compression", "format-table.file.compression", "compression")
_USUAL_COMPRESSION: Final = {"parquet": "snappy", "orc": "zstd"}
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    CSV_DELIMITER: (("field-delimiter", "seq"), ","),
    "csv.line-delimiter": (("lineSep",), "\n"),
    "csv.quote-character": (("quote",), '"'),
    "csv.escape-character": (("escape",), "\\"),
    "csv.include-header": (("header",), "false"),
    "csv.null-literal": (("nullvalue",), ""),
    "csv.mode": (("mode",), "permissive"),
    "json.ignore-parse-errors": ((), "false"),
    "json.line-delimiter": ((), "\n"),
    "text.line-delimiter": (("lineSep",), "\n"),
}
"""Options of files with their older names and defaults.

Java: `CsvOptions`, `JsonOptions`, `TextOptions`.
"""
_NEVER_EMPTY: Final = {
    "csv": (
        CSV_DELIMITER,
        "csv.line-delimiter",
        "csv.quote-character",
        "csv.escape-character",
    ),
    "json": ("json.line-delimiter",),
    "text": ("text.line-delimiter",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTable:
    """A format table as its catalog describes it.

    - `name`: "db.t".
    - `schema`: columns, partition columns and options.
    - `location`: the folder as the catalog spells it; `root`: the same as a path in `io`.
    - `external`: whether dropping the table leaves its files.
    - `registered`: the partitions in the catalog, if only these count.
    - `catalog_properties`: what the catalog says beside the schema, such as the owner.
    """

    name: str
    schema: TableSchema
    location: str
    io: ConfinedFileIO
    root: str
    external: bool = False
    registered: FormatPartitions | None = field(default=None, compare=False, repr=False)
    catalog_properties: Mapping[str, str] = field(default_factory=dict)

    def registry(self) -> FormatPartitions | None:
        """`registered`; InvalidArgument where the catalog may not keep partitions."""
        if self.registered is not None:
            check_may_keep(self.name, self.schema, external=self.external)
        return self.registered

    @property
    def options(self) -> Options:
        return self.schema.options

    @property
    def format(self) -> str:
        """The format of the files; UnsupportedFeature for one that format tables do not have."""
        return format_of_table(self.schema)

    @property
    def default_partition(self) -> str:
        """What stands for a null in the names of folders."""
        return self.options.value(PARTITION_DEFAULT_NAME)

    @property
    def only_values(self) -> bool:
        """Whether folders are named `2024`, in place of `year=2024`."""
        return self.options.flag(ONLY_VALUES)

    @property
    def legacy_names(self) -> bool:
        """Whether dates in the names of folders are numbers of days."""
        return self.options.value(PARTITION_LEGACY_NAME)

    @property
    def compression(self) -> str:
        """The compression of new files (Java: `CoreOptions.formatTableFileCompression`)."""
        for key in _COMPRESSIONS:
            if key in self.options:
                return self.options[key].lower()
        return _USUAL_COMPRESSION.get(self.format, "none")

    def file_option(self, key: str) -> str:
        """An option of CSV, JSON or text files, under any of its names, else its default."""
        return file_option(self.options, key)


def is_format_table(schema: TableSchema) -> bool:
    """Whether the schema is one of a format table."""
    return schema.options.get(TYPE, "").lower().replace("_", "-") == FORMAT_TABLE


def format_of_table(schema: TableSchema) -> str:
    """The format of a format table's files; UnsupportedFeature for others than `FORMATS`."""
    found = schema.options.get(FILE_FORMAT, _DEFAULT_FORMAT).lower()
    if found not in FORMATS:
        raise UnsupportedFeature(
            f"format tables with {FILE_FORMAT}={found}",
            f"Format table unsupported file format: {found}. Supported formats: "
            f"[{', '.join(FORMATS)}]",
            next_step=f"choose one of the formats {', '.join(FORMATS)}",
        )
    return found


def file_option(options: Mapping[str, str], key: str) -> str:
    """As `FormatTable.file_option`."""
    older, default = _OPTIONS[key]
    return next((options[k] for k in (key, *older) if k in options), default)


def check_format_table(schema: TableSchema) -> None:
    """SchemaError or InvalidArgument for a new format table that Java refuses.

    Java: `CatalogUtils.validateFormatTableOptions`.
    """
    if schema.primary_keys or "primary-key" in schema.options:
        raise SchemaError("Cannot define primary-key for format table.")
    for key in _NEVER_EMPTY.get(format_of_table(schema), ()):
        if not file_option(schema.options, key):
            raise InvalidArgument(f"{key} must not be empty.", next_step=f"give {key} a value")
