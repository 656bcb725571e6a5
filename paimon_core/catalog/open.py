"""From options to a catalog (Java: `catalog/CatalogFactory`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import InvalidArgument, UnsupportedFeature

METASTORE: Final = "metastore"
_SUPPORTED: Final = ("filesystem", "hive", "jdbc", "rest")


def open_catalog(options: Mapping[str, str]) -> Catalog:
    """The catalog that Paimon's options describe: `metastore`, `warehouse`, `uri`, ...

    Options of the store are among them.  InvalidArgument for a missing option or package,
    UnsupportedFeature for a metastore that is not supported, by its name.
    """
    metastore = options.get(METASTORE, "filesystem")
    if metastore == "jdbc":
        from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog  # noqa: PLC0415 - needs SQLAlchemy

        return JdbcCatalog(dict(options))
    if metastore == "rest":
        from paimon_core.catalog.rest.rest_catalog import RestCatalog  # noqa: PLC0415 - needs httpx

        return RestCatalog.connect(dict(options))
    if metastore == "hive":
        from paimon_core.catalog.hive.hive_catalog import HiveCatalog  # noqa: PLC0415 - as the others

        return HiveCatalog.connect(options)
    if metastore != "filesystem":
        raise UnsupportedFeature(
            f"metastore={metastore}",
            f"a catalog with metastore {metastore!r} is not supported "
            f"(supported: {', '.join(_SUPPORTED)})",
            next_step="correct the option metastore",
        )
    if not options.get("warehouse"):
        raise InvalidArgument("a filesystem catalog needs the option warehouse")
    if options.get("lock.type"):
        raise UnsupportedFeature(
            f"lock.type={options['lock.type']}",
            f"a filesystem catalog with lock.type={options['lock.type']} is not supported",
            next_step="open the catalog that has the lock",
        )
    return FileSystemCatalog(options["warehouse"], dict(options))
