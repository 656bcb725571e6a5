"""Tells of files that come back and were written for another number of buckets."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import BUCKET
from paimon_maintenance.job.plan import Retained
from paimon_maintenance.job.text import counted


def with_other_buckets(table: FileStoreTable, back: Iterable[ManifestEntry]) -> list[Retained]:
    """The option of the table, if the files that come back do not have its number of buckets."""
    buckets = table.options.value(BUCKET)
    other = {e.partition for e in back if e.total_buckets != buckets > 0}
    if not other:
        return []
    why = (
        f"the files that come back to {counted(len(other), 'partitions')} have another number; "
        f"writers are refused there until rescale has run"
    )
    return [Retained(what=f"the option bucket={buckets}", why=why)]
