"""Parquet pages of a few rows, of which a merge copies as few as there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from paimon_core.compaction import copyable_pages, page_copy
from paimon_core.format.parquet import reader, writer
from paimon_core.write import page_splice


@contextmanager
def small_pages(
    rows: int, *, leading_bytes: int = 1_000_000, least_file: int = 1
) -> Iterator[None]:
    """Write pages of so many rows; merged rows of more bytes become a row group of their own.

    Of files with fewer bytes than `least_file`, nothing is copied.
    """
    with (
        patch.object(writer, "PAGE_ROWS", rows),
        patch.object(reader, "PAGES_FROM", 1),
        patch.object(copyable_pages, "LEAST_FILE", least_file),
        patch.object(copyable_pages, "LEAST_CHUNK", 1),
        patch.object(copyable_pages, "LEAST_BYTES", 1),
        patch.object(page_copy, "LEAST_BYTES", 1),
        patch.object(page_splice, "LEADING_BYTES", leading_bytes),
    ):
        yield
