"""Refuses a store whose listings lag behind: they hide the newest files.

A job that deletes what nothing refers to must see all references, and two jobs must see each other.
Each job writes a file of its own first, so it can check whether a listing shows this file.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.errors import UnsupportedFeature
from paimon_core.io.file_io import FileIO, FileStat


def listed_file(io: FileIO, listed: Iterable[FileStat], path: str, *, table: str) -> FileStat:
    """What the listing says of `path`, a file that was written before.

    UnsupportedFeature if the listing lacks it, FileNotFoundError if it is gone.
    """
    for found in listed:
        if found.path == path:
            return found
    io.stat(path)
    raise UnsupportedFeature(
        "stale listings",
        f"the store does not list {path}, which was written before; jobs on table {table} would miss "
        "the newest snapshots too, and delete their files",
        table=table,
        file=path,
        next_step="use a store or gateway whose listings show every file as soon as it is written "
        "(S3, Google Cloud Storage, Azure, HDFS), or turn off its cache of listings",
    )
