"""`CALL sys.migrate_table` and `sys.migrate_database` (Java: `procedure/Migrate*Procedure`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import cast

from paimon_core.catalog.catalog import Catalog
from paimon_core.catalog.hive.hive_catalog import HiveCatalog
from paimon_core.catalog.hive.migrate import Migration, migrate_table, tables_to_migrate
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument, PaimonError, UnsupportedFeature

logger = logging.getLogger(__name__)


def migrate_one(
    catalog: Catalog,
    source: str,
    target: str | None,
    values: Mapping[str, object],
    *,
    env: Environment,
) -> None:
    """`sys.migrate_table`; errors of `migrate_table`, UnsupportedFeature for other catalogs."""
    wanted = Migration(
        source=source,
        target=target,
        options=_options(values),
        delete_origin=bool(values.get("delete_origin", True)),
        parallelism=_parallelism(values),
    )
    migrate_table(_hive(catalog, values, "table"), wanted, env=env)


def migrate_all(catalog: Catalog, values: Mapping[str, object], *, env: Environment) -> str:
    """`sys.migrate_database`: how many were migrated; one that fails keeps no other from it.

    As in Java, everything in the database is tried, tables of Paimon and views too.
    """
    hive = _hive(catalog, values, "database")
    database, options = str(values["database"]).strip("`"), _options(values)
    done = failed = 0
    for name in tables_to_migrate(hive, database):
        wanted = Migration(
            source=f"{database}.{name}", options=options, parallelism=_parallelism(values)
        )
        try:
            migrate_table(hive, wanted, env=env)
        except PaimonError as e:
            failed += 1
            logger.warning("%s.%s: %s", database, name, e)
        else:
            done += 1
    return f"migrate database is finished, success cnt: {done} , failed cnt: {failed}"


def _hive(catalog: Catalog, values: Mapping[str, object], what: str) -> HiveCatalog:
    kind = str(values["source_type"])
    if kind != "hive":
        raise UnsupportedFeature(
            f"source_type={kind}",
            f"Unsupported connector {kind}",
            next_step="migrate from Hive: source_type => 'hive'",
        )
    if not isinstance(catalog, HiveCatalog):
        raise UnsupportedFeature(
            f"the procedure sys.migrate_{what}",
            f"the procedure sys.migrate_{what} is not supported: Only support Hive Catalog, and this "
            f"is a {catalog.metastore} catalog",
            next_step="call it in a Hive catalog, or COPY INTO a table from the files",
        )
    return catalog


def _options(values: Mapping[str, object]) -> dict[str, str]:
    """Those of the text, then those of the map (Java: `parseCommaSeparatedKeyValues`)."""
    found: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in str(values.get("options") or "").split(","))):
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidArgument(f"Invalid key-value pair '{pair}'. Please use format 'key=value'")
        found[key.strip()] = value.strip()
    given = cast("Mapping[str, object]", values.get("options_map") or {})
    return found | {key: str(value) for key, value in given.items()}


def _parallelism(values: Mapping[str, object]) -> int:
    given = values.get("parallelism")
    return (os.cpu_count() or 1) if given is None else int(str(given))
