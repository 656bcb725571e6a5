"""What the pages of the jobs say beyond what the jobs themselves know, and when they run.

A job without a page here has a DAG all the same: by hand only, on tables that the form asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

BY_HAND = ""
"""The schedule of a DAG that only runs when somebody triggers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One job's DAG.

    `schedule` is a cron expression, "" for a job that only runs by hand; by hand, the form asks for
    tables instead of meaning all.  `defaults` are the DAG's own arguments where it wants others than
    the procedure has, `by_hand_defaults` those of a DAG that only runs by hand.  `notes` is Markdown
    for the operator.
    """

    job: str
    area: str = "maintenance"
    """A tag by which the DAGs are filtered in the UI."""
    schedule: str = BY_HAND
    defaults: Mapping[str, object] = field(default_factory=dict)
    by_hand_defaults: Mapping[str, object] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    """The arguments that the form opens with; the others wait in a section of their own."""
    required: tuple[str, ...] = ()
    """The arguments without which the job cannot run."""
    rewrites: bool = True
    """Whether the job may rewrite data; one that never does has no Spark step."""
    deletes: bool = True
    """Whether the job may take something away that nothing brings back: by hand, its form opens with
    *Dry run* on.  So it is for a job that nobody has thought about."""
    retries: int = 2
    """How often a step is tried again after an error that may pass; 0 where the job must not run
    on anything that was committed since somebody looked."""
    notes: str = ""

    @property
    def dag_id(self) -> str:
        """The DAG's id: "caretaker_compact"."""
        return f"caretaker_{self.job}"

    @property
    def by_hand(self) -> bool:
        """Whether nothing but a person (or a program) triggers it."""
        return self.schedule == BY_HAND


COMPACT = Page(
    job="compact",
    deletes=False,
    area="compaction",
    schedule="*/30 * * * *",
    # Paimon's procedure means full where nothing is said; every half hour that would rewrite
    # whole tables again and again.
    defaults={"strategy": "minor"},
    first=("strategy",),
    notes="""\
**Minor or full?** `minor` merges only what Paimon's own rules pick (many sorted runs, many small
files): cheap, for every half hour. `full` rewrites each bucket into its top level: dearer, drops
deleted rows, makes reading fastest; for a quiet hour, or limited by *partitions*, *where* or
*partition idle time*.
""",
)
COMPACT_MANIFEST = Page(
    job="compact_manifest",
    deletes=False,
    area="compaction",
    schedule="50 2 * * 0",
    rewrites=False,
    notes="""\
**When it helps.** Planning a query reads every manifest. After months of small commits, or after
many partitions were dropped, most entries are of files that are gone. `caretaker inspect` counts
manifests.
""",
)
SORT_COMPACT = Page(
    job="sort_compact",
    deletes=False,
    area="compaction",
    first=("order_strategy", "order_by", "partitions", "where"),
    notes="""\
**When it helps.** Queries with a range or a point condition on a few columns of a table with
bucket=-1. `order` suits one column, `zorder` and `hilbert` two to four that are asked for together.
The report tells how many files and bytes such a query reads, before and after. All of the chosen
partitions are rewritten each time, unless the table has `clustering.incremental`: limit it by
*Partitions* or *Where*.

**Primary-key tables.** Keys move between dynamic buckets. Stop all writers of the table first, tick
*Writers stopped*, and start the writers again after the run.
""",
)
EXPIRE_SNAPSHOTS = Page(
    job="expire_snapshots",
    area="expiry",
    schedule="15 * * * *",
    first=("retain_max", "retain_min", "older_than"),
    rewrites=False,
    notes="""\
**Storage does not shrink?** The dry run names what holds snapshots back: a consumer, a tag, the
retention, or the limit of one run, and how many bytes. Left empty, all limits are the table's own
options. Runbook: `docs/runbooks/expiry-stuck.md`.
""",
)
EXPIRE_CHANGELOGS = Page(
    job="expire_changelogs",
    area="expiry",
    schedule="45 * * * *",
    first=("retain_max", "retain_min", "older_than"),
    rewrites=False,
    notes="""\
**For which tables?** Only those whose `changelog.*` options keep changelogs longer than snapshots
have any; on all others there is nothing to do. *Delete all* ignores consumers: a streaming reader
that is behind cannot go on afterwards.
""",
)
EXPIRE_PARTITIONS = Page(
    job="expire_partitions",
    area="partitions",
    first=("expiration_time", "expire_strategy"),
    rewrites=False,
    notes="""\
**On a schedule** use `caretaker_maintain`, which knows the tables that have
`partition.expiration-time`. Here a table that has none, and is given none, is an error.

**Where do the bytes go?** Rows vanish with the commit. Files go when the snapshots before it
expire, and partitions that were never read as a time stay: the report names them.
""",
)
DROP_PARTITION = Page(
    job="drop_partition",
    area="partitions",
    first=("partitions",),
    required=("partitions",),
    rewrites=False,
    retries=0,
    notes="""\
**Dry run first**: it lists every partition that your values match, with its files and bytes. This
step is not tried again by itself, as the partitions may have received new rows by then.
""",
)
MARK_PARTITION_DONE = Page(
    job="mark_partition_done",
    deletes=False,
    area="partitions",
    first=("partitions",),
    required=("partitions",),
    rewrites=False,
)
CREATE_TAG = Page(
    job="create_tag",
    deletes=False,
    area="tags",
    first=("tag", "snapshot", "time_retained"),
    required=("tag",),
    rewrites=False,
    notes="""\
**What a tag costs.** Files that the tagged snapshot needs stay on storage until the tag goes. Give
*Time retained* unless somebody will delete it.
""",
)
REPLACE_TAG = Page(
    job="replace_tag",
    area="tags",
    first=("tag", "snapshot", "time_retained"),
    required=("tag",),
    rewrites=False,
)
RENAME_TAG = Page(
    job="rename_tag",
    deletes=False,
    area="tags",
    first=("tag", "target_tag"),
    required=("tag", "target_tag"),
    rewrites=False,
)
DELETE_TAG = Page(
    job="delete_tag",
    area="tags",
    first=("tag",),
    required=("tag",),
    rewrites=False,
    notes="""\
**Dry run first**: it says whether the tag's snapshot is still there, and how many bytes only the
tag holds. Once the snapshot has expired, a deleted tag cannot be made again.
""",
)
EXPIRE_TAGS = Page(
    job="expire_tags",
    area="tags",
    schedule="20 * * * *",
    first=("older_than",),
    rewrites=False,
    notes="""\
**Careful with *Older than***: it also expires tags that were made without a time to live, on every
table that *Tables* matches. Leave it empty on a schedule.
""",
)
AUTOMATIC_TAGS = Page(
    job="trigger_tag_automatic_creation",
    deletes=False,
    area="tags",
    schedule="*/10 * * * *",
    first=("when_idle",),
    rewrites=False,
    notes="""\
**For which tables?** Those with `tag.automatic-creation` set to `process-time`, `watermark` or
`batch`. Writers make these tags themselves unless they are `write-only`; then this DAG does, and
has to run at least as often as a period is long.
""",
)
EXPIRE_CONSUMERS = Page(
    job="expire_consumers",
    area="consumers",
    schedule="25 3 * * *",
    first=("expiration_time",),
    rewrites=False,
    notes="""\
**What follows.** A dead consumer holds back expiry. Once it is gone, the next `expire_snapshots`
works the backlog off, `snapshot.expire.limit` snapshots in each run. A reader that comes back under
the same id starts as one that was never there.
""",
)
RESET_CONSUMER = Page(
    job="reset_consumer",
    area="consumers",
    first=("consumer_id", "next_snapshot_id"),
    required=("consumer_id",),
    rewrites=False,
    notes="""\
**Stop the reader first.** A reader that runs writes its own position again at its next checkpoint.
Leave *Next snapshot id* empty to delete the consumer.
""",
)
CLEAR_CONSUMERS = Page(
    job="clear_consumers",
    area="consumers",
    first=("including_consumers", "excluding_consumers"),
    rewrites=False,
    retries=0,
    notes="""\
**Dry run first**: without *Including consumers* every consumer of the tables goes.
""",
)
REMOVE_ORPHAN_FILES = Page(
    job="remove_orphan_files",
    area="orphans",
    schedule="30 4 * * 0",
    # A schedule takes the job's own default, which frees storage; a person can still undo this.
    by_hand_defaults={"mode": "quarantine"},
    first=("mode", "older_than"),
    rewrites=False,
    notes="""\
**Delete or quarantine?** `quarantine` moves files aside inside the table's folder, and can be
undone; a DAG that only runs by hand does this unless *Mode* or the policy says otherwise. Storage
shrinks only with `purge_orphan_files`. The report names the quarantine.

**Never** switch *Allow young* on while anything writes to the table.
""",
)
RESTORE_ORPHAN_FILES = Page(
    job="restore_orphan_files",
    deletes=False,
    area="orphans",
    first=("quarantine",),
    required=("quarantine",),
    rewrites=False,
)
PURGE_ORPHAN_FILES = Page(
    job="purge_orphan_files",
    area="orphans",
    first=("quarantine",),
    required=("quarantine",),
    rewrites=False,
)
ROLLBACK = Page(
    job="rollback",
    area="versions",
    first=("snapshot", "tag", "timestamp", "watermark"),
    rewrites=False,
    retries=0,
    notes="""\
**Stop writers and readers first.** Give exactly one of *Snapshot*, *Tag*, *Timestamp* and *Watermark*.
Streaming readers that are past the target lose their place. Prefer `rollback_to_as_latest`, which keeps all
history, unless later snapshots have to go. Runbook: `docs/runbooks/rollback-wrong-data.md`.
""",
)
ROLLBACK_TO_AS_LATEST = Page(
    job="rollback_to_as_latest",
    deletes=False,
    area="versions",
    first=("snapshot", "tag", "timestamp", "watermark"),
    rewrites=False,
    retries=0,
    notes="""\
**Give exactly one** of *Snapshot*, *Tag*, *Timestamp* and *Watermark*. What was committed after it is no
longer visible in the newest snapshot, but stays readable by snapshot until it expires. The lasting tag
that the result names protects the files that came back; delete it once all older snapshots have expired.
""",
)
CREATE_BRANCH = Page(
    job="create_branch",
    deletes=False,
    area="versions",
    first=("branch_name", "tag"),
    required=("branch_name",),
    rewrites=False,
)
RENAME_BRANCH = Page(
    job="rename_branch",
    deletes=False,
    area="versions",
    first=("branch_name", "target_branch"),
    required=("branch_name", "target_branch"),
    rewrites=False,
)
DELETE_BRANCH = Page(
    job="delete_branch",
    area="versions",
    first=("branch_name",),
    required=("branch_name",),
    rewrites=False,
    retries=0,
)
FAST_FORWARD = Page(
    job="fast_forward",
    area="versions",
    first=("branch_name",),
    required=("branch_name",),
    rewrites=False,
    retries=0,
    notes="""\
**Stop writers of main first**, and dry run: the plan names the snapshots of main that go. A commit
to main meanwhile stops the job; it is not tried again by itself.
""",
)

MAINTAIN = Page(
    job="maintain",
    schedule="5 * * * *",
    first=("compact", "also", "without"),
    notes="""\
**Unpause this one, or the single jobs** that it is made of, not both: they would only find that
there is nothing left to do. What is due is what the options of each table ask for
(`snapshot.time-retained`, `partition.expiration-time`, `tag.automatic-creation`, ...) and, for
tables that have none, the policy. A run of a single step by hand, at any time, does no harm.

**The report** says for each table what every step did. A step that failed stops only the steps
that might delete what it should have kept.
""",
)
RESCALE = Page(
    job="rescale",
    deletes=False,
    area="buckets",
    first=("bucket_num", "target_bytes", "partitions", "restore"),
    retries=0,
    notes="""\
**Stop the writers first**, and start them again after it: one that is open keeps the old number of
buckets. Readers go on. *Dry run* without *Bucket num* and with *Target bytes* proposes a number.
Interrupted? Trigger again with the same form: partitions that are done are left out. Runbook:
`docs/runbooks/rescale.md`.
""",
)
REPAIR = Page(
    job="repair",
    area="repair",
    first=("repairs",),
    rewrites=False,
    retries=0,
    notes="""\
**Dry run first**: it verifies the table, and says for each finding what the repair would change.
Pause what else maintains the table until it is whole. Without *Repairs* only those are made that
lose nothing. Runbook: `docs/runbooks/broken-table.md`.
""",
)
REMOVE_UNEXISTING_FILES = Page(
    job="remove_unexisting_files",
    area="repair",
    rewrites=False,
    retries=0,
    notes="""\
**Bring the files back if you can** (versions of the store, a backup): same name, same bytes. This
job gives their rows up. Older values of the same keys show again.
""",
)

ANALYZE = Page(
    job="analyze",
    deletes=False,
    first=("columns", "all_columns"),
    notes="""\
**Without columns** only rows and bytes are counted, as `ANALYZE TABLE ... COMPUTE STATISTICS` does.
Statistics say what was in the snapshot that was read; they are dropped when the schema changes.
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
)


def all_pages(jobs: Iterable[str]) -> tuple[Page, ...]:
    """A page for each of these jobs: its own, or one that is made for it."""
    own = {page.job: page for page in PAGES}
    return tuple(own.get(job) or Page(job=job) for job in jobs)
