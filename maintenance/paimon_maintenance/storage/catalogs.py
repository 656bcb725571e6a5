"""Catalogs by name, and tables of a warehouse or a catalog.

A warehouse is a folder or URL, or `catalog:NAME` for a catalog that is
defined in `caretaker.toml`::

    [catalogs.prod]                     # Paimon's own option names
    metastore = "rest"
    uri = "https://catalog.example.com"
    warehouse = "lake"
    "token.provider" = "bear"

The file is the one that CARETAKER_CONFIG names, else `caretaker.toml` in the working directory.  It
may not hold secrets.  These are in the environment variable CARETAKER_CATALOGS, a JSON object of
the same shape, `{"prod": {"token": "..."}}`, whose options come before the file's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_maintenance.storage.config_file import DEFAULT_CONFIG, read_config
from paimon_maintenance.storage.options import refuse_secrets

if TYPE_CHECKING:
    from paimon_core.catalog.catalog import Catalog
    from paimon_core.file_store_table import FileStoreTable
    from paimon_core.io.file_io import FileIO

CATALOGS_VARIABLE: Final = "CARETAKER_CATALOGS"
PREFIX: Final = "catalog:"
_ALL_STEPS: Final = "maintain"
_CHANGE_HISTORY: Final = frozenset({"repair"})
"""Jobs that replace or remove the newest snapshots, schemas or branches in the file system.

Rollback and the jobs on branches do that too, but ask the catalog if it makes the commits.
"""


def catalog_name(warehouse: str) -> str | None:
    """NAME of `catalog:NAME`; None for a folder or URL."""
    return warehouse.removeprefix(PREFIX) if warehouse.startswith(PREFIX) else None


def defined_catalogs(environ: Mapping[str, str] = os.environ) -> dict[str, dict[str, str]]:
    """The options of each catalog by name, with secrets.

    InvalidArgument for a broken definition.
    """
    found = {name: dict(options) for name, options in _of_file(environ).items()}
    for name, options in _of_environment(environ).items():
        found[name] = {**found.get(name, {}), **options}
    return found


def options_of(
    warehouse: str,
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The options with which `warehouse` is opened: the catalog's, then `options`.

    For a folder or URL they are `options` alone.  InvalidArgument for an unknown catalog.
    """
    name = catalog_name(warehouse)
    given = dict(options or {})
    if name is None:
        return given
    defined = defined_catalogs(environ)
    if name not in defined and "metastore" not in given:
        known = ", ".join(sorted(defined)) or "none"
        raise InvalidArgument(
            f"no catalog is called {name!r} (defined: {known})",
            next_step=f"define [catalogs.{name}] in {DEFAULT_CONFIG}, or set {CATALOGS_VARIABLE}",
        )
    return {**defined.get(name, {}), **given}


def catalog_of(warehouse: str, options: Mapping[str, str] | None = None) -> Catalog:
    """The catalog that `warehouse` means; a folder or URL is a filesystem catalog."""
    from paimon_core.catalog.filesystem import FileSystemCatalog  # noqa: PLC0415 - fast start
    from paimon_core.catalog.open import open_catalog  # noqa: PLC0415 - fast start

    found = options_of(warehouse, options)
    if catalog_name(warehouse) is None:
        return FileSystemCatalog(warehouse, found)
    return open_catalog(found)


def open_table_of(
    warehouse: str,
    identifier: str,
    *,
    branch: str | None = None,
    dynamic_options: Mapping[str, str | None] | None = None,
    file_io_options: Mapping[str, str] | None = None,
    watch: Callable[[FileIO, str], FileIO] | None = None,
    job: str | None = None,
) -> FileStoreTable:
    """The table `identifier` of a warehouse folder or of a catalog; errors as in `open_table`.

    UnsupportedFeature if the catalog's own service does `job`, or if the catalog makes the table's
    commits and `job` would change its history in the file system.
    """
    from paimon_core.table.open import open_table  # noqa: PLC0415 - fast start

    if catalog_name(warehouse) is None:
        return open_table(
            warehouse,
            identifier,
            branch=branch,
            dynamic_options=dynamic_options,
            file_io_options=file_io_options,
            watch=watch,
        )
    catalog = catalog_of(warehouse, file_io_options)
    _check_not_maintained(catalog, warehouse, identifier, job)
    table = catalog.get_table(
        identifier, branch=branch, dynamic_options=dynamic_options, watch=watch
    )
    if job in _CHANGE_HISTORY and table.snapshots.owner is not None:
        raise UnsupportedFeature(
            f"{job} on a table whose catalog makes the commits",
            f"{job} does not run on table {identifier}: only {table.snapshots.owner} changes its "
            "snapshots, schemas and branches",
            table=identifier,
            next_step="do it with a client of the catalog, as Java Paimon's procedures",
        )
    return table


def _check_not_maintained(
    catalog: Catalog, warehouse: str, identifier: str, job: str | None
) -> None:
    own = catalog.maintained_jobs
    if job not in own and not (job == _ALL_STEPS and own):
        return
    done = ", ".join(sorted(own))
    raise UnsupportedFeature(
        f"{job} on a table that its catalog maintains",
        f"{job} does not run on table {identifier}: the service of {warehouse} does {done} by itself",
        table=identifier,
        next_step="run the other jobs one by one, or take the job out of the catalog's option "
        "caretaker.maintained-jobs if its service no longer does it",
    )


def _of_file(environ: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    file, raw = read_config(environ)
    return catalogs_from(raw.get("catalogs", {}), file)


def catalogs_from(raw: object, where: str) -> dict[str, dict[str, str]]:
    """The tables `[catalogs.NAME]` of a TOML file.

    InvalidArgument if one is wrong or has a secret.
    """
    found = _checked(raw, f"{where}: [catalogs]")
    for name, options in found.items():
        refuse_secrets(
            options,
            f"{where}: [catalogs.{name}]",
            next_step=f"pass secrets in the environment variable {CATALOGS_VARIABLE}, a JSON object with "
            "options for each catalog",
        )
    return found


def _of_environment(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    text = environ.get(CATALOGS_VARIABLE)
    if not text:
        return {}
    try:
        raw = json.loads(text)
    except ValueError:
        raw = None
    # The value may hold secrets: neither it nor the parser's message is shown.
    return _checked(raw, f"the environment variable {CATALOGS_VARIABLE}")


def _checked(raw: object, where: str) -> dict[str, dict[str, str]]:
    if not isinstance(raw, Mapping) or not all(isinstance(o, Mapping) for o in raw.values()):
        raise InvalidArgument(
            f"{where} must hold the options of each catalog by its name",
            next_step='write them as in {"prod": {"metastore": "rest", "uri": "..."}}',
        )
    return {str(name): _texts(options) for name, options in raw.items()}


def _texts(options: Mapping[object, object]) -> dict[str, str]:
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
    }
