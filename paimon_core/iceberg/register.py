"""Registers the newest metadata of a table in its external catalog, if it has one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Final

from paimon_core.errors import InvalidArgument, PaimonError, UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.iceberg.external_catalog import ExternalCatalog, Shown, Version
from paimon_core.iceberg.hive_entry import HiveEntries
from paimon_core.iceberg.metadata import IcebergMetadata
from paimon_core.iceberg.rest_entry import RestEntry
from paimon_core.iceberg.settings import (
    DELETE_AFTER_COMMIT,
    HIVE_CATALOG,
    ICEBERG_DATABASE,
    ICEBERG_FORMAT_VERSION,
    ICEBERG_HIVE_CLIENT,
    ICEBERG_HIVE_CONF_DIR,
    ICEBERG_REST,
    ICEBERG_STORAGE,
    ICEBERG_TABLE,
    ICEBERG_URI,
    PREVIOUS_VERSIONS_MAX,
    SKIP_ARCHIVE,
    SKIP_STATS,
)
from paimon_core.iceberg.store import IcebergStore
from paimon_core.io.file_io import parent
from paimon_core.remote.hive_client import (
    CLIENT_CLASS,
    CONF_DIR,
    SOCKET_TIMEOUT,
    URI,
    HiveClient,
    check_thrift,
    with_site,
)
from paimon_core.remote.iceberg_rest import checked_options

SECRETS: Final = "CARETAKER_ICEBERG"
"""An environment variable: a JSON object with options for each `uri` of an Iceberg REST catalog."""
_HIVE_PREFIX: Final = "hive."
_HIVE_DEFAULTS: Final = {SOCKET_TIMEOUT: "60 s"}
"""The commit is made: it must not wait for the metastore for as long as catalogs do."""
_REST_FORMAT_VERSION: Final = 2


def register(table: FileStoreTable, store: IcebergStore, metadata: IcebergMetadata) -> Shown:
    """Make the external catalog show the metadata; return what it shows: THIS, UNGUARDED or LATER.

    Raises a PaimonError if the catalog does not answer or refuses the change; it may then need any
    file of the metadata.
    """
    catalog = _external_catalog(table, store)
    shown = catalog.show(_version(table, store, metadata))
    if shown in (Shown.THIS, Shown.LATER):
        return shown
    # This may have replaced what a later commit has registered.
    newest = table.snapshots.latest_id() or 0
    later = store.metadata(newest) if newest > metadata.snapshot_id else None
    if later is not None:
        catalog.show(_version(table, store, later))
        return Shown.LATER
    return Shown.UNGUARDED if shown is Shown.UNGUARDED else Shown.THIS


def _version(table: FileStoreTable, store: IcebergStore, metadata: IcebergMetadata) -> Version:
    store = store.spelled_like(metadata.location)
    latest = table.schemas.latest() or table.schema
    return Version(
        metadata=metadata,
        path=store.spelled(store.metadata_path(metadata.snapshot_id)),
        folder=store.settings.folder,
        columns=tuple(latest.fields),
        newest=lambda: table.snapshots.latest_id() or 0,
    )


def _external_catalog(table: FileStoreTable, store: IcebergStore) -> ExternalCatalog:
    options = table.options
    if options.value(ICEBERG_STORAGE) == HIVE_CATALOG:
        return HiveEntries(
            client=_hive_client(table),
            databases=_hive_databases(table),
            table=_name(table)[1].lower(),
            database_location=store.spelled(parent(parent(store.settings.folder))),
            context={
                "CASCADE": "true",
                "DO_NOT_UPDATE_STATS": str(options.value(SKIP_STATS)).lower(),
                "skipAWSGlueArchive": str(options.value(SKIP_ARCHIVE)).lower(),
            },
        )
    return RestEntry(
        options=_rest_options(table),
        name=_name(table),
        properties={
            "write.metadata.previous-versions-max": str(options.value(PREVIOUS_VERSIONS_MAX)),
            "write.metadata.delete-after-commit.enabled": str(
                options.value(DELETE_AFTER_COMMIT)
            ).lower(),
            # Iceberg's own maintenance must not delete Paimon's data files.
            "gc.enabled": "false",
        },
    )


def _name(table: FileStoreTable) -> tuple[str, str]:
    """Return database and table in the external catalog: options, else those of Paimon's table."""
    database, _, name = table.name.partition(".")
    return table.options.get(ICEBERG_DATABASE) or database, table.options.get(ICEBERG_TABLE) or name


def _hive_databases(table: FileStoreTable) -> tuple[str, ...]:
    return tuple(d.strip().lower() for d in _name(table)[0].split(";"))


def _hive_client(table: FileStoreTable) -> HiveClient:
    options = table.options
    given = {k: v for k, v in options.items() if k.startswith(_HIVE_PREFIX)}
    for key, own in (
        (URI, ICEBERG_URI),
        (CONF_DIR, ICEBERG_HIVE_CONF_DIR),
        (CLIENT_CLASS, ICEBERG_HIVE_CLIENT),
    ):
        if options.get(own):
            given[key] = options[own]
    return HiveClient({**_HIVE_DEFAULTS, **with_site(given)})


def _rest_options(table: FileStoreTable) -> dict[str, str]:
    """Return the options of the REST catalog, with those of the environment for its `uri`."""
    own = table.options.matching(ICEBERG_REST)
    found = _secrets()
    uri = own.get("uri", "").rstrip("/")
    extra = next((v for k, v in found.items() if k.rstrip("/") == uri), {})
    return {**own, **extra, **({"uri": own["uri"]} if "uri" in own else {})}


def _secrets() -> Mapping[str, Mapping[str, str]]:
    text = os.environ.get(SECRETS)
    if not text:
        return {}
    try:
        found = json.loads(text)
        return {str(uri): {str(k): str(v) for k, v in o.items()} for uri, o in found.items()}
    except (ValueError, AttributeError):
        # The value holds secrets: neither it nor the parser's message is shown.
        raise InvalidArgument(
            f"${SECRETS} is not a JSON object of objects: " + '{"URI": {"token": "..."}}'
        ) from None


# --- what is refused ------------------------------------------------------------------------------


def unregistrable(table: FileStoreTable) -> Iterator[str]:
    """Yield why the table could not be registered after a commit; no server is asked."""
    storage = f"{ICEBERG_STORAGE.key}={table.options.value(ICEBERG_STORAGE)}"
    try:
        if table.options.value(ICEBERG_STORAGE) == HIVE_CATALOG:
            check_thrift()
            servers = _hive_client(table).servers()
            registry = table.partition_registry
            for database in _hive_databases(table):
                name = _name(table)[1].lower()
                if registry is not None and registry.is_entry(servers, database, name):
                    yield (
                        f"{storage} for {database}.{name}, which is the Paimon catalog's own entry "
                        f"(set {ICEBERG_DATABASE} or {ICEBERG_TABLE} to another name)"
                    )
        else:
            checked_options(_rest_options(table))
            if table.options.value(ICEBERG_FORMAT_VERSION) > _REST_FORMAT_VERSION:
                yield f"{storage} with {ICEBERG_FORMAT_VERSION.key} above {_REST_FORMAT_VERSION}"
    except UnsupportedFeature as e:
        yield f"{storage} with {e.feature}"
    except PaimonError as e:
        yield f"{storage}: {e.message}"
