"""When the jobs run, and what their pages say beyond the jobs' own definitions.

A job without a page here still has a DAG: it runs only by hand, and the form asks for tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

BY_HAND = ""
"""The schedule of a DAG that only runs when a person or a program triggers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One job's DAG.

    `schedule` is a cron expression, "" for a job that only runs by hand; its form asks for tables
    instead of taking all.  `defaults` are the DAG's own arguments where they differ from the
    procedure's defaults, `by_hand_defaults` those of a DAG that only runs by hand.  `notes` is
    Markdown for the operator.
    """

    job: str
    area: str = "maintenance"
    """A tag to filter the DAGs by."""
    schedule: str = BY_HAND
    defaults: Mapping[str, object] = field(default_factory=dict)
    by_hand_defaults: Mapping[str, object] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    """The arguments that the form opens with; the others are in a section of their own."""
    deletes: bool = True
    """Whether the job may remove something that cannot be restored.  Its form then opens with no
    tables and with *Dry run* on.  True unless the page says otherwise."""
    notes: str = ""

    @property
    def dag_id(self) -> str:
        """The DAG's id: "caretaker_compact"."""
        return f"caretaker_{self.job}"

    @property
    def by_hand(self) -> bool:
        """Whether the DAG runs only when a person or a program triggers it."""
        return self.schedule == BY_HAND


COMPACT = Page(
    job="compact",
    deletes=False,
    area="compaction",
    schedule="*/30 * * * *",
    # Paimon's procedure defaults to full; every half hour that would rewrite
    # whole tables again and again.
    defaults={"strategy": "minor"},
    first=("strategy",),
    notes="""\
**Minor or full?** `minor` merges only what Paimon's own rules pick (many sorted runs, many small
files): cheap enough for every half hour. `full` rewrites each bucket into its top level. It costs
more, drops deleted rows and makes reads fastest: run it at a quiet hour, or limit it by *Partitions*,
*Where* or *Partition idle time*.
""",
)
COMPACT_MANIFEST = Page(
    job="compact_manifest",
    deletes=False,
    area="compaction",
    schedule="50 2 * * 0",
    notes="""\
**When it helps.** Planning a query reads every manifest. After months of small commits, or after
many partitions were dropped, most entries belong to files that are gone. `caretaker inspect` counts
manifests.
""",
)
SORT_COMPACT = Page(
    job="sort_compact",
    deletes=False,
    area="compaction",
    first=("order_strategy", "order_by", "partitions", "where"),
    notes="""\
**When it helps.** Queries with a range or point condition on a few columns of a table with
bucket=-1. `order` suits one column, `zorder` and `hilbert` two to four that queries use together.
The report shows how many files and bytes such a query reads, before and after. Each run rewrites all
chosen partitions, unless the table has `clustering.incremental`: limit it by *Partitions* or *Where*.

**Primary-key tables.** Keys move between dynamic buckets. Stop all writers of the table first, switch
*Writers stopped* on, and start the writers again after the run.
""",
)
EXPIRE_SNAPSHOTS = Page(
    job="expire_snapshots",
    area="expiry",
    schedule="15 * * * *",
    first=("retain_max", "retain_min", "older_than"),
    notes="""\
**Storage does not shrink?** The dry run names what holds snapshots back: a consumer, a tag, the
retention, or the limit of one run, and how many bytes. Limits left empty are the table's own
options. Runbook: `docs/runbooks/expiry-stuck.md`.
""",
)
EXPIRE_CHANGELOGS = Page(
    job="expire_changelogs",
    area="expiry",
    schedule="45 * * * *",
    first=("retain_max", "retain_min", "older_than"),
    notes="""\
**For which tables?** Only tables whose `changelog.*` options keep changelogs longer than snapshots
have any; on all others there is nothing to do. *Delete all* ignores consumers: a streaming reader
that lags behind cannot continue afterwards.
""",
)
EXPIRE_PARTITIONS = Page(
    job="expire_partitions",
    area="partitions",
    first=("expiration_time", "expire_strategy"),
    notes="""\
**On a schedule** use `caretaker_maintain`, which knows the tables that have
`partition.expiration-time`. Here a table without that option fails unless *Expiration time* is given.

**When is storage freed?** The commit removes the rows; the files are deleted when the snapshots
before it expire. A partition whose values cannot be read as a time stays, and the report names it.
""",
)
DROP_PARTITION = Page(
    job="drop_partition",
    area="partitions",
    first=("partitions",),
    notes="""\
**Dry run first**: it lists every partition that your values match, with its files and bytes. Airflow
does not retry the job, because the partitions may have received new rows by then.
""",
)
MARK_PARTITION_DONE = Page(
    job="mark_partition_done",
    deletes=False,
    area="partitions",
    first=("partitions",),
)
CREATE_TAG = Page(
    job="create_tag",
    deletes=False,
    area="tags",
    first=("tag", "snapshot", "time_retained"),
    notes="""\
**What a tag costs.** The files of the tagged snapshot stay on storage until the tag is deleted. Set
*Time retained* unless you delete the tag yourself.
""",
)
REPLACE_TAG = Page(
    job="replace_tag",
    area="tags",
    first=("tag", "snapshot", "time_retained"),
)
RENAME_TAG = Page(
    job="rename_tag",
    deletes=False,
    area="tags",
    first=("tag", "target_tag"),
)
DELETE_TAG = Page(
    job="delete_tag",
    area="tags",
    first=("tag",),
    notes="""\
**Dry run first**: it shows whether the tag's snapshot still exists, and how many bytes only the tag
holds. Once the snapshot has expired, a deleted tag cannot be created again.
""",
)
EXPIRE_TAGS = Page(
    job="expire_tags",
    area="tags",
    schedule="20 * * * *",
    first=("older_than",),
    notes="""\
**Careful with *Older than***: it also expires tags without a time to live, on every table that
*Tables* matches. Leave it empty on a schedule.
""",
)
AUTOMATIC_TAGS = Page(
    job="trigger_tag_automatic_creation",
    deletes=False,
    area="tags",
    schedule="*/10 * * * *",
    first=("when_idle",),
    notes="""\
**For which tables?** Tables with `tag.automatic-creation` set to `process-time`, `watermark` or
`batch`. Writers create these tags themselves unless they are `write-only`. For `write-only` tables
this DAG creates them, and must run at least once per tag period.
""",
)
EXPIRE_CONSUMERS = Page(
    job="expire_consumers",
    area="consumers",
    schedule="25 3 * * *",
    first=("expiration_time",),
    notes="""\
**What follows.** A dead consumer holds back expiry. Once it is gone, the next runs of
`expire_snapshots` work off the backlog, `snapshot.expire.limit` snapshots each. A reader that comes
back under the same id starts like a new one.
""",
)
RESET_CONSUMER = Page(
    job="reset_consumer",
    area="consumers",
    first=("consumer_id", "next_snapshot_id"),
    notes="""\
**Stop the reader first.** A running reader writes its own position again at its next checkpoint.
Leave *Next snapshot id* empty to delete the consumer.
""",
)
CLEAR_CONSUMERS = Page(
    job="clear_consumers",
    area="consumers",
    first=("including_consumers", "excluding_consumers"),
    notes="""\
**Dry run first**: without *Including consumers* the job deletes every consumer of the tables.
""",
)
REMOVE_ORPHAN_FILES = Page(
    job="remove_orphan_files",
    area="orphans",
    schedule="30 4 * * 0",
    # A schedule uses the job's own default, which frees storage; quarantine can be undone.
    by_hand_defaults={"mode": "quarantine"},
    first=("mode", "older_than"),
    notes="""\
**Delete or quarantine?** `quarantine` moves files aside inside the table's folder, and can be
undone. A DAG that only runs by hand does this unless *Mode* or the policy says otherwise. Storage
shrinks only with `purge_orphan_files`. The report names the quarantine.

**Never** switch *Allow young* on while anything writes to the table.
""",
)
RESTORE_ORPHAN_FILES = Page(
    job="restore_orphan_files",
    deletes=False,
    area="orphans",
    first=("quarantine",),
)
PURGE_ORPHAN_FILES = Page(
    job="purge_orphan_files",
    area="orphans",
    first=("quarantine",),
)
ROLLBACK = Page(
    job="rollback",
    area="versions",
    first=("snapshot", "tag", "timestamp", "watermark"),
    notes="""\
**Stop writers and readers first.** Give exactly one of *Snapshot*, *Tag*, *Timestamp* and *Watermark*.
Streaming readers that are past the target lose their position. Prefer `rollback_to_as_latest`, which
keeps all history, unless later snapshots must disappear. Runbook: `docs/runbooks/rollback-wrong-data.md`.
""",
)
ROLLBACK_TO_AS_LATEST = Page(
    job="rollback_to_as_latest",
    deletes=False,
    area="versions",
    first=("snapshot", "tag", "timestamp", "watermark"),
    notes="""\
**Give exactly one** of *Snapshot*, *Tag*, *Timestamp* and *Watermark*. What was committed after it is no
longer visible in the newest snapshot, but stays readable by snapshot until it expires. If removed
files came back, the report names a tag without a time to live that protects them; delete it once all
older snapshots have expired.
""",
)
CREATE_BRANCH = Page(
    job="create_branch",
    deletes=False,
    area="versions",
    first=("branch_name", "tag"),
)
RENAME_BRANCH = Page(
    job="rename_branch",
    deletes=False,
    area="versions",
    first=("branch_name", "target_branch"),
)
DELETE_BRANCH = Page(
    job="delete_branch",
    area="versions",
    first=("branch_name",),
)
FAST_FORWARD = Page(
    job="fast_forward",
    area="versions",
    first=("branch_name",),
    notes="""\
**Stop writers of main first**, and do a dry run: the plan names the snapshots of main that will be
deleted. A commit to main in the meantime stops the job; Airflow does not retry it.
""",
)

MAINTAIN = Page(
    job="maintain",
    schedule="5 * * * *",
    first=("compact", "also", "without"),
    notes="""\
**Unpause this DAG, or those of its single jobs**, not both: the second finds nothing left to do. The
options of each table decide what is due (`snapshot.time-retained`, `partition.expiration-time`,
`tag.automatic-creation`, ...); the policy supplies options that a table does not set. Running a single
job by hand is safe at any time.

**The report** shows for each table what every step did. A step that failed stops only the steps that
might delete what it should have kept.
""",
)
RESCALE = Page(
    job="rescale",
    deletes=False,
    area="buckets",
    first=("bucket_num", "target_bytes", "partitions", "restore"),
    notes="""\
**Stop the writers first**, and start them again afterwards: an open writer keeps the old number of
buckets. Readers continue. *Dry run* with *Target bytes* and without *Bucket num* proposes a number.
Interrupted? Trigger again with the same form: it skips partitions that are done. Runbook:
`docs/runbooks/rescale.md`.
""",
)
REPAIR = Page(
    job="repair",
    area="repair",
    first=("repairs",),
    notes="""\
**Dry run first**: it verifies the table, and shows for each finding what the repair would change.
Pause everything else that maintains the table until it is repaired. Without *Repairs* it makes only
the repairs that lose nothing. Runbook: `docs/runbooks/broken-table.md`.
""",
)
REMOVE_UNEXISTING_FILES = Page(
    job="remove_unexisting_files",
    area="repair",
    notes="""\
**Restore the files if you can** (versions of the store, a backup): same name, same bytes. This job
gives up their rows. Older values of the same keys become visible again.
""",
)

ANALYZE = Page(
    job="analyze",
    deletes=False,
    first=("columns", "all_columns"),
    notes="""\
**Without columns** the job only counts rows and bytes, as `ANALYZE TABLE ... COMPUTE STATISTICS`
does. Statistics describe the snapshot that was read; a schema change drops them.
""",
)

CREATE_GLOBAL_INDEX = Page(
    job="create_global_index",
    deletes=False,
    area="indexes",
    first=("index_column", "partitions", "where"),
    notes="""\
**When to run it.** After writes: the index covers only rows that were there when it was built. Queries of
Java leave out the others, unless `scalar-index.search-mode` is `full` (Paimon 2.0). Each run reads only
rows without an index.
""",
)
DROP_GLOBAL_INDEX = Page(
    job="drop_global_index",
    deletes=False,
    area="indexes",
    first=("index_column", "index_type", "partitions", "where"),
)
REASSIGN_ROW_ID = Page(
    job="reassign_row_id",
    deletes=False,
    area="indexes",
    first=("partitions", "where"),
    notes="""\
**When to run it.** When `caretaker_compact` leaves many small files in a partitioned table with data
evolution: commits that wrote into several partitions in turn left gaps between the row ids of each.
Compact the table afterwards. Views of BLOBs and other systems that keep row ids find nothing any more.
""",
)

PAGES = (
    MAINTAIN,
    COMPACT,
    COMPACT_MANIFEST,
    SORT_COMPACT,
    EXPIRE_SNAPSHOTS,
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    DROP_PARTITION,
    MARK_PARTITION_DONE,
    RESCALE,
    CREATE_TAG,
    REPLACE_TAG,
    RENAME_TAG,
    DELETE_TAG,
    EXPIRE_TAGS,
    AUTOMATIC_TAGS,
    EXPIRE_CONSUMERS,
    RESET_CONSUMER,
    CLEAR_CONSUMERS,
    REMOVE_ORPHAN_FILES,
    RESTORE_ORPHAN_FILES,
    PURGE_ORPHAN_FILES,
    ROLLBACK,
    ROLLBACK_TO_AS_LATEST,
    CREATE_BRANCH,
    RENAME_BRANCH,
    DELETE_BRANCH,
    FAST_FORWARD,
    REPAIR,
    REMOVE_UNEXISTING_FILES,
    ANALYZE,
    CREATE_GLOBAL_INDEX,
    DROP_GLOBAL_INDEX,
    REASSIGN_ROW_ID,
)


def all_pages(jobs: Iterable[str]) -> tuple[Page, ...]:
    """A page for each of these jobs: its own, or the default one."""
    own = {page.job: page for page in PAGES}
    return tuple(own.get(job) or Page(job=job) for job in jobs)
