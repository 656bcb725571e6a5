"""The definitions of the repair jobs.  Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

SAFE: Final = ("rewrite_hint", "reset_consumer", "correct_sizes", "drop_vectors")
"""Repairs without data loss."""
ON_DEMAND: Final = ("close_gap", "move_down", "remove_unexisting_files", "delete_reference")
"""Repairs that run only on request."""

REPAIRS: Final = Argument(
    name="repairs",
    flag="repair",
    aliases=("repair",),
    kind=Kind.TEXTS,
    default=SAFE,
    choices=(*SAFE, *ON_DEMAND),
    help=f"repairs to run, from {', '.join((*SAFE, *ON_DEMAND))}",
    example="rewrite_hint,remove_unexisting_files",
)


REPAIR: Final = Job(
    name="repair",
    summary="repair the findings of verify, as far as possible",
    changes=(
        "Verifies the table, then runs the requested repairs. rewrite_hint corrects LATEST and EARLIEST. "
        "reset_consumer moves consumers at an expired or future position to the nearest snapshot. "
        "correct_sizes writes the actual sizes of manifest lists into their snapshot. drop_vectors "
        "removes deletion vectors of data files that are not live from the newest snapshot. "
        "close_gap commits the content of the newest snapshot beyond a gap again, before the gap, "
        "and removes the snapshots beyond it. move_down moves files with overlapping keys of one "
        "level to level 0, where readers merge them. remove_unexisting_files removes missing data "
        "files from the newest snapshot. delete_reference deletes unreadable tags and changelogs."
    ),
    protects=(
        "Deletes no data files. Each repair checks its finding again right before the change. A repair "
        "that loses data or references runs only if requested by name."
    ),
    undo=(
        "drop_vectors, move_down, remove_unexisting_files: roll back to the previous snapshot. "
        "reset_consumer: run reset_consumer with the position from the report. Other repairs need "
        "no undo."
    ),
    arguments=(REPAIRS,),
    examples=(
        "caretaker plan repair db.orders -w /lake",
        "caretaker run repair db.orders -w /lake --repair rewrite_hint",
        "caretaker run repair db.orders -w /lake --repair remove_unexisting_files",
    ),
    load=steps_of("paimon_maintenance.jobs.repair.steps:REPAIR"),
    exclusive=True,
    needs_line=False,
    rewrites=False,
)
REMOVE_UNEXISTING_FILES: Final = Job(
    name="remove_unexisting_files",
    summary="remove missing data files from the newest snapshot",
    changes=(
        "Commits one OVERWRITE snapshot that deletes the entries of missing data files, so that the "
        "table is readable again. The rows in these files are already lost."
    ),
    protects=(
        "A file counts as missing only if the folder listing and a separate request agree, both now "
        "and right before the commit. A storage error stops the job. Guards stop the job if it "
        "removes too large a share of the table."
    ),
    undo="Roll back to the previous snapshot if the files reappear.",
    arguments=(),
    examples=("caretaker plan remove_unexisting_files db.orders -w /lake",),
    load=steps_of("paimon_maintenance.jobs.repair.lost_files:STEPS"),
    rewrites=False,
)
REPAIR_JOBS: Final = (REPAIR, REMOVE_UNEXISTING_FILES)
