"""Index manifests: the index files of a snapshot (Java: `manifest/IndexManifestFile`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.container import Container
from paimon_core.io.file_io import FileIO
from paimon_core.manifest.avro_codec import known_and_unknown, record_encoder
from paimon_core.manifest.data_file import (
    DeletionVectorRange,
    IndexFileMeta,
    IndexManifestEntry,
)
from paimon_core.manifest.entries.records import checked_int, external_path_of, file_kind
from paimon_core.manifest.layouts import GLOBAL_INDEX, INDEX_ENTRY
from paimon_core.manifest.metadata_file import RecordKind, read_metadata, write_metadata
from paimon_core.manifest.unknown_fields import UnknownFields
from paimon_core.names import checked_name
from paimon_core.options import Options
from paimon_core.paths import TablePaths

INDEX_VERSION: Final = 1
_FULL_BLOCKS: Final = (64_000, 16_000)
"""The size at which a writer closes a block: the first in Java and here, the second in Python."""


class IndexEntries(list[IndexManifestEntry]):
    """The entries of an index manifest.

    `may_be_cut`: a file that lost blocks at its end looks like this one, which ends with a full
    block or has none.  Unlike for manifests and their lists, nothing holds the number of entries.
    """

    __slots__ = ("may_be_cut",)

    def __init__(self, entries: Iterable[IndexManifestEntry], *, may_be_cut: bool) -> None:
        super().__init__(entries)
        self.may_be_cut = may_be_cut


def read_index_manifest(io: FileIO, path: str) -> IndexEntries:
    """Return the entries in order.

    Raises FileNotFoundError if the file is missing, CorruptTable if it cannot be decoded,
    UnsupportedFeature for another version or format.
    """
    may_be_cut = False

    def decode(container: Container) -> list[IndexManifestEntry]:
        nonlocal may_be_cut
        found = known_and_unknown(container, _INDEX_KIND.row_type, _from_record)
        may_be_cut = not found or _may_be_full(container.last_block_bytes, found[-1])
        return found

    entries = read_metadata(io, path, _INDEX_KIND, decode)
    return IndexEntries(entries, may_be_cut=may_be_cut)


def _may_be_full(block_bytes: int, last: IndexManifestEntry) -> bool:
    """Return whether a block of this size may have been closed because of its `last` entry."""
    if block_bytes < min(_FULL_BLOCKS):
        return False
    most = 2 * len(record_encoder(INDEX_ENTRY)(_to_record(last)))  # other versions have more fields
    return any(full <= block_bytes < full + most for full in _FULL_BLOCKS)


def write_index_manifest(
    io: FileIO,
    paths: TablePaths,
    entries: Iterable[IndexManifestEntry],
    *,
    options: Options,
    new_uuid: Callable[[], str],
) -> str:
    """Write an index manifest and return its name."""
    name = f"index-manifest-{new_uuid()}-0"
    write_metadata(io, paths.manifest(name), _INDEX_KIND, entries, options)
    return name


def _from_record(r: Mapping[str, Any], unknown: UnknownFields) -> IndexManifestEntry:
    if r["_VERSION"] != INDEX_VERSION:
        raise UnsupportedFeature(f"index manifests of version {r['_VERSION']}")
    ranges, index = r.get("_DELETIONS_VECTORS_RANGES"), r.get("_GLOBAL_INDEX")
    return IndexManifestEntry(
        file_kind(r["_KIND"]),
        r["_PARTITION"],
        checked_int(r["_BUCKET"], "_BUCKET"),
        IndexFileMeta(
            index_type=r["_INDEX_TYPE"],
            file_name=checked_name(r["_FILE_NAME"], "_FILE_NAME"),
            file_size=r["_FILE_SIZE"],
            row_count=r["_ROW_COUNT"],
            dv_ranges=None
            if ranges is None
            else tuple(
                DeletionVectorRange(
                    checked_name(x["f0"], "f0"), x["f1"], x["f2"], x.get("_CARDINALITY")
                )
                for x in ranges
            ),
            external_path=external_path_of(r.get("_EXTERNAL_PATH")),
            global_index=None
            if index is None
            else {name: index.get(name) for name in GLOBAL_INDEX.names},
        ),
        unknown,
    )


def _to_record(entry: IndexManifestEntry) -> dict[str, Any]:
    file = entry.index_file
    return {
        "_VERSION": INDEX_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if file.dv_ranges is None
        else [
            {"f0": x.data_file, "f1": x.offset, "f2": x.length, "_CARDINALITY": x.cardinality}
            for x in file.dv_ranges
        ],
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": file.global_index,
    }


_INDEX_KIND: Final = RecordKind(INDEX_ENTRY, _from_record, _to_record, lambda e: e.unknown)
