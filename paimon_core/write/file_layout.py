"""Format, compression, statistics and names of the files that a bucket's writer creates.

Java: `io/KeyValueFileWriterFactory`, `io/DataFilePathFactory`.  Key-value files can differ by
level, and changelog files can differ from data files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_core.options import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
    COMPACTION_SMALL_FILE_RATIO,
    DATA_FILE_PREFIX,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FILE_SUFFIX_INCLUDE_COMPRESSION,
    MB,
    STATS_MODE,
    STATS_MODE_PER_LEVEL,
    TARGET_FILE_SIZE,
    Options,
)

KEY_VALUE_TARGET: Final = 128 * MB
APPEND_TARGET: Final = 256 * MB
_EXTENSIONS: Final = {
    "none": None,
    "gzip": "gz",
    "bzip2": "bz2",
    "zstd": "zst",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The settings for one kind of file; `prefix` and `extension` enclose its unique name."""

    file_format: str
    compression: str
    stats_mode: str
    prefix: str
    extension: str

    def name(self, uuid: str, number: int) -> str:
        """Return the name of the writer's file of this number."""
        return f"{self.prefix}{uuid}-{number}{self.extension}"


def key_value_layout(options: Options, *, level: int, changelog: bool = False) -> FileLayout:
    """Return the layout of key-value files of this level, or of changelog files."""

    def choose(default: str, by_level: Mapping[int, str], of_changelog: str | None) -> str:
        if changelog and of_changelog is not None:
            return of_changelog
        return by_level.get(level, default)

    file_format = choose(
        options.value(FILE_FORMAT),
        options.value(FILE_FORMAT_PER_LEVEL),
        options.value(CHANGELOG_FILE_FORMAT),
    )
    return FileLayout(
        file_format=file_format,
        compression=choose(
            options.value(FILE_COMPRESSION),
            options.value(FILE_COMPRESSION_PER_LEVEL),
            options.value(CHANGELOG_FILE_COMPRESSION),
        ),
        stats_mode=choose(
            options.value(STATS_MODE),
            options.value(STATS_MODE_PER_LEVEL),
            options.value(CHANGELOG_FILE_STATS_MODE),
        ),
        prefix=options.value(CHANGELOG_FILE_PREFIX if changelog else DATA_FILE_PREFIX),
        extension=_extension(options, file_format),
    )


def append_layout(options: Options) -> FileLayout:
    """Return the layout of the files of a table without primary key."""
    file_format = options.value(FILE_FORMAT)
    return FileLayout(
        file_format=file_format,
        compression=options.value(FILE_COMPRESSION),
        stats_mode=options.value(STATS_MODE),
        prefix=options.value(DATA_FILE_PREFIX),
        extension=_extension(options, file_format),
    )


def target_file_size(options: Options, *, primary_key: bool) -> int:
    """Return the size in bytes at which a new file starts."""
    return options.value(TARGET_FILE_SIZE) or (KEY_VALUE_TARGET if primary_key else APPEND_TARGET)


def small_file_size(options: Options, *, primary_key: bool) -> int:
    """Return the size limit in bytes of small files (Java: `CoreOptions.compactionFileSize`).

    Seven tenths of the target size, as in 1.4.2, or what the option of 2.0 says.
    """
    target = target_file_size(options, primary_key=primary_key)
    ratio = options.value(COMPACTION_SMALL_FILE_RATIO)
    return target // 10 * 7 if ratio is None else int(target * ratio)


def _extension(options: Options, file_format: str) -> str:
    # Java uses the table's compression here, even if a level has its own.
    compression = options.value(FILE_COMPRESSION)
    inner = _EXTENSIONS.get(compression, compression)
    if options.value(FILE_SUFFIX_INCLUDE_COMPRESSION) and inner:
        return f".{inner}.{file_format}"
    return f".{file_format}"
