"""The options of `format("paimon")`: which table, and how it is read or written.

===============================  =================================================================
path                             the table's folder, `WAREHOUSE/db.db/t`; `t$snapshots` and
                                 `t$branch_b` work as they do in `table`
warehouse, table                 instead of `path`: "db.t", "db.t$snapshots"
catalog.*                        instead of `warehouse`: the options of a catalog, as
                                 `catalog.metastore`
branch                           a branch of the table
columns                          the columns to read, separated by commas
where                            a condition on the rows of a batch
timezone                         the zone of times written as text (default: the machine's)
partitionOverwriteMode           static (default: all partitions are replaced) or dynamic
overwrite-partition              "dt=2024-01-31,hr=8": what a static overwrite replaces
write.merge-schema               add columns that the rows have
write.merge-schema.type-widening widen types, too
write.merge-schema.explicit-cast if types are widened, allow casts that may lose data, too
write.shuffled                   the rows of a bucket are all in one task (`distribution`)
commit-user                      the commit user; a stream keeps it across restarts
read.changelog                   read the audit log: `rowkind`, and all columns
read.stream.max*PerTrigger       how much a micro-batch takes: maxFiles, maxBytes, maxRows
read.stream.minRowsPerTrigger    what it waits for, at most read.stream.maxTriggerDelayMs
s3.*, s3a.*, fs.*, fsspec.*      for the store
===============================  =================================================================

Every other option is one of the table for this read or write alone, such as `scan.snapshot-id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfoNotFoundError

from paimon_core.catalog.open import open_catalog
from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.open import open_file_io
from paimon_core.io.store_options import REQUEST_DEADLINE
from paimon_core.known_options import check_values, similar_name, unknown_options
from paimon_core.options import DYNAMIC_PARTITION_OVERWRITE, parse_bool
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.table.open import open_table_at, split_identifier
from paimon_core.table.system.audit_log import AUDIT_LOG
from paimon_core.table.system.read import split_system_name
from paimon_core.types.casts.cast import parse_default
from paimon_core.types.zones import zone_of
from paimon_spark.write_options import EXPLICIT_CAST, MERGE_SCHEMA, TYPE_WIDENING

_STORE_PREFIXES: Final = ("s3.", "s3a.", "fs.", "fsspec.")
_CATALOG: Final = "catalog."
_OVERWRITE_MODE: Final = "partitionoverwritemode"
_OWN: Final = frozenset(
    {
        "path",
        "warehouse",
        "table",
        "branch",
        "columns",
        "where",
        "timezone",
        _OVERWRITE_MODE,
        "overwrite-partition",
        MERGE_SCHEMA,
        EXPLICIT_CAST,
        TYPE_WIDENING,
        "write.shuffled",
        "commit-user",
        "read.changelog",
        "checkpointlocation",
        REQUEST_DEADLINE,
    }
)
_RATES: Final = tuple(
    f"read.stream.{name}"
    for name in (
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxrowspertrigger",
        "minrowspertrigger",
        "maxtriggerdelayms",
    )
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The given options, by lower-case name."""

    given: Mapping[str, str]

    @staticmethod
    def of(options: Mapping[str, str]) -> SourceOptions:
        """The options; their names are case-insensitive."""
        return SourceOptions({k.lower(): v for k, v in options.items()})

    def flag(self, key: str) -> bool:
        """A boolean option, false if it is not given."""
        try:
            return parse_bool(self.given.get(key.lower(), "false"))
        except ValueError as e:
            raise InvalidArgument(f"option {key}: {e}") from e

    def text(self, key: str) -> str | None:
        """The option, or None."""
        return self.given.get(key.lower())

    @property
    def zone(self) -> tzinfo:
        """The zone of times written as text."""
        name = self.text("timezone")
        if name is None:
            return machine_zone()
        try:
            return zone_of(name)
        except (ZoneInfoNotFoundError, ValueError) as e:
            raise InvalidArgument(f"option timezone: unknown time zone {name!r}") from e

    @property
    def environment(self) -> Environment:
        """Clocks for a commit."""
        return system_environment(self.text("timezone"))

    @property
    def columns(self) -> list[str] | None:
        """The columns to read; None for all."""
        text = self.text("columns")
        if text is None:
            return None
        names = [n.strip().strip("`") for n in text.split(",") if n.strip()]
        if not names or len(set(names)) != len(names):
            raise InvalidArgument(
                f"option columns: each column once, separated by commas: {text!r}"
            )
        return names

    @property
    def where(self) -> str | None:
        """The condition on the rows of a batch."""
        return self.text("where")

    @property
    def _catalog(self) -> dict[str, str]:
        """The options of the catalog; none if the table is named by its folder."""
        given = (i for i in self.given.items() if i[0].startswith(_CATALOG))
        return {key.removeprefix(_CATALOG): value for key, value in given}

    @property
    def _location(self) -> tuple[str, str, str | None, str | None]:
        """(the table's folder as a URL, its name, branch, system table); no folder in a catalog."""
        path, warehouse, table = (self.text(k) for k in ("path", "warehouse", "table"))
        if self._catalog:
            if path is not None or warehouse is not None or table is None:
                raise InvalidArgument(
                    "a table of a catalog is named by the option table alone",
                    next_step='for example .option("table", "db.t"); the warehouse is '
                    "catalog.warehouse",
                )
            return "", *split_system_name(table)
        if path is not None and (warehouse is not None or table is not None):
            raise InvalidArgument("give either the option path, or warehouse and table")
        if path is not None:
            parent, _, last = path.rstrip("/").rpartition("/")
            database = parent.rpartition("/")[2].removesuffix(".db") or "default"
            name, branch, system = split_system_name(f"{database}.{last}")
            return f"{parent}/{name[len(database) + 1 :]}", name, branch, system
        if warehouse is None or table is None:
            raise InvalidArgument(
                "which table? Give the option path, warehouse and table, or catalog.* and table",
                next_step='for example .option("path", "WAREHOUSE/db.db/t")',
            )
        name, branch, system = split_system_name(table)
        database, bare = split_identifier(name)
        return f"{warehouse.rstrip('/')}/{database}.db/{bare}", name, branch, system

    @property
    def system_table(self) -> str | None:
        """The system table of the path or option: "snapshots", "audit_log", ...; None for the
        table.
        """
        system = self._location[3]
        if not self.flag("read.changelog"):
            return system
        if system not in (None, AUDIT_LOG):
            raise InvalidArgument(f"read.changelog does not apply to the system table {system}")
        return AUDIT_LOG

    def open_table(self, dynamic: Mapping[str, str | None] | None = None) -> FileStoreTable:
        """The table under its newest schema with the options of this read or write, and `dynamic`.

        InvalidArgument for an unknown option, SchemaError for one that cannot change.
        """
        url, name, branch, _ = self._location
        store = {k: v for k, v in self.given.items() if k.startswith(_STORE_PREFIXES)}
        if REQUEST_DEADLINE in self.given:
            store[REQUEST_DEADLINE] = self.given[REQUEST_DEADLINE]
        named = self.text("branch")
        if branch is not None and named not in (None, branch):
            raise InvalidArgument(f"two branches are named: {branch} and {named}")
        table_options = self._table_options()
        dynamic_options = {**table_options, **(dynamic or {})}
        if self._catalog:
            catalog = open_catalog({**store, **self._catalog})
            try:
                table = catalog.get_table(
                    name, branch=branch or named, dynamic_options=dynamic_options
                )
            except UnsupportedFeature as e:
                if e.feature.startswith("type="):  # Its next step is for jobs.
                    e.next_step = (
                        "read a format table in SQL, or its files with Spark's own sources"
                    )
                raise
        else:
            io, root = open_file_io(url, store)
            table = open_table_at(
                io,
                root,
                name,
                branch=branch or named,
                dynamic_options=dynamic_options,
                location=url,
            )
        check_dynamic_options(table.schemas.get(table.schema.id), table_options)
        return table

    def _table_options(self) -> dict[str, str | None]:
        """The given table options; one given scan option replaces all scan options of the table."""
        given = {
            k: v
            for k, v in self.given.items()
            if k not in _OWN and k not in _RATES and not k.startswith((*_STORE_PREFIXES, _CATALOG))
        }
        for key in unknown_options(given):
            near = similar_name(key)
            raise InvalidArgument(
                f"option {key!r} is unknown to the source and to Paimon",
                next_step="omit it" if near is None else f"did you mean {near}?",
            )
        check_values(given)
        scanned = any(k in SCAN_OPTIONS for k in given)
        return {**(dict.fromkeys(SCAN_OPTIONS) if scanned else {}), **given}

    # --- writes ---

    @property
    def overwrites_dynamically(self) -> bool:
        """Whether an overwrite replaces the partitions of the rows alone."""
        mode = self.text(_OVERWRITE_MODE)
        if mode is None:
            return self.flag(DYNAMIC_PARTITION_OVERWRITE.key)
        if mode.lower() not in ("static", "dynamic"):
            raise InvalidArgument(f"partitionOverwriteMode is static or dynamic, not {mode!r}")
        return mode.lower() == "dynamic"

    def overwritten_partition(self, table: FileStoreTable) -> dict[str, object]:
        """Column -> internal value of `overwrite-partition`; empty for the whole table."""
        text = self.text("overwrite-partition")
        values: dict[str, object] = {}
        for part in (text or "").split(","):
            if not part.strip():
                continue
            name, equals, value = (p.strip() for p in part.partition("="))
            field = table.schema.partition_type.get(name)
            if not equals or field is None:
                raise InvalidArgument(
                    f"option overwrite-partition: expected COLUMN=VALUE of the partition columns "
                    f"{', '.join(table.schema.partition_keys)}, found {part!r}",
                    table=table.name,
                )
            values[name] = parse_default(value, field.type)
        return values
