"""The table in an Iceberg REST catalog (Java: `iceberg/IcebergRestMetadataCommitter`).

The catalog keeps metadata of its own, with the manifest lists of Paimon's commits.  Each change is
one commit to the catalog that requires what was read before, so a repetition after a lost reply or
a conflict changes nothing twice.  Java drops and creates the table whenever its newest snapshot is
not the one before; here only after a rollback, and never a table that Paimon has not made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_core.errors import (
    AlreadyExists,
    CatalogError,
    InvalidArgument,
    NotFound,
    PaimonError,
    StorageAccessDenied,
    StorageError,
)
from paimon_core.iceberg.external_catalog import Shown, Version
from paimon_core.iceberg.metadata import IcebergMetadata
from paimon_core.iceberg.rest_updates import change_to, head_of, is_new, new_table
from paimon_core.remote.iceberg_rest import IcebergRest

_ATTEMPTS: Final = 6
_FIRST_WAIT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class RestEntry:
    """`ExternalCatalog`: the table (namespace, name); `properties` are those that Paimon sets."""

    options: Mapping[str, str] = field(repr=False)
    name: tuple[str, str]
    properties: Mapping[str, str]

    def show(self, version: Version) -> Shown:
        """As in `ExternalCatalog`."""
        catalog = IcebergRest.connect(self.options)
        failure: PaimonError | None = None
        replaced = False
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_WAIT_SECONDS * attempt)
            current = catalog.load(self.name)
            if current is not None:
                self._check_own(current, version)
            if current is not None and version.is_overtaken_by(head_of(current) or 0):
                return Shown.LATER
            try:
                if current is None:
                    current = self._create(catalog, version)
                change = change_to(current, version.metadata, self.properties)
                if change is None:
                    if version.number < version.newest():
                        return Shown.LATER  # the commit of the newest one replaces the table
                    replaced = True
                    catalog.drop(self.name)
                    continue
                if change.updates:
                    catalog.commit(self.name, change.requirements, change.updates)
            except StorageAccessDenied:
                raise
            except (AlreadyExists, NotFound, StorageError) as e:
                # Another commit was faster, or the reply was lost: look at the table again.
                failure = e
                continue
            return Shown.REPLACED if replaced else Shown.THIS
        raise failure or self._error("is replaced again and again by other clients")

    def _create(self, catalog: IcebergRest, version: Version) -> dict[str, Any]:
        catalog.ensure_namespace(self.name[0])
        body = new_table(version.metadata)
        try:
            return catalog.create(self.name, body)
        except InvalidArgument:
            # Some catalogs need a location, others refuse one.
            return catalog.create(self.name, {**body, "location": _location(version.metadata)})

    def _check_own(self, current: Mapping[str, Any], version: Version) -> None:
        """CatalogError for a table that Paimon has not made."""
        lists = [str(s.get("manifest-list")) for s in current.get("snapshots") or ()]
        if not (all(map(version.is_own, lists)) if lists else is_new(current, version.metadata)):
            raise self._error("is another table, or another program has written to it")

    def _error(self, what: str) -> CatalogError:
        return CatalogError(
            f"{'.'.join(self.name)} in the Iceberg REST catalog {what}",
            next_step="drop it there if this table replaces it, or set metadata.iceberg.database or "
            "metadata.iceberg.table to another name",
        )


def _location(metadata: IcebergMetadata) -> str:
    """Return the table's location with the scheme of S3 that Iceberg's catalogs know."""
    scheme, colon, rest = metadata.location.partition("://")
    return f"s3://{rest}" if colon and scheme in ("s3a", "s3n") else metadata.location
