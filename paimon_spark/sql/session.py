"""A session: current database, settings, temporary views, and Spark once something needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from threading import local
from typing import TYPE_CHECKING, Any, Final

from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.same_table import explained
from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.environment import Environment, machine_zone, system_environment
from paimon_core.errors import InvalidArgument, NotFound, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.open import open_file_io
from paimon_core.options import parse_bool
from paimon_core.paths import TablePaths
from paimon_core.read.damaged_files import strict
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.schema.store import SchemaStore
from paimon_core.snapshot.snapshot import Identity
from paimon_core.table.format.files import FormatRead
from paimon_core.table.format.format_table import FormatTable
from paimon_core.table.source.batch_scan import BatchScan
from paimon_core.table.system.read import split_system_name
from paimon_core.types.zones import zone_of
from paimon_spark.sql.catalogs import (
    CATALOG,
    PREFIX,
    CatalogRef,
    OpenCatalog,
    catalog_at,
    find_catalog,
)
from paimon_spark.sql.errors import AnalysisError, own_error
from paimon_spark.sql.kept_frames import KeptFrames
from paimon_spark.sql.procedures import Procedures
from paimon_spark.sql.spark_settings import CASE_SENSITIVE, OWN_SETTINGS, ZONE_KEY
from paimon_spark.sql.table_name import (
    SYSTEM_DATABASE,
    TableName,
    check_no_system_table,
    not_found,
    on_branch,
    refused_for_formats,
)
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION_PREFIX: Final = "spark.paimon."
_BRANCH: Final = "branch"
_PREFIXES: Final = (OPTION_PREFIX, PREFIX)


@dataclass(frozen=True, slots=True)
class TempView:
    """A temporary view: its query, and the catalog and database in which it names tables."""

    query: str
    catalog: str
    database: str
    of_statement: bool = False
    """Whether a WITH clause before the statement defines it, which hides no table from a change."""


@dataclass(frozen=True, slots=True)
class TempFunction:
    """A temporary SQL function whose body reads tables.

    `head` is what stands before the body, from TEMPORARY on.  It names tables in this catalog and
    database.
    """

    head: str
    body: str
    catalog: str
    database: str


GLOBAL_TEMP: Final = "global_temp"
"""The database of global temporary views."""


@dataclass(slots=True)
class SqlSession:
    """The state between statements.

    `start_spark` makes the Spark session; it is called once, by the first statement that needs it.
    `conf` holds the values of SET, `views` the temporary views by their names in lower case, with
    their database for global ones.  `warehouse` is a folder, or `catalog:NAME` for one of the
    `defined` catalogs, which `open_catalog` then opens.
    """

    warehouse: str
    start_spark: Callable[[], SparkSession]
    storage: Mapping[str, str] = field(default_factory=dict)
    env: Environment = field(default_factory=system_environment)
    procedures: Procedures | None = None
    defined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    open_catalog: OpenCatalog = catalog_at
    current_catalog: str = CATALOG
    database: str = field(init=False)
    conf: dict[str, str] = field(default_factory=dict)
    views: dict[str, TempView] = field(default_factory=dict)
    functions: dict[str, TempFunction] = field(default_factory=dict)
    """Temporary functions that read tables, by their names in lower case."""
    has_source: bool = False
    """Whether Spark knows the DataFrame source."""
    frames: KeptFrames = field(default_factory=KeptFrames)
    """DataFrames of tables, for the next queries."""
    _spark: SparkSession | None = None
    _of_statement: local = field(default_factory=local)
    _opened: dict[str, tuple[CatalogRef, Catalog]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.enter(self.current_catalog)

    @property
    def registered(self) -> list[str]:
        """The temporary views of Spark that stand for tables in the statement of this thread."""
        found: list[str] | None = getattr(self._of_statement, "views", None)
        if found is None:
            found = self._of_statement.views = []
        return found

    @property
    def opened(self) -> dict[TableName, FileStoreTable]:
        """The tables that the statement of this thread has opened, as each was the first time."""
        found: dict[TableName, FileStoreTable] | None = getattr(self._of_statement, "tables", None)
        if found is None:
            found = self._of_statement.tables = {}
        return found

    def scan_once(self, key: Hashable, plan: Callable[[], BatchScan]) -> BatchScan:
        """What `plan` returned when the statement of this thread first asked for this key.

        So all of its queries read one snapshot of a table, whatever is committed meanwhile.
        """
        found: dict[Hashable, BatchScan] | None = getattr(self._of_statement, "scans", None)
        if found is None:
            return plan()
        if key not in found:
            found[key] = plan()
        return found[key]

    def read_at(self, table: FileStoreTable) -> Identity | None:
        """The oldest snapshot of the table that queries of the statement read; None if none did.

        Those that name a version do not count.
        """
        found: dict[Hashable, BatchScan] = getattr(self._of_statement, "scans", None) or {}
        place = table.root, table.branch
        read = (
            scan.identity
            for scan in found.values()
            if (scan.table.root, scan.table.branch) == place
            and scan.table.options.keys().isdisjoint(SCAN_OPTIONS)
        )
        return min(filter(None, read), key=lambda identity: identity[0], default=None)

    def note_format_read(self, read: FormatRead) -> None:
        """Keep what a query of the statement of this thread reads of a format table."""
        found: list[FormatRead] = getattr(self._of_statement, "format_reads", [])
        self._of_statement.format_reads = [*found, read]

    def format_reads(self, table: FormatTable) -> list[FormatRead]:
        """What the queries of the statement of this thread read of a format table."""
        found: list[FormatRead] = getattr(self._of_statement, "format_reads", [])
        return [read for read in found if read.root == table.root]

    def read_anew(self) -> None:
        """Let the statement of this thread read the newest snapshots from now on."""
        self._of_statement.scans = {}
        self._of_statement.format_reads = []

    # --- catalogs ---

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        return self.catalog_named(self.current_catalog)

    def catalog_for(self, name: TableName) -> Catalog:
        """The catalog of a table."""
        return self.catalog_named(name.catalog)

    def find(self, catalog: str) -> CatalogRef | None:
        """The catalog of this name, None if there is none."""
        own = CatalogRef(CATALOG, self.warehouse, self.storage)
        return find_catalog(catalog, own, self.conf, self.defined)

    def catalog_named(self, catalog: str) -> Catalog:
        """AnalysisError if there is none of this name."""
        ref = self.find(catalog)
        if ref is None:
            raise AnalysisError(f"[CATALOG_NOT_FOUND] The catalog `{catalog}` not found")
        known = self._opened.get(ref.name)
        if known is None or known[0] != ref:
            known = (ref, self.open_catalog(ref.warehouse, ref.options))
            self._opened[ref.name] = known
        return known[1]

    def enter(self, catalog: str) -> None:
        """Make a catalog the current one, with its default database, which is created if missing.

        Java: `SparkCatalog.initialize`.  AnalysisError if there is no catalog of this name.
        """
        opened, ref = self.catalog_named(catalog), self.find(catalog)
        assert ref is not None
        if not self.has_database(ref.name, ref.default_database):
            opened.create_database(ref.default_database, if_not_exists=True)
        self.current_catalog, self.database = ref.name, ref.default_database

    @property
    def spark(self) -> SparkSession:
        """Spark, started if necessary, with all values of SET."""
        if self._spark is None:
            self._spark = self.start_spark()
            for key, value in self.conf.items():
                self._spark.conf.set(key, value)
        return self._spark

    def take_settings(self) -> None:
        """Take over what `spark.conf.set` and `unset` have changed since the last statement."""
        settings = _settings_of(self.spark)
        self.conf = {k: v for k, v in settings.items() if k in self.conf or _counts(k)}

    @property
    def has_spark(self) -> bool:
        return self._spark is not None

    @property
    def case_sensitive(self) -> bool:
        """Whether names of columns that differ only in case are different, as SET says."""
        return parse_bool(self.conf.get(CASE_SENSITIVE, "false"))

    @property
    def zone(self) -> tzinfo:
        """The session's time zone: that of SET, else Spark's if it runs, else the machine's."""
        name = self.conf.get(ZONE_KEY)
        if name is None and self._spark is not None:
            name = self._spark.conf.get(ZONE_KEY)
        try:
            return machine_zone() if name is None else zone_of(name)
        except (ValueError, OSError, LookupError):
            return machine_zone()

    # --- names ---

    def table_name(self, parts: list[str]) -> TableName:
        """The table that the parts name.

        InvalidArgument for a catalog that does not exist, AnalysisError for an invalid name.
        """
        names, catalog = list(parts), self.current_catalog
        if len(names) == 3:
            ref = self.find(names[0])
            if ref is not None:
                catalog, names = ref.name, names[1:]
        if len(names) == 1:
            names = [self.database, *names]
        if len(names) != 2:
            space = parts[1:-1] if self.find(parts[0]) is not None else parts[:-1]
            raise InvalidArgument(
                f"Current catalog is {self.current_catalog}, catalog {space[0]} does not exist or "
                f"Paimon only support single namespace, but got [{', '.join(space)}]",
                next_step="name the table as CATALOG.DATABASE.TABLE",
            )
        try:
            identifier, branch, system = split_system_name(".".join(names))
        except InvalidArgument as e:
            raise AnalysisError(f"[TABLE_OR_VIEW_NOT_FOUND] {e.message}") from e
        database, _, table = identifier.partition(".")
        return TableName(database, table, branch, system, catalog, tuple(parts))

    def data_name(self, parts: list[str]) -> TableName:
        """The table whose rows the parts name: of the branch that SET spark.paimon.branch chooses.

        Statements about the table itself, such as ALTER TABLE, go by `table_name`, as in Java.
        """
        return self.data_of(self.table_name(parts))

    def target_name(self, parts: list[str]) -> TableName:
        """As `data_name`, for a table whose rows a statement changes.

        AnalysisError for a temporary view: its name has precedence over those of tables, as in
        Spark.
        """
        view = self.views.get(self.view_key(parts))
        if self.has_spark_view(parts) if view is None else not view.of_statement:
            raise AnalysisError(
                f"[EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE] the statement expects a table, but "
                f"`{'.'.join(parts)}` is a temporary view",
                next_step="name the table with its database",
            )
        return self.data_name(parts)

    def data_of(self, name: TableName) -> TableName:
        """As `data_name`, for a table that is known."""
        chosen = self.table_options(name).get(_BRANCH)
        if chosen is None or name.database == SYSTEM_DATABASE:
            return name
        return on_branch(name, chosen)

    def view_key(self, parts: Sequence[str]) -> str:
        """The key under which `views` has a temporary view of this name, "" for none."""
        lowered = [p.lower() for p in parts]
        if len(lowered) == 1 or (len(lowered) == 2 and lowered[0] == GLOBAL_TEMP):
            key = ".".join(lowered)
            return key if key in self.views else ""
        return ""

    def has_spark_view(self, parts: Sequence[str]) -> bool:
        """Whether a DataFrame made a temporary view of this name; it hides tables, as in Spark."""
        if len(parts) != 1 or not self.has_spark:
            return False
        classic = getattr(self.spark, "_jsparkSession", None)
        if classic is not None:  # much faster than what both kinds of sessions have
            return bool(classic.sessionState().catalog().getTempView(parts[0]).isDefined())
        name = quoted(parts[0])
        catalog = self.spark.catalog
        return catalog.tableExists(name) and catalog.getTable(name).isTemporary

    def drop_spark_view(self, parts: Sequence[str]) -> bool:
        """Drop a temporary view that a DataFrame made; False if there is none of this name."""
        return len(parts) == 1 and self.has_spark and self.spark.catalog.dropTempView(parts[0])

    def new_view(self, query: str) -> TempView:
        """A view of a query that names tables as the session does now."""
        return TempView(query, self.current_catalog, self.database)

    def database_name(self, parts: list[str]) -> tuple[str, str]:
        """Catalog and database of `db` or `catalog.db`."""
        if len(parts) == 2:
            ref = self.find(parts[0])
            if ref is not None:
                return ref.name, parts[1]
        if len(parts) != 1:
            raise AnalysisError(f"[REQUIRES_SINGLE_PART_NAMESPACE] {'.'.join(parts)}")
        return self.current_catalog, parts[0]

    def has_database(self, catalog: str, database: str) -> bool:
        if database == SYSTEM_DATABASE:
            return True
        try:
            self.catalog_named(catalog).get_database(database)
        except (NotFound, InvalidArgument):
            return False
        return True

    def need_database(self, catalog: str, database: str) -> None:
        if not self.has_database(catalog, database):
            raise AnalysisError(
                f"[SCHEMA_NOT_FOUND] The schema `{catalog}`.`{database}` cannot be found",
                next_step="check the name; SHOW DATABASES lists the databases",
            )

    def has_table(self, name: TableName) -> bool:
        """Whether the table (or its branch) exists."""
        catalog = self.catalog_for(name)
        if not isinstance(catalog, FileSystemCatalog):
            try:
                catalog.get_table(name.identifier, branch=name.branch)
            except (NotFound, InvalidArgument):
                return False
            except UnsupportedFeature as e:
                if self.format_table(replace(name, branch=None, system=None)) is None:
                    raise
                if name.branch is not None or name.system is not None:
                    raise refused_for_formats(name) from e
            return True
        io, _ = open_file_io(catalog.warehouse, catalog.options)
        try:
            paths = TablePaths(root=catalog.table_path(name.identifier))
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
        for an option that a table cannot change, such as the number of its buckets, AnalysisError
        for a system table that is to be written.
        """
        if to_write:
            check_no_system_table(name)
        dynamic: dict[str, str | None] = dict(self.table_options(name))
        if to_write:
            dynamic = {k: v for k, v in dynamic.items() if k not in SCAN_OPTIONS}
        if options:
            if any(k in SCAN_OPTIONS for k in options):
                dynamic = {k: v for k, v in dynamic.items() if k not in SCAN_OPTIONS}
            dynamic.update(options)
        dynamic.pop(_BRANCH, None)  # it is in the name
        try:
            table = self.catalog_for(name).get_table(
                name.identifier, branch=name.branch, dynamic_options=dynamic
            )
        except NotFound as e:
            raise not_found(name) from e
        except UnsupportedFeature as e:
            if self.format_table(replace(name, branch=None, system=None)) is not None:
                raise refused_for_formats(name) from e
            if e.feature.startswith("type="):  # Its next step is for jobs.
                e.next_step = "use Java Paimon, or read its files with another source of Spark"
            raise
        self.opened.setdefault(name, table)
        if dynamic:
            check_dynamic_options(table.schemas.get(table.schema.id), dynamic)
        return strict(table) if to_write else table

    def format_table(self, name: TableName) -> FormatTable | None:
        """The format table of this name under the session's dynamic options; None if it is none.

        The catalog is asked once a statement.
        """
        tables = self.catalog_for(name).format_tables
        if tables is None or name.branch is not None or name.system is not None:
            return None
        known: dict[TableName, FormatTable | None] = getattr(self._of_statement, "formats", {})
        if name not in known:
            found = tables.find(name.identifier)
            if found is not None:
                schema = found.schema.with_options(self.table_options(name))
                found = replace(found, schema=schema)
            self._of_statement.formats = {**known, name: found}
            return found
        return known[name]

    def known_format(self, name: TableName) -> FormatTable | None:
        """As `format_table`, as far as the statement has asked; None for what it has not."""
        known: dict[TableName, FormatTable | None] = getattr(self._of_statement, "formats", {})
        return known.get(name)

    def drop(self, name: TableName) -> None:
        """Drop the table, which exists."""
        catalog = self.catalog_for(name)
        if self.known_format(name) is not None and catalog.format_tables is not None:
            catalog.format_tables.drop(name.identifier)
        else:
            catalog.drop_table(name.identifier)
        known: dict[TableName, FormatTable | None] = getattr(self._of_statement, "formats", {})
        self._of_statement.formats = {k: v for k, v in known.items() if k != name}

    def described(self, name: TableName, *, to_write: bool = False) -> FileStoreTable | FormatTable:
        """As `open`, and a format table as what it is."""
        try:
            return self.open(name, to_write=to_write)
        except UnsupportedFeature:
            found = self.format_table(name)
            if found is None:
                raise
            return found

    def change(self, name: TableName, changes: Sequence[SchemaChange]) -> None:
        """Let the catalog change the table that the statement has found, a format table too."""
        catalog = self.catalog_for(name)
        if self.known_format(name) is not None and catalog.format_tables is not None:
            catalog.format_tables.alter(name.identifier, changes)
            return
        catalog.alter_table(
            name.identifier, changes, now_millis=self.env.now_millis(), branch=name.branch
        )

    @contextmanager
    def one_statement(self) -> Iterator[None]:
        """Inside of the block one statement runs.

        Raises the error of ours with which a task of the executors ended, instead of Spark's;
        TableGone if a table that the statement opened was dropped, renamed, or dropped and created
        again meanwhile.
        """
        self.opened.clear()
        self.read_anew()
        self._of_statement.formats = {}
        try:
            yield
        except Exception as e:
            found = self._explained(own_error(e))
            if found is e:
                raise
            raise found from e
        finally:
            self.opened.clear()
            self._of_statement.scans = None
            self._of_statement.format_reads = []
            self._of_statement.formats = {}

    def _explained(self, error: Exception) -> BaseException:
        for name, table in list(self.opened.items()):
            catalog = self.catalog_for(name)
            again = partial(catalog.get_table, name.identifier, branch=name.branch)
            found = explained(error, table, again, "the statement")
            if found is not error:
                return found
        return error

    def table_options(self, name: TableName) -> dict[str, str]:
        """The options that SET spark.paimon.* gives this table (Java: `OptionUtils.mergeSQLConf`).

        `spark.paimon.KEY` is for all tables, `spark.paimon.CATALOG.DATABASE.TABLE.KEY` for one,
        with `*` for any part; the latter has precedence.
        """
        one = re.compile(
            rf"({re.escape(name.catalog)}|\*)\.({re.escape(name.database)}|\*)\.({re.escape(name.table)}|\*)\.(.+)"
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
            elif not option.startswith(("*.", f"{name.catalog}.")):
                for_all[option] = value
        return {**for_all, **for_one}

    @contextmanager
    def with_options(self, name: TableName, options: Mapping[str, str]) -> Iterator[None]:
        """Inside of the block the table has these options too, as if SET gave them to it."""
        before = self.conf
        one = f"{OPTION_PREFIX}{name.catalog}.{name.identifier}."
        self.conf = {**before, **{one + k: v for k, v in options.items()}}
        try:
            yield
        finally:
            self.conf = before


def settings_that_count(spark: SparkSession) -> dict[str, str]:
    """The settings of Spark that a session takes over."""
    return {k: v for k, v in _settings_of(spark).items() if _counts(k)}


def _counts(key: str) -> bool:
    return key.startswith(_PREFIXES) or key in OWN_SETTINGS


def _settings_of(spark: Any) -> dict[str, str]:
    """As `spark.conf.getAll`, which asks the JVM for each key: 2 ms, where this takes 0.2."""
    if not hasattr(spark, "_jsparkSession"):
        return dict(spark.conf.getAll)
    pairs = spark._jsparkSession.conf().getAll().mkString("\0").split("\0")  # noqa: SLF001 - as above
    return dict(pair.split(" -> ", 1) for pair in pairs)
