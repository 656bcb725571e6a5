"""Checks updates and compactions of tables with data evolution against the newest snapshot.

Java: `operation/commit/ConflictDetection`, the checks of row ids.  An update of columns holds values
for all rows of a group of files, so it must not hide columns that another commit wrote meanwhile, and
the rows must still be there.  A compaction may make one group of several, of which an update that
came first holds only some rows: nobody could read both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from paimon_core.errors import RowsChanged
from paimon_core.manifest.data_file import DataFileMeta, ManifestEntry
from paimon_core.read.data_evolution import is_dedicated
from paimon_core.snapshot.snapshot import Snapshot

RowGroup = Sequence[ManifestEntry]
"""Files with the same rows, as an update read them."""


def check_row_groups(
    *, table: str, latest: Snapshot, base: Iterable[ManifestEntry], groups: Iterable[RowGroup]
) -> None:
    """Raise RowsChanged if the rows of a group are now in other files than those read.

    `base` holds the live entries of all partitions of the groups.
    """
    live = [e for e in base if e.file.first_row_id is not None]
    for group in groups:
        place = group[0].partition, group[0].bucket
        first, last = _range(group[0])
        now = set()
        for entry in live:
            start, end = _range(entry)
            if (entry.partition, entry.bucket) == place and start <= last and end >= first:
                now.add(entry.file.file_name)
        if now != {e.file.file_name for e in group}:
            raise RowsChanged(
                f"cannot commit to table {table}: For Data Evolution table, multiple 'MERGE INTO' "
                "operations have encountered conflicts, updating the same file, which can render "
                f"some updates ineffective. Rows {first} to {last} were changed before snapshot "
                f"{latest.id}",
                table=table,
                snapshot=latest.id,
            )


def partly_shared_rows(files: Iterable[DataFileMeta]) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Return two of the data files that share some rows, but not all; None if there are none."""
    ranges = sorted(
        (
            (f.first_row_id, f.row_count, f)
            for f in files
            if f.first_row_id is not None and not is_dedicated(f)
        ),
        key=lambda r: r[:2],
    )
    for (first, rows, file), (then, others, other) in pairwise(ranges):
        if then < first + rows and (then, others) != (first, rows):
            return file, other
    return None


def _range(entry: ManifestEntry) -> tuple[int, int]:
    first = entry.file.first_row_id
    assert first is not None
    return first, first + entry.file.row_count - 1
