"""What the jobs on orphan files are called, take and promise; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paimon_maintenance.job import common_arguments
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.job import Job, steps_of

OLDER_THAN = Argument(
    name="older_than",
    kind=Kind.TEXT,
    help="only files last changed before this: an age, or a time of the local wall clock "
    "(default: one day)",
    example="3 d",
)
ALLOW_YOUNG = Argument(
    name="allow_young",
    kind=Kind.BOOLEAN,
    default=False,
    help="accept an older_than of less than a day ago; files that a running job has written and "
    "not committed yet are then taken for orphans: only while nobody writes",
)
MODE = Argument(
    name="mode",
    kind=Kind.CHOICE,
    choices=("delete", "quarantine"),
    default="delete",
    help="delete, or move aside under caretaker/quarantine/ID of the table, from where "
    "restore_orphan_files puts them back and purge_orphan_files deletes them",
)
EXTERNAL_PATHS = Argument(
    name="external_paths",
    kind=Kind.BOOLEAN,
    default=False,
    help="also look into data-file.external-paths of the table: only if no other table keeps "
    "files there, for whatever this table does not mention is taken for an orphan",
)
PARALLELISM = replace(
    common_arguments.PARALLELISM,
    help="how many tasks list folders and delete files on Spark at most, where there are very many "
    "of them, or threads with --engine local",
)
QUARANTINE = Argument(
    name="quarantine",
    kind=Kind.TEXT,
    help="the id that remove_orphan_files reported",
    example="20240131-120000-1a2b3c4d",
)


REMOVE_ORPHAN_FILES: Final = Job(
    name="remove_orphan_files",
    summary="delete, or move aside, files that failed writes and rollbacks left behind",
    changes=(
        "Removes data, changelog, index, manifest, statistics and temporary files that no "
        "snapshot, tag or long-lived changelog of any branch mentions, and folders of partitions "
        "and buckets that are empty."
    ),
    protects=(
        "Files younger than a day. Candidates are listed before references are read, and what is "
        "committed until the end is looked at again. A listing or a metadata file that cannot be "
        "read stops the job before anything is removed, unless its snapshot has expired meanwhile."
    ),
    undo="With mode=quarantine: restore_orphan_files. Else none.",
    arguments=(OLDER_THAN, ALLOW_YOUNG, MODE, EXTERNAL_PATHS, PARALLELISM),
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
    summary="put files from a quarantine back where they were",
    changes="Moves the files of one quarantine back. A file that is there again stays as it is.",
    protects="Nothing is deleted but the empty quarantine.",
    undo="remove_orphan_files with mode=quarantine.",
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
    summary="delete the files of a quarantine for good",
    changes="Deletes the files of one quarantine.",
    protects="No file outside the quarantine is touched.",
    undo="None.",
    arguments=(QUARANTINE,),
    examples=("caretaker run purge_orphan_files db.orders -w /lake --quarantine ID",),
    load=steps_of("paimon_maintenance.jobs.remove_orphan_files.quarantine:PURGE"),
    exclusive=True,
    rewrites=False,
    retry_safe=True,
    required=("quarantine",),
)
ORPHAN_JOBS: Final = (REMOVE_ORPHAN_FILES, RESTORE_ORPHAN_FILES, PURGE_ORPHAN_FILES)
