"""The interface of external catalogs, which show a table to Iceberg readers: Hive or Iceberg REST.

Java: `iceberg/IcebergMetadataCommitter`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from paimon_core.iceberg.metadata import IcebergMetadata
from paimon_core.names import lies_under, location
from paimon_core.types.data_types import DataField


class Shown(Enum):
    """What the catalog shows after a call of `ExternalCatalog.show`."""

    THIS = auto()
    """The version that it was asked to show."""
    UNGUARDED = auto()
    """This version, but a slower commit may set the entry back."""
    REPLACED = auto()
    """This version in a new table: that of a later commit may have been dropped."""
    LATER = auto()
    """A later version, or one that its own commit is about to register."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of the metadata to show.

    `path` is its file, and `folder` the folder with all versions.  `columns` are those of the
    newest schema.  `newest` returns the id of the newest Paimon snapshot at the time of the call.
    """

    metadata: IcebergMetadata
    path: str
    folder: str
    columns: tuple[DataField, ...]
    newest: Callable[[], int]

    @property
    def number(self) -> int:
        return self.metadata.snapshot_id

    def is_overtaken_by(self, number: int) -> bool:
        """Return whether `number`, shown by a catalog, is later and not of a removed snapshot."""
        return self.number < number <= self.newest()

    def is_own(self, path: str) -> bool:
        """Return whether a file that a catalog names is metadata of this table."""
        file, folder = location(path), location(self.folder)
        return file is not None and folder is not None and lies_under(file, folder)


class ExternalCatalog(Protocol):
    """The entry of one table in an external catalog."""

    def show(self, version: Version) -> Shown:
        """Make the catalog show the version, unless it shows a later one.

        Never replaces an entry that this table has not written.  Raises a PaimonError on failure;
        after a StorageError, the catalog may show the version nevertheless.
        """
