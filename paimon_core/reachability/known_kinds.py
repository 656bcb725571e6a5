"""The patterns of file names that this version knows.

Java: `io/DataFilePathFactory`, `utils/FileStorePathFactory`, `fs/Path.createTempPath`.  Newer
versions write other files as well, which no manifest mentions by name: packs of managed BLOBs
(`*.managed.blob`), their references (`*.blobref`), sidecars.  So a file whose name has another
pattern must not count as garbage, even if no known metadata mentions it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

_FORMATS: Final = "parquet|orc|avro"
_CODECS: Final = (
    "none|uncompressed|snappy|lz4|lz4_raw|lz4_frame|zstd|zst|gzip|gz|zlib|deflate|bzip2|bz2|lzo|xz"
    "|brotli"
)
"""Compressions by their names, and by Java's endings for them (`HadoopCompressionType`)."""
_STEM: Final = r"(?:[^.]*-[^.]+|.+-\d+)"  # a prefix that an option sets may hold dots
_DATA: Final = re.compile(rf"{_STEM}(?:\.(?i:{_CODECS}))?\.(?:{_FORMATS})(?:\.index)?")
_BLOB: Final = re.compile(rf"{_STEM}\.blob")  # no pack: manifests name it as a data file
_FILE_INDEX: Final = re.compile(rf"{_STEM}\.index")
_COMPACTED_CHANGELOG: Final = re.compile(rf"compacted-changelog-.+\.cc-(?:{_FORMATS})")
_BUCKET_INDEX: Final = re.compile(r"index-(?!manifest-)[^.]+")
_GLOBAL_INDEX: Final = re.compile(r"(?:.+-)?global-index-.+\.index")
_MANIFEST: Final = re.compile(r"(?:manifest|manifest-list|index-manifest)-[^.]+")
_STATISTICS: Final = re.compile(r"stats?-.+")
_TEMPORARY: Final = re.compile(r"\..+\.tmp")


class Folder(StrEnum):
    """The kinds of folders that hold files which metadata mentions by name."""

    BUCKET = "bucket"
    MANIFEST = "manifest"
    INDEX = "index"
    STATISTICS = "statistics"


def _any_of(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p.pattern})" for p in patterns))


_KNOWN: Final = {
    Folder.BUCKET: _any_of(
        *(_DATA, _BLOB, _FILE_INDEX, _COMPACTED_CHANGELOG),
        *(_BUCKET_INDEX, _GLOBAL_INDEX, _TEMPORARY),
    ),
    Folder.MANIFEST: _any_of(_MANIFEST, _TEMPORARY),
    Folder.INDEX: _any_of(_BUCKET_INDEX, _GLOBAL_INDEX, _TEMPORARY),
    Folder.STATISTICS: _any_of(_STATISTICS, _TEMPORARY),
}


def is_known_kind(name: str, folder: Folder) -> bool:
    """Return whether metadata mentions each file with such a name, or the file is temporary."""
    return _KNOWN[folder].fullmatch(name) is not None


def is_index(name: str) -> bool:
    """Return whether index manifests name files like this one."""
    return any(kind.fullmatch(name) for kind in (_BUCKET_INDEX, _GLOBAL_INDEX))


def is_temporary(name: str) -> bool:
    """Return whether a killed writer left the file (`.NAME.UUID.tmp`)."""
    return _TEMPORARY.fullmatch(name) is not None
