"""The catalogs of a session by name: `paimon` is its own, others are configured.

::

    SET spark.sql.catalog.other=org.apache.paimon.spark.SparkCatalog;
    SET spark.sql.catalog.other.warehouse=/lake/other;
    SELECT * FROM other.db.t
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.open import METASTORE, open_catalog
from paimon_core.options import parse_bool

CATALOG: Final = "paimon"
PREFIX: Final = "spark.sql.catalog."
_NAMED: Final = "catalog:"
_DEFAULT_DATABASE: Final = "defaultDatabase"
_FUNCTIONS: Final = "v1Function.enabled"


@dataclass(frozen=True, slots=True)
class CatalogRef:
    """A catalog: `warehouse` is a folder, or `catalog:NAME`; `options` are Paimon's."""

    name: str
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def default_database(self) -> str:
        """The database that `USE` of the catalog chooses."""
        return self._option(_DEFAULT_DATABASE, "default")

    @property
    def has_functions(self) -> bool:
        """Whether the functions that it keeps are used; some run code of jars."""
        return parse_bool(self._option(_FUNCTIONS, "true"))

    def _option(self, key: str, default: str) -> str:
        """An option of Spark's connector, whatever its case.  Java: `SparkCatalogOptions`."""
        lowered = {k.lower(): v for k, v in self.options.items()}
        return lowered.get(key.lower(), default)


OpenCatalog = Callable[[str, Mapping[str, str]], Catalog]
"""Opens a catalog from warehouse and options."""


def catalog_at(warehouse: str, options: Mapping[str, str]) -> Catalog:
    """The catalog of a folder, or that which the option `metastore` describes."""
    if METASTORE in options:
        return open_catalog(options)
    return FileSystemCatalog(warehouse, dict(options))


def configured(conf: Mapping[str, str], name: str) -> dict[str, str]:
    """The options that `spark.sql.catalog.NAME.*` sets."""
    prefix = f"{PREFIX}{name}."
    return {k.removeprefix(prefix): v for k, v in conf.items() if k.startswith(prefix)}


def find_catalog(
    name: str,
    own: CatalogRef,
    conf: Mapping[str, str],
    defined: Mapping[str, Mapping[str, str]],
) -> CatalogRef | None:
    """The catalog of this name, None if there is none.

    `own` is the session's, which its own name in the definitions means too; `defined` are catalogs
    by their name in the configuration.
    """
    if name.lower() == CATALOG or own.warehouse == f"{_NAMED}{name}":
        return CatalogRef(CATALOG, own.warehouse, {**own.options, **configured(conf, CATALOG)})
    options = {**defined.get(name, {}), **configured(conf, name)}
    if METASTORE in options and options[METASTORE] != "filesystem":
        return CatalogRef(name, f"{_NAMED}{name}", options)
    if "warehouse" in options:
        return CatalogRef(name, options["warehouse"], options)
    return None


def catalog_names(conf: Mapping[str, str], defined: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The names of all catalogs, sorted."""
    set_here = {k.removeprefix(PREFIX).partition(".")[0] for k in conf if k.startswith(PREFIX)}
    return sorted({CATALOG, *defined, *set_here})
