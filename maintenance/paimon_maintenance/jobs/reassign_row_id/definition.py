"""The definition of `reassign_row_id`: name, arguments and help.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.common_arguments import PARTITIONS, WHERE
from paimon_maintenance.job.job import Job, steps_of

OPTIONS: Final = replace(
    common_arguments.OPTIONS,
    example="data-evolution.reassign.skip-contiguous-row-count=1000000",
)

REASSIGN_ROW_ID: Final = Job(
    name="reassign_row_id",
    summary="give the rows of each partition row ids without gaps, so that compaction joins files",
    changes=(
        "Writes the manifests of partitions whose row ids have gaps again, and commits one OVERWRITE "
        "snapshot with the same files. Global indexes move with the rows; an index that covers rows "
        "on both sides of a gap is dropped. Needs data-evolution.enabled and partitions."
    ),
    protects=(
        "Does not change data files. Updates and compactions that read the old row ids are refused "
        "or plan again. Whatever else keeps row ids (views of BLOBs, other systems) is void."
    ),
    undo="Roll back to the snapshot before (`planned_from` in the report) before it expires.",
    arguments=(PARTITIONS, WHERE, OPTIONS),
    examples=(
        "caretaker run reassign_row_id db.photos -w /lake --dry-run",
        "caretaker run reassign_row_id db.photos -w /lake --partition day=2026-11-01",
    ),
    load=steps_of("paimon_maintenance.jobs.reassign_row_id.steps:STEPS"),
    rewrites=False,
    retry_safe=True,
    at_most_one=(("partitions", "where"),),
)
