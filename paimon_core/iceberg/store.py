"""Reads and writes the files of a table's Iceberg metadata (Java: `iceberg/IcebergPathFactory`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Final, TypeVar

from paimon_core.errors import UNREADABLE, CorruptTable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.format.avro.container import Container
from paimon_core.iceberg.manifest import IcebergEntry, ManifestWriter, read_entries
from paimon_core.iceberg.manifest_list import (
    IcebergManifest,
    ManifestContent,
    ManifestTally,
    encode_list,
    read_list,
)
from paimon_core.iceberg.metadata import IcebergMetadata, metadata_from_json, metadata_to_json
from paimon_core.iceberg.settings import IcebergSettings, iceberg_settings
from paimon_core.io.file_io import FileIO, delete_abandoned, delete_files
from paimon_core.io.read_retry import read_whole, read_with_retries
from paimon_core.names import location
from paimon_core.options import MANIFEST_TARGET_SIZE
from paimon_core.paths import MAIN_BRANCH
from paimon_core.types.data_types import RowType

T = TypeVar("T")

_HINT: Final = "version-hint.text"
_VERSION: Final = re.compile(r"v(\d{1,18})\.metadata\.json")
_FILE: Final = re.compile(
    r"v\d+\.metadata\.json|version-hint\.text|snap-\d+-[^/]+\.avro|[^/]+-m\d+\.avro"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_ROLL_CHECK: Final = 1000
"""The number of entries after which Java checks the file's size."""


@dataclass(frozen=True, slots=True)
class IcebergStore:
    """The metadata folder of one table; `prefix` is in the names of all files of one commit.

    `scheme` is how paths in the metadata begin ("file:", "s3:", or nothing).  Java compares them as
    texts, so they have to be spelled as it spells them.
    """

    io: FileIO
    settings: IcebergSettings
    partition_type: RowType
    target_size: int
    table: str
    prefix: str
    scheme: str

    def spelled(self, path: str) -> str:
        """Return the path as the metadata spells it; one of another store as it is."""
        own = scheme_of(path)
        spelled = f"{self.scheme}{path.removeprefix(own)}"
        return spelled if location(spelled) == location(path) else path

    def spelled_like(self, other: str) -> IcebergStore:
        """Return the store with paths that begin as another path of the table does."""
        return replace(self, scheme=scheme_of(other))

    # --- versions ---

    def metadata_path(self, version: int) -> str:
        return f"{self.settings.folder}/v{version}.metadata.json"

    def versions(self) -> list[int]:
        """Return the versions that exist, in ascending order."""
        names = (f.name for f in self.io.list_dir(self.settings.folder))
        return sorted(v for name in names if (v := version_of(name)) is not None)

    def metadata(self, version: int) -> IcebergMetadata | None:
        """Return a version; None if it does not exist, CorruptTable if it is unreadable."""
        path = self.metadata_path(version)
        try:
            return read_with_retries(self.io, path, metadata_from_json, table=self.table)
        except FileNotFoundError:
            return None

    def write_metadata(self, metadata: IcebergMetadata) -> None:
        """Write or replace the version of the newest snapshot."""
        path = self.metadata_path(metadata.snapshot_id)
        self.io.overwrite(path, metadata_to_json(metadata).encode())

    def write_hint(self, version: int) -> None:
        """Name the newest version."""
        self.io.overwrite(f"{self.settings.folder}/{_HINT}", str(version).encode())

    # --- manifests ---

    def path(self, name: str) -> str:
        return f"{self.settings.folder}/{name}"

    def manifests(self, list_name: str) -> list[IcebergManifest]:
        """Return the manifests of a manifest list; CorruptTable if it is missing or unreadable."""
        return self._read(list_name, read_list)

    def entries(self, manifest: IcebergManifest) -> list[IcebergEntry]:
        """Return the entries of a manifest; CorruptTable if it is missing or unreadable."""
        return self._read(manifest.name, lambda c: read_entries(c, self.partition_type))

    def _read(self, name: str, decode: Callable[[Container], T]) -> T:
        path = self.path(name)
        try:
            return decode(Container(BytesIO(read_whole(self.io, path, table=self.table))))
        except (FileNotFoundError, *UNREADABLE) as e:
            raise CorruptTable(
                f"cannot read {path} of table {self.table}: {e}", table=self.table, file=path
            ) from e

    def write_list(self, number: int, manifests: Sequence[IcebergManifest]) -> str:
        """Write the manifest list of a commit; return its path."""
        path = self.path(f"snap-{number}-{self.prefix}.avro")
        settings = self.settings
        data = encode_list(
            manifests, compression=settings.compression, legacy_names=settings.legacy_names
        )
        self.io.write_bytes(path, data)
        return self.spelled(path)

    # --- deleting ---

    def delete(self, names: Sequence[str]) -> None:
        """Delete files of the folder by name; missing ones are no error."""
        delete_files(self.io, [self.path(name) for name in dict.fromkeys(names)])

    def delete_versions(self, versions: Sequence[int]) -> None:
        """Delete metadata files; their manifests stay."""
        delete_files(self.io, [self.metadata_path(v) for v in versions])

    def delete_all(self) -> None:
        """Delete the files of a table that had the same name."""
        names = [f.name for f in self.io.list_dir(self.settings.folder) if not f.is_dir]
        self.delete([n for n in names if is_iceberg_file(n)])


@dataclass(slots=True)
class NewManifests:
    """The manifests that a commit writes; `count` are those so far."""

    store: IcebergStore
    snapshot_id: int
    count: int = 0

    def write(
        self, entries: Iterable[IcebergEntry], content: ManifestContent = ManifestContent.DATA
    ) -> list[IcebergManifest]:
        """Write the entries in order; return the new manifests, none without entries."""
        made: list[IcebergManifest] = []
        writer: ManifestWriter | None = None
        tally = ManifestTally()
        for number, entry in enumerate(entries, start=1):
            if writer is None:
                writer = ManifestWriter(self.store.partition_type, self.store.settings.compression)
            writer.add(entry)
            tally.add(entry)
            if number % _ROLL_CHECK == 0 and writer.size >= self.store.target_size:
                made.append(self._close(writer, tally, content))
                writer, tally = None, ManifestTally()
        if writer is not None:
            made.append(self._close(writer, tally, content))
        return made

    def _close(
        self, writer: ManifestWriter, tally: ManifestTally, content: ManifestContent
    ) -> IcebergManifest:
        self.count += 1
        path = self.store.path(self._name(self.count))
        data = writer.finish()
        self.store.io.write_bytes(path, data)
        return tally.describe(
            self.store.spelled(path),
            len(data),
            snapshot_id=self.snapshot_id,
            content=content,
            partition_type=self.store.partition_type,
        )

    def _name(self, number: int) -> str:
        return f"{self.store.prefix}-m{number}.avro"

    def abandon(self) -> None:
        """Delete what was written so far, after a failure."""
        names = [self._name(i) for i in range(1, self.count + 1)]
        delete_abandoned(self.store.io, [self.store.path(n) for n in names])


def version_of(name: str) -> int | None:
    """Return the version in the name of a metadata file; None for other names."""
    found = _VERSION.fullmatch(name)
    return int(found[1]) if found else None


def scheme_of(path: str) -> str:
    """Return the scheme of a path with its colon; "" for a plain path."""
    found = _SCHEME.match(path)
    return found[0] if found else ""


def is_iceberg_file(name: str) -> bool:
    """Return whether a file of the folder has a name that Paimon gives."""
    return _FILE.fullmatch(name) is not None


def iceberg_store(table: FileStoreTable, new_uuid: Callable[[], str]) -> IcebergStore | None:
    """Return the store of a table's Iceberg metadata; None if it has none.

    Iceberg shows the main branch.  Java writes the snapshots of all branches into one line.
    """
    settings = iceberg_settings(table.root, table.options)
    if settings is None or table.branch != MAIN_BRANCH:
        return None
    return IcebergStore(
        io=table.io,
        settings=settings,
        partition_type=table.schema.partition_type,
        target_size=table.options.value(MANIFEST_TARGET_SIZE),
        table=table.name,
        prefix=new_uuid(),
        scheme=scheme_of(table.location or table.root),
    )
