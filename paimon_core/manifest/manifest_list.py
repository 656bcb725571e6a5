"""Manifest lists: the manifests of a snapshot's base, delta or changelog (Java: `ManifestList`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.file_io import FileIO
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.avro_codec import SeenRecords
from paimon_core.manifest.data_file import ManifestFileMeta
from paimon_core.manifest.entries.records import optional_int, stats_from_record, stats_to_record
from paimon_core.manifest.layouts import MANIFEST
from paimon_core.manifest.metadata_file import RecordKind, decode_metadata, write_metadata
from paimon_core.manifest.unknown_fields import UnknownFields
from paimon_core.names import checked_name
from paimon_core.options import Options
from paimon_core.paths import TablePaths

LIST_VERSION: Final = 2


class SizedList(list[ManifestFileMeta]):
    """The manifests that a list names; `size` is that of its file in bytes."""

    __slots__ = ("size",)

    def __init__(self, manifests: Iterable[ManifestFileMeta], size: int) -> None:
        super().__init__(manifests)
        self.size = size


def read_manifest_list(
    io: FileIO, path: str, seen: SeenRecords[ManifestFileMeta] | None = None
) -> SizedList:
    """Return the manifests in the list, in order; `seen` are those of lists that were read before.

    Raises FileNotFoundError if the file is missing, CorruptTable if it cannot be decoded,
    UnsupportedFeature for another version or format.
    """
    data = read_whole(io, path)
    return SizedList(decode_metadata(data, path, _LIST_KIND, seen=seen), len(data))


def write_manifest_list(
    io: FileIO,
    paths: TablePaths,
    manifests: Iterable[ManifestFileMeta],
    *,
    options: Options,
    new_uuid: Callable[[], str],
) -> tuple[str, int]:
    """Write a manifest list, even an empty one; return its name and size.

    The size is stored in the snapshot and must be exact, like the sizes of the manifests: Java
    reads exactly this number of bytes and ignores the rest.
    """
    name = f"manifest-list-{new_uuid()}-0"
    return name, write_metadata(io, paths.manifest(name), _LIST_KIND, manifests, options)


def _from_record(r: Mapping[str, Any], unknown: UnknownFields) -> ManifestFileMeta:
    if r["_VERSION"] != LIST_VERSION:
        raise UnsupportedFeature(f"manifest lists of version {r['_VERSION']}")
    return ManifestFileMeta(
        file_name=checked_name(r["_FILE_NAME"], "_FILE_NAME"),
        file_size=r["_FILE_SIZE"],
        num_added_files=r["_NUM_ADDED_FILES"],
        num_deleted_files=r["_NUM_DELETED_FILES"],
        partition_stats=stats_from_record(r["_PARTITION_STATS"]),
        schema_id=r["_SCHEMA_ID"],
        min_bucket=optional_int(r.get("_MIN_BUCKET"), "_MIN_BUCKET"),
        max_bucket=optional_int(r.get("_MAX_BUCKET"), "_MAX_BUCKET"),
        min_level=optional_int(r.get("_MIN_LEVEL"), "_MIN_LEVEL"),
        max_level=optional_int(r.get("_MAX_LEVEL"), "_MAX_LEVEL"),
        min_row_id=r.get("_MIN_ROW_ID"),
        max_row_id=r.get("_MAX_ROW_ID"),
        unknown=unknown,
    )


def _to_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": LIST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


_LIST_KIND: Final = RecordKind(MANIFEST, _from_record, _to_record, lambda m: m.unknown)
