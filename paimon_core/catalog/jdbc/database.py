"""The database behind a JDBC catalog, in Paimon's own layout (Java: `jdbc/JdbcUtils`).

================================  ==================================================================
`paimon_tables`                   a row for each table
`paimon_database_properties`      a row for each property; `exists` marks a database without others
`paimon_table_properties`         the options of each table, for other programs to read
`paimon_views`                    a row for each view, see `views`
`paimon_distributed_locks`        a row for each lock that is held
================================  ==================================================================

All rows carry the option `catalog-key`, so several catalogs can share a database.  The option `uri`
is a JDBC URL as Java takes it; SQLite and PostgreSQL are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from paimon_core.errors import (
    CatalogError,
    InvalidArgument,
    StorageError,
    UnsupportedFeature,
    how_to_get,
)
from paimon_core.names import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

URI: Final = "uri"
USER: Final = "jdbc.user"
PASSWORD: Final = "jdbc.password"  # noqa: S105 - the name of an option

_TABLES: Final = {
    "paimon_tables": (
        "CREATE TABLE paimon_tables(catalog_key VARCHAR(255) NOT NULL,"
        "database_name VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,"
        " PRIMARY KEY (catalog_key, database_name, table_name))"
    ),
    "paimon_database_properties": (
        "CREATE TABLE paimon_database_properties(catalog_key VARCHAR(255) NOT NULL,"
        "database_name VARCHAR(255) NOT NULL,property_key VARCHAR(255),"
        "property_value VARCHAR(1000),PRIMARY KEY (catalog_key, database_name, property_key))"
    ),
    "paimon_table_properties": (
        "CREATE TABLE paimon_table_properties(catalog_key VARCHAR(255) NOT NULL,"
        "database_name VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,"
        "property_key VARCHAR(255) NOT NULL,property_value VARCHAR(1000),"
        "PRIMARY KEY (catalog_key, database_name, table_name, property_key))"
    ),
}
LOCKS: Final = "paimon_distributed_locks"
_CREATE_LOCKS: Final = (
    f"CREATE TABLE {LOCKS}(lock_id VARCHAR({{length}}) NOT NULL,"
    "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,"
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL,PRIMARY KEY (lock_id))"
)
NAME_LENGTH: Final = 255
VALUE_LENGTH: Final = 1000

_SQLITE_PRAGMAS: Final = frozenset({"journal_mode", "busy_timeout", "synchronous"})
_POSTGRES_PARAMETERS: Final[Mapping[str, str]] = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "currentSchema": "search_path",
}
"""Parameters of PostgreSQL's JDBC driver, and what libpq calls them."""
_WAIT_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class JdbcDatabase:
    """Connections to the catalog's database; `options` are the catalog's.  Picklable."""

    options: Mapping[str, str] = field(repr=False)

    @property
    def dialect(self) -> str:
        """Sqlite or postgresql."""
        return _parsed(self.options)[0]

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection whose changes are all made at the end, or none on an error.

        StorageError if the database does not answer, CatalogError if it refuses a statement.  An
        IntegrityError comes through as SQLAlchemy's.
        """
        from sqlalchemy.exc import (  # noqa: PLC0415 - an extra
            DBAPIError,
            IntegrityError,
            InterfaceError,
            OperationalError,
        )

        try:
            with self._engine().begin() as connection:
                yield connection
        except (OperationalError, InterfaceError) as e:
            raise StorageError(
                f"the database of the JDBC catalog does not answer: {_reason(e)}",
                next_step="check that the database runs, and check the options uri and jdbc.user",
            ) from e
        except IntegrityError:
            raise
        except DBAPIError as e:
            # SQLAlchemy's own message repeats the statement with its values.
            raise CatalogError(
                f"the database of the JDBC catalog refused a statement: {_reason(e)}",
                next_step="check the rights of jdbc.user in the database",
            ) from e

    def rows(self, sql: str, **values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; values are bound by name."""
        from sqlalchemy import text  # noqa: PLC0415 - an extra

        with self.transaction() as connection:
            return [tuple(row) for row in connection.execute(text(sql), values)]

    def names(self, sql: str, **values: object) -> list[str]:
        """The names that a query of one column finds, sorted; CatalogError for one that is none."""
        found = [row[0] for row in self.rows(sql, **values)]
        strange = [name for name in found if not isinstance(name, str)]
        if strange:
            raise CatalogError(
                f"the database of the JDBC catalog has the name {shown(strange[0])} in a row that "
                f"this finds: {sql}",
                next_step="delete or correct the row, then run again",
            )
        return sorted(found)

    def create_tables(self, *, locks: bool, lock_key_length: int) -> None:
        """Create the missing tables of the catalog."""
        wanted = dict(_TABLES)
        if locks:
            wanted[LOCKS] = _CREATE_LOCKS.format(length=lock_key_length)
        self.create_missing(wanted)

    def has_table(self, name: str) -> bool:
        """Whether the database has a table of this name."""
        from sqlalchemy import inspect  # noqa: PLC0415 - an extra

        with self.transaction() as connection:
            return inspect(connection).has_table(name)

    def create_missing(self, wanted: Mapping[str, str]) -> None:
        """Create the tables that are missing; `wanted` holds the statement for each name."""
        self._engine()  # says which package is missing
        from sqlalchemy import inspect, text  # noqa: PLC0415 - an extra
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415 - an extra

        with self.transaction() as connection:
            there = set(inspect(connection).get_table_names())
        for name in wanted.keys() - there:
            try:
                with self.transaction() as connection:
                    connection.execute(text(wanted[name]))
            except (CatalogError, IntegrityError, StorageError):
                # Another client may have created it in the meantime.
                with self.transaction() as connection:
                    if name not in inspect(connection).get_table_names():
                        raise

    def _engine(self) -> Engine:
        dialect, url, settings = _parsed(self.options)
        return _engine(dialect, url, tuple(settings.items()))


def _parsed(options: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """Dialect, SQLAlchemy URL and settings of the JDBC URL; InvalidArgument, UnsupportedFeature."""
    uri = options.get(URI, "")
    if not uri.startswith("jdbc:"):
        raise InvalidArgument(
            "a JDBC catalog needs the option uri",
            next_step="set it to jdbc:sqlite:PATH or jdbc:postgresql://HOST:PORT/DATABASE",
        )
    dialect, _, rest = uri.removeprefix("jdbc:").partition(":")
    if dialect == "sqlite":
        path, _, query = rest.partition("?")
        settings = dict(parse_qsl(query, keep_blank_values=True))
        _check_settings(settings, _SQLITE_PRAGMAS)
        # As Java's driver, without decoding the path: SQLAlchemy decodes what it finds in a URL.
        return dialect, f"sqlite:///{quote(path)}", settings
    if dialect != "postgresql":
        raise UnsupportedFeature(
            f"jdbc:{dialect}",
            f"a JDBC catalog on {dialect or 'no database'} is not supported",
            next_step="use SQLite or PostgreSQL",
        )
    return dialect, *_postgres(rest, options)


def _postgres(rest: str, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    try:
        from sqlalchemy.engine import URL  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as e:
        raise _needs_extra(e) from e

    # No part of the URL is shown: it may hold a password.
    try:
        parts = urlsplit(f"postgresql:{rest}")
        port = parts.port
    except ValueError:
        raise InvalidArgument(
            "the option uri of the JDBC catalog is not a URL of PostgreSQL",
            next_step="set it to jdbc:postgresql://HOST:PORT/DATABASE, and set the login as "
            "jdbc.user and jdbc.password",
        ) from None
    if parts.username is not None:
        raise InvalidArgument(
            "the option uri of a JDBC catalog holds a login before the host",
            next_step="set the login as jdbc.user and jdbc.password",
        )
    settings = dict(parse_qsl(parts.query))
    user = options.get(USER) or settings.pop("user", None)
    password = options.get(PASSWORD) or settings.pop("password", None)
    settings.pop("user", None)
    settings.pop("password", None)
    _check_settings(settings, frozenset(_POSTGRES_PARAMETERS))
    url = URL.create(
        "postgresql+psycopg",
        username=user,
        password=password,
        host=parts.hostname,
        port=port,
        database=parts.path.lstrip("/") or None,
    )
    renamed = {_POSTGRES_PARAMETERS[key]: value for key, value in settings.items()}
    return url.render_as_string(hide_password=False), renamed


def _check_settings(settings: Mapping[str, str], known: frozenset[str]) -> None:
    strange = sorted(settings.keys() - known)
    strange += sorted(
        k for k, v in settings.items() if k in known and not re.fullmatch(r"[\w./-]+", v)
    )
    if strange:
        raise InvalidArgument(
            f"unknown parameter {', '.join(strange)} in the option uri of a JDBC catalog "
            f"(known: {', '.join(sorted(known))})"
        )


@lru_cache(maxsize=32)
def _engine(dialect: str, url: str, settings: tuple[tuple[str, str], ...]) -> Engine:
    # No pool: a catalog is asked rarely, and connections must survive neither threads nor forks.
    try:
        from sqlalchemy import create_engine, event  # noqa: PLC0415 - an extra
        from sqlalchemy.pool import NullPool  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as e:
        raise _needs_extra(e) from e
    if dialect == "postgresql":
        # As Java's driver does: locks are stamped with the wall clock of the client's zone.
        zone = datetime.now(UTC).astimezone().strftime("%z")
        sign = "-" if zone[0] == "+" else "+"
        arguments: dict[str, Any] = {"connect_timeout": str(_WAIT_SECONDS), **dict(settings)}
        schema = arguments.pop("search_path", None)
        arguments["options"] = f"-c TimeZone=UTC{sign}{zone[1:3]}:{zone[3:5]}" + (
            f" -c search_path={schema}" if schema else ""
        )
        try:
            return create_engine(url, poolclass=NullPool, connect_args=arguments)
        except ModuleNotFoundError as e:
            raise _needs_extra(e) from e
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _WAIT_SECONDS})

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: object) -> None:
        for key, value in settings:
            connection.execute(f"PRAGMA {key}={value}")

    return engine


def _needs_extra(error: ModuleNotFoundError) -> InvalidArgument:
    extra = "postgres" if error.name == "psycopg" else "maintenance"
    return InvalidArgument(
        f"a JDBC catalog needs the package {error.name}, which is not installed",
        next_step=how_to_get(extra),
    )


def _reason(error: Exception) -> str:
    """The driver's own message; SQLAlchemy's repeats the statement with its values."""
    return str(getattr(error, "orig", None) or error).strip()
