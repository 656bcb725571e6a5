"""The definitions of the jobs on orphan files.  Imports nothing heavy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="only files last modified before this age or local wall clock time (default: one day)",
    example="3 d",
)
ALLOW_YOUNG = Argument(
    name="allow_young",
    kind=Kind.BOOLEAN,
    default=False,
    help="accept an older_than of less than one day; only safe without running writers, because "
    "their uncommitted files count as orphans",
)
MODE = Argument(
    name="mode",
    kind=Kind.CHOICE,
    choices=("delete", "quarantine"),
    default="delete",
    help="delete the files, or move them to caretaker/quarantine/ID of the table, where "
    "restore_orphan_files can restore them and purge_orphan_files can delete them",
)
EXTERNAL_PATHS = Argument(
    name="external_paths",
    kind=Kind.BOOLEAN,
    default=False,
    help="also check data-file.external-paths of the table; only safe if no other table uses these "
    "paths, because files of other tables count as orphans",
)
UNKNOWN_KINDS = Argument(
    name="unknown_kinds",
    kind=Kind.BOOLEAN,
    default=False,
    help="also remove files whose names have no known pattern; only safe if no newer version of "
    "Paimon writes the table, because such files may belong to a feature that Caretaker does not "
    "know (packs of managed BLOBs always stay)",
)
PARALLELISM = replace(
    common_arguments.PARALLELISM,
    help="maximum number of Spark tasks, or of threads with --engine local, if there are very many "
    "folders or files",
)
QUARANTINE = Argument(
    name="quarantine",
    kind=Kind.TEXT,
    help="the quarantine id from the report of remove_orphan_files",
    example="20240131-120000-1a2b3c4d",
)


REMOVE_ORPHAN_FILES: Final = Job(
    name="remove_orphan_files",
    summary="delete or quarantine files that failed writes and rollbacks left behind",
    changes=(
        "Removes data, changelog, index, manifest, statistics and temporary files that no "
        "snapshot, tag or long-lived changelog of any branch refers to, and empty partition and "
        "bucket folders."
    ),
    protects=(
        "Keeps files younger than one day, and files of kinds that this version does not know. Lists "
        "candidates before it reads references, and checks new commits again before the removal. An "
        "unreadable folder or metadata file stops the job before it removes anything, unless the "
        "snapshot has expired."
    ),
    undo="With mode=quarantine, run restore_orphan_files. Otherwise not possible.",
    arguments=(OLDER_THAN, ALLOW_YOUNG, MODE, EXTERNAL_PATHS, UNKNOWN_KINDS, PARALLELISM),
    examples=(
        "caretaker plan remove_orphan_files 'db.*' -w /lake",
        "caretaker run remove_orphan_files db.orders -w /lake --mode quarantine",
    ),
    load=steps_of("paimon_maintenance.jobs.remove_orphan_files.steps:STEPS"),
    exclusive=True,
    by_age=True,
    rewrites=False,
    retry_safe=True,
)
RESTORE_ORPHAN_FILES: Final = Job(
    name="restore_orphan_files",
    summary="restore the files of a quarantine",
    changes="Moves the files of one quarantine back. Does not overwrite existing files.",
    protects="Deletes only the empty quarantine.",
    undo="Run remove_orphan_files with mode=quarantine.",
    arguments=(QUARANTINE,),
    examples=("caretaker run restore_orphan_files db.orders -w /lake --quarantine ID",),
    load=steps_of("paimon_maintenance.jobs.remove_orphan_files.quarantine:RESTORE"),
    exclusive=True,
    needs_line=False,
    rewrites=False,
    retry_safe=True,
    required=("quarantine",),
)
PURGE_ORPHAN_FILES: Final = Job(
    name="purge_orphan_files",
    summary="delete the files of a quarantine permanently",
    changes="Deletes the files of one quarantine.",
    protects="Keeps files that a version of the table needs by now. Does not change files outside the "
    "quarantine.",
    undo="Not possible: the files are deleted.",
    arguments=(QUARANTINE,),
    examples=("caretaker run purge_orphan_files db.orders -w /lake --quarantine ID",),
    load=steps_of("paimon_maintenance.jobs.remove_orphan_files.quarantine:PURGE"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("quarantine",),
)
ORPHAN_JOBS: Final = (REMOVE_ORPHAN_FILES, RESTORE_ORPHAN_FILES, PURGE_ORPHAN_FILES)
