"""Every job by its name.  Importing this is cheap: definitions only, no pyarrow, no pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from maintenance.job import Job
from maintenance.jobs.analyze.definition import ANALYZE
from maintenance.jobs.compact.definition import COMPACT
from maintenance.jobs.consumers.definition import CONSUMER_JOBS
from maintenance.jobs.expire_changelogs.definition import EXPIRE_CHANGELOGS
from maintenance.jobs.expire_snapshots.definition import EXPIRE_SNAPSHOTS
from maintenance.jobs.maintain.definition import maintain_job
from maintenance.jobs.partitions.definition import PARTITION_JOBS
from maintenance.jobs.remove_orphan_files.definition import ORPHAN_JOBS
from maintenance.jobs.rescale.definition import RESCALE
from maintenance.jobs.sort_compact.definition import SORT_COMPACT
from maintenance.jobs.tags.definition import TAG_JOBS
from maintenance.jobs.verify.definition import REPAIR_JOBS
from maintenance.jobs.versions.definition import VERSION_JOBS
from paimon_core.errors import InvalidArgument

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
        *REPAIR_JOBS,
        ANALYZE,
    )
}
MAINTAIN: Final = maintain_job(_SINGLE)
JOBS: Final[Mapping[str, Job]] = {**_SINGLE, MAINTAIN.name: MAINTAIN}


def job_named(name: str) -> Job:
    """The job of this name, dashes or underscores; InvalidArgument lists what there is."""
    job = JOBS.get(name.replace("-", "_"))
    if job is None:
        raise InvalidArgument(f"no job is called {name!r} (there are: {', '.join(sorted(JOBS))})")
    return job
