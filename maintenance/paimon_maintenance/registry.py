"""All jobs by name.

Importing this module is cheap: it loads definitions only, no pyarrow or PySpark.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.job import Job
from paimon_maintenance.jobs.analyze.definition import ANALYZE
from paimon_maintenance.jobs.compact.definition import COMPACT
from paimon_maintenance.jobs.compact_manifest.definition import COMPACT_MANIFEST
from paimon_maintenance.jobs.consumers.definition import CONSUMER_JOBS
from paimon_maintenance.jobs.expire_changelogs.definition import EXPIRE_CHANGELOGS
from paimon_maintenance.jobs.expire_snapshots.definition import EXPIRE_SNAPSHOTS
from paimon_maintenance.jobs.global_index.definition import GLOBAL_INDEX_JOBS
from paimon_maintenance.jobs.maintain.definition import maintain_job
from paimon_maintenance.jobs.partitions.definition import PARTITION_JOBS
from paimon_maintenance.jobs.reassign_row_id.definition import REASSIGN_ROW_ID
from paimon_maintenance.jobs.remove_orphan_files.definition import ORPHAN_JOBS
from paimon_maintenance.jobs.repair.definition import REPAIR_JOBS
from paimon_maintenance.jobs.rescale.definition import RESCALE
from paimon_maintenance.jobs.sort_compact.definition import SORT_COMPACT
from paimon_maintenance.jobs.tags.definition import TAG_JOBS
from paimon_maintenance.jobs.versions.definition import VERSION_JOBS

_SINGLE: Final[Mapping[str, Job]] = {
    job.name: job
    for job in (
        COMPACT,
        EXPIRE_SNAPSHOTS,
        EXPIRE_CHANGELOGS,
        *TAG_JOBS,
        *CONSUMER_JOBS,
        *PARTITION_JOBS,
        RESCALE,
        SORT_COMPACT,
        *ORPHAN_JOBS,
        *VERSION_JOBS,
        COMPACT_MANIFEST,
        *REPAIR_JOBS,
        ANALYZE,
        *GLOBAL_INDEX_JOBS,
        REASSIGN_ROW_ID,
    )
}
MAINTAIN: Final = maintain_job(_SINGLE)
JOBS: Final[Mapping[str, Job]] = {**_SINGLE, MAINTAIN.name: MAINTAIN}


_PROCEDURES: Final[Mapping[str, str]] = {
    "compact_database": "run compact 'DATABASE.*'",
    "create_or_replace_tag": "run replace_tag DATABASE.TABLE",
    "create_tag_from_timestamp": "run create_tag DATABASE.TABLE --timestamp TIME",
    "create_tag_from_watermark": "run create_tag DATABASE.TABLE --watermark MS",
    "fsck": "verify DATABASE.TABLE",
    "repair_earliest_snapshot": "run repair DATABASE.TABLE",
    "rollback_to": "run rollback DATABASE.TABLE --snapshot N",
    "rollback_to_timestamp": "run rollback DATABASE.TABLE --timestamp TIME",
    "rollback_to_watermark": "run rollback DATABASE.TABLE --watermark MS",
}
"""Procedures of Paimon that have another name in Caretaker."""


def job_named(name: str) -> Job:
    """The job with this name, with dashes or underscores.

    InvalidArgument suggests similar names.
    """
    wanted = name.replace("-", "_")
    job = JOBS.get(wanted)
    if job is not None:
        return job
    if wanted in _PROCEDURES:
        raise InvalidArgument(
            f"unknown job {name!r}", next_step=f"use caretaker {_PROCEDURES[wanted]}"
        )
    near = get_close_matches(wanted, JOBS, n=1)
    if near:
        raise InvalidArgument(
            f"unknown job {name!r}; did you mean {near[0]}?",
            next_step="see caretaker run --help for a list of all jobs",
        )
    raise InvalidArgument(f"unknown job {name!r} (known jobs: {', '.join(sorted(JOBS))})")


def jobs_with(option: str) -> list[str]:
    """The jobs with this command line option ("--order-by")."""
    return [
        job.name
        for job in JOBS.values()
        if any(option in (a.option, *a.other_options) for a in job.arguments)
    ]
