"""What the jobs that repair tables are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from typing import Final

from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

SAFE: Final = ("rewrite_hint", "reset_consumer", "correct_sizes", "drop_vectors")
"""Repairs that lose nothing."""
ON_DEMAND: Final = ("close_gap", "move_down", "remove_unexisting_files", "delete_reference")
"""Repairs that an operator should have asked for."""

REPAIRS: Final = Argument(
    name="repairs",
    flag="repair",
    aliases=("repair",),
    kind=Kind.TEXTS,
    default=SAFE,
    choices=(*SAFE, *ON_DEMAND),
    help=f"which repairs, of {', '.join((*SAFE, *ON_DEMAND))}",
    example="rewrite_hint,remove_unexisting_files",
)


REPAIR: Final = Job(
    name="repair",
    summary="put right what verify finds, as far as that can be put right",
    changes=(
        "Verifies the table, then, as asked for: rewrite_hint corrects LATEST and EARLIEST; "
        "reset_consumer moves consumers that wait for what has expired, or is not there yet, to "
        "the nearest snapshot; correct_sizes notes the true sizes of manifest lists in their "
        "snapshot; drop_vectors takes deletion vectors of data files that are no longer live out of "
        "the newest snapshot; close_gap commits the newest snapshot beyond a gap again, in line, and "
        "removes those beyond the gap; move_down puts files of one level whose keys overlap into level 0, where "
        "readers merge them; remove_unexisting_files takes missing data files out of the newest "
        "snapshot; delete_reference deletes tags and changelogs that cannot be read any more."
    ),
    protects=(
        "No data file is deleted. Whatever is done was found again right before, and a repair that "
        "gives something up is done only if asked for by name."
    ),
    undo=(
        "drop_vectors, move_down, remove_unexisting_files: rollback to the snapshot before. "
        "reset_consumer: "
        "reset_consumer with the position that the report names. The others: none is needed."
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
    summary="take data files that are missing on storage out of the newest snapshot",
    changes=(
        "Commits one OVERWRITE snapshot that deletes the entries of live data files that are not "
        "there any more, so that the table can be read again. The rows in them are lost already."
    ),
    protects=(
        "A file is missing only if its folder's listing and a request for it both say so, now and "
        "right before the commit. A storage error stops the job. Guards stop it if more than their "
        "share of the table would go."
    ),
    undo="rollback to the snapshot before, if the files come back.",
    arguments=(),
    examples=("caretaker plan remove_unexisting_files db.orders -w /lake",),
    load=steps_of("paimon_maintenance.jobs.repair.lost_files:STEPS"),
    rewrites=False,
)
REPAIR_JOBS: Final = (REPAIR, REMOVE_UNEXISTING_FILES)
