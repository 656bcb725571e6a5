"""A session: current database, settings, temporary views, and Spark once something needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.open import open_file_io
from paimon_core.paths import TablePaths
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.schema.store import SchemaStore
from paimon_core.table.system.read import split_system_name
from paimon_spark.sql.errors import AnalysisError
from paimon_spark.sql.procedures import Procedures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG: Final = "paimon"
DEFAULT_DATABASE: Final = "default"
OPTION_PREFIX: Final = "spark.paimon."
ZONE_KEY: Final = "spark.sql.session.timeZone"
OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True, slots=True)
class TableName:
    """A Paimon table in this session's catalog, with the branch and system table of its name."""

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @property
    def identifier(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def shown(self) -> str:
        """As errors and answers name it."""
        return f"`{CATALOG}`.`{self.database}`.`{self.table}`"


@dataclass(slots=True)
class SqlSession:
    """The state between statements.

    `start_spark` makes the Spark session; it is called once, by the first statement that needs it.
    `conf` holds what SET said, `views` the text of each temporary view by its name in lower case.
    """

    warehouse: str
    start_spark: Callable[[], SparkSession]
    storage: Mapping[str, str] = field(default_factory=dict)
    env: Environment = field(default_factory=system_environment)
    procedures: Procedures | None = None
    database: str = DEFAULT_DATABASE
    conf: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    registered: int = 0
    _spark: SparkSession | None = None

    def __post_init__(self) -> None:
        self.catalog.create_database(DEFAULT_DATABASE, if_not_exists=True)

    @property
    def catalog(self) -> FileSystemCatalog:
        return FileSystemCatalog(self.warehouse, dict(self.storage))

    @property
    def spark(self) -> SparkSession:
        """Spark, started if it has not been, with everything that SET said."""
        if self._spark is None:
            self._spark = self.start_spark()
            for key, value in self.conf.items():
                if not key.startswith(OPTION_PREFIX):
                    self._spark.conf.set(key, value)
        return self._spark

    @property
    def has_spark(self) -> bool:
        return self._spark is not None

    @property
    def zone(self) -> tzinfo:
        """The session's time zone: what SET said, else Spark's if it runs, else the machine's."""
        name = self.conf.get(ZONE_KEY)
        if name is None and self._spark is not None:
            name = self._spark.conf.get(ZONE_KEY)
        try:
            return machine_zone() if name is None else ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            return machine_zone()

    # --- names ---

    def table_name(self, parts: list[str]) -> TableName:
        """The table that the parts name; AnalysisError for another catalog."""
        names = list(parts)
        if len(names) == 3:
            if names[0].lower() != CATALOG:
                raise AnalysisError(f"[CATALOG_NOT_FOUND] The catalog {names[0]!r} not found")
            names = names[1:]
        if len(names) == 1:
            names = [self.database, *names]
        if len(names) != 2:
            raise AnalysisError(f"[REQUIRES_SINGLE_PART_NAMESPACE] {'.'.join(parts)}")
        try:
            identifier, branch, system = split_system_name(".".join(names))
        except InvalidArgument as e:
            raise AnalysisError(f"[TABLE_OR_VIEW_NOT_FOUND] {e.message}") from e
        database, _, table = identifier.partition(".")
        return TableName(database, table, branch, system)

    def database_name(self, parts: list[str]) -> str:
        """The database of `db` or `paimon.db`."""
        if len(parts) == 2 and parts[0].lower() == CATALOG:
            return parts[1]
        if len(parts) != 1:
            raise AnalysisError(f"[REQUIRES_SINGLE_PART_NAMESPACE] {'.'.join(parts)}")
        return parts[0]

    def has_database(self, database: str) -> bool:
        return database in self.catalog.list_databases()

    def need_database(self, database: str) -> None:
        if not self.has_database(database):
            raise AnalysisError(
                f"[SCHEMA_NOT_FOUND] The schema `{CATALOG}`.`{database}` cannot be found",
                next_step="check the name; SHOW DATABASES lists what is there",
            )

    def has_table(self, name: TableName) -> bool:
        """Whether the table (or its branch) is there."""
        io, _ = open_file_io(self.warehouse, self.storage)
        try:
            paths = TablePaths(root=self.catalog.table_path(name.identifier))
        except InvalidArgument:
            return False
        paths = paths.of_branch(name.branch) if name.branch else paths
        return SchemaStore(io, paths, name.identifier).latest() is not None

    def open(
        self,
        name: TableName,
        *,
        options: Mapping[str, str | None] | None = None,
        to_write: bool = False,
    ) -> FileStoreTable:
        """The table under the session's dynamic options, and `options` on top.

        Options that say what a batch reads do not apply to a table that is written to.  SchemaError
        for an option that a table cannot change, such as the number of its buckets.
        """
        dynamic: dict[str, str | None] = dict(self.table_options(name))
        if to_write:
            dynamic = {k: v for k, v in dynamic.items() if k not in SCAN_OPTIONS}
        if options:
            if any(k in SCAN_OPTIONS for k in options):
                dynamic = {k: v for k, v in dynamic.items() if k not in SCAN_OPTIONS}
            dynamic.update(options)
        try:
            table = self.catalog.get_table(
                name.identifier, branch=name.branch, dynamic_options=dynamic
            )
        except NotFound as e:
            raise not_found(name) from e
        if dynamic:
            check_dynamic_options(table.schemas.get(table.schema.id), dynamic)
        return table

    def table_options(self, name: TableName) -> dict[str, str]:
        """What SET spark.paimon.* says of this table (Java: `OptionUtils.mergeSQLConf`).

        `spark.paimon.KEY` is for all tables, `spark.paimon.CATALOG.DATABASE.TABLE.KEY` for one, with
        `*` in any place; the latter is the stronger.
        """
        one = re.compile(
            rf"({CATALOG}|\*)\.({re.escape(name.database)}|\*)\.({re.escape(name.table)}|\*)\.(.+)"
        )
        for_all: dict[str, str] = {}
        for_one: dict[str, str] = {}
        for key, value in self.conf.items():
            if not key.startswith(OPTION_PREFIX):
                continue
            option = key.removeprefix(OPTION_PREFIX)
            match = one.fullmatch(option)
            if match:
                for_one[match[4]] = value
            elif not option.startswith(("*.", f"{CATALOG}.")):
                for_all[option] = value
        return {**for_all, **for_one}


def not_found(name: TableName) -> AnalysisError:
    """The error for a table that is not there."""
    return AnalysisError(
        f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {name.shown} cannot be found",
        table=name.identifier,
        next_step="check the name; SHOW TABLES lists what is there",
    )
