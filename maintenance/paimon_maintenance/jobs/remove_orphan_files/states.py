"""Reads sizes and times of files of which only names were listed, if nothing mentions them.

That is after the listing and after the references were read.  A file that was written again
meanwhile is younger, thus kept; one that is gone needs no deletion.  What was committed meanwhile
is found when references are read again, right before the deletion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_stats import NO_SIZE
from paimon_maintenance.job.job import RunContext
from paimon_maintenance.jobs.remove_orphan_files.candidates import Candidates
from paimon_maintenance.storage.bulk import read_states


def with_states(
    table: FileStoreTable, found: Candidates, older_than_millis: int, context: RunContext
) -> Candidates:
    """The candidates that still exist and are old, with their sizes and times.

    What no longer exists is not counted, as if it had not been listed.
    """
    files = found.files
    if not files.without_state.any():
        return found
    sizes, times = read_states(table, files, context)
    is_there, is_data = sizes != NO_SIZE, found.is_data
    is_old = is_there & (times < older_than_millis)
    return replace(
        found,
        files=replace(files, sizes=sizes, times=times).take(np.flatnonzero(is_old)),
        data_files=found.data_files - int((is_data & ~is_there).sum()),
        data_bytes=found.data_bytes + int(sizes[is_data & is_there].sum()),
        metadata_files=found.metadata_files - int((~is_data & ~is_there).sum()),
        young=found.young + int((is_there & ~is_old).sum()),
    )
