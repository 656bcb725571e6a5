"""What a writer does after each commit (Java: `TableCommitImpl.maintain`, `WriteHelper.postCommit`;
java-rules H8).

::

    1. automatic tags          tag.automatic-creation by process time or watermark
    2. tags over their time    tag.time-expire-enabled
    3. partitions              partition.expiration-time, per partition.expiration-check-interval
    4. consumers               consumer.expiration-time; first, so that they do not hold snapshots
    5. snapshots, changelogs   snapshot.*, changelog.*; not where rows are postponed (bucket = -2)
    6. end of a batch          tag.automatic-creation=batch, partition.end-input-to-done

`write-only` tables leave the first five to maintenance jobs.  The last is for batches and
micro-batches of engines (`of_engine`), which are DataFrames and SQL: Java's core does not do it
either.  Each step plans, checks again and applies with the same code as the job of its kind, and
refuses to delete a file that the newest snapshot needs.  As in the jobs, nothing goes by age where
the clocks of this machine and of the store differ.  Journals of runs that died are left to the
jobs.

The commit has happened before this starts, so a failure here is logged and reported, and never
raised.  (Java raises it from batch commits, and logs it for streams, whose next commit then fails.)
A failed step ends the run, as in Java; the next commit tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from paimon_core.commit.message import CommitMessage
from paimon_core.commit.same_table import check_same_table
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.features import CHAIN_TABLE, check_taggable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import (
    CONSUMER_EXPIRATION_TIME,
    END_INPUT_CHECK_PARTITION_EXPIRE,
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    PARTITION_MARK_DONE_WHEN_END_INPUT,
    SNAPSHOT_EXPIRE_EXECUTION_MODE,
    TAG_AUTOMATIC_CREATION,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_NUM_RETAINED_MAX,
    TAG_TIME_EXPIRE_ENABLED,
    WRITE_ONLY,
)
from paimon_core.reachability.needed import check_not_needed
from paimon_core.refs.tags import Tag
from paimon_core.retention.changelogs import (
    apply_changelogs,
    changelog_retention,
    plan_changelogs,
    recheck_changelogs,
)
from paimon_core.retention.consumers import dead_consumers, delete_unchanged
from paimon_core.retention.deleting import Deleting
from paimon_core.retention.partitions import (
    apply_partitions,
    partition_rule,
    plan_partitions,
    recheck_partitions,
)
from paimon_core.retention.snapshots import (
    apply_expiry,
    changelogs_are_kept_longer,
    plan_expiry,
    recheck_expiry,
    snapshot_retention,
)
from paimon_core.retention.store_clock import check_clock
from paimon_core.retention.tags import (
    announce_tag,
    apply_tags,
    batch_tag,
    batch_tags,
    create_automatic,
    make_tag,
    move_tag,
    over_time,
    periodic_tags,
    plan_tag_deletion,
    recheck_tags,
)
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_core.table.sink.partition_marks import PartitionMarks

log = logging.getLogger(__name__)

_PERIODIC: Final = ("process-time", "watermark")
_MODES: Final = ("sync", "async")


@dataclass(slots=True)
class Maintained:
    """The result of the maintenance after a commit, as names and ids.

    `failure` is the error that ended the maintenance early; None without one.
    """

    created_tags: list[str] = field(default_factory=list)
    deleted_tags: list[str] = field(default_factory=list)
    expired_partitions: list[str] = field(default_factory=list)
    expired_consumers: list[str] = field(default_factory=list)
    expired_snapshots: list[int] = field(default_factory=list)
    expired_changelogs: list[int] = field(default_factory=list)
    marked_partitions: list[str] = field(default_factory=list)
    failure: Exception | None = None


class AfterCommit:
    """Runs the maintenance of one writer after its commits.

    A writer needs one object for all of its commits: it checks partitions once per interval, and
    for the first time at a random moment, so that writers that end early also check sometimes.
    `of_engine` is for the single commit of an engine's batch or micro-batch.
    """

    def __init__(self, table: FileStoreTable, *, env: Environment, of_engine: bool = False) -> None:
        self._table = table
        self._env = env
        self._of_engine = of_engine
        self._enabled = not table.options.value(WRITE_ONLY)
        self._executor: ThreadPoolExecutor | None = None
        self.last: Maintained | None = None
        """What the last run did; None before the first one has ended."""
        mode = table.options.value(SNAPSHOT_EXPIRE_EXECUTION_MODE)
        if mode not in _MODES:
            raise InvalidArgument(
                f"table {table.name}: snapshot.expire.execution-mode is {mode!r}, "
                f"but must be one of {', '.join(_MODES)}",
                table=table.name,
                next_step="correct the table option",
            )
        self._asynchronous = mode == "async"
        interval = table.options.value(PARTITION_EXPIRATION_CHECK_INTERVAL)
        self._checked = env.now_millis() - int(env.jitter() * (interval // 1000)) * 1000

    def run(self, *, user: str, identifier: int, messages: Iterable[CommitMessage] = ()) -> None:
        """Run now or, for streams if the table says so, in the background, one run after the other.

        `messages` are those of the commit.
        """
        if not self._enabled and not self._of_engine:
            return
        if not self._asynchronous or identifier == BATCH_COMMIT_IDENTIFIER:
            self._maintain(user, identifier, messages)
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="after-commit")
        self._executor.submit(self._maintain, user, identifier, messages)

    def close(self) -> None:
        """Wait for what runs in the background."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _maintain(self, user: str, identifier: int, messages: Iterable[CommitMessage]) -> None:
        done = Maintained()
        try:
            # What is kept, and for how long, may have been changed since the writer began.
            table, _ = self._table.at_newest_snapshot()
            deleting = Deleting(self._env, partial(check_same_table, table))
            if self._enabled and not table.options.value(WRITE_ONLY):
                _automatic_tags(table, deleting, done)
                _expired_tags(table, deleting, done)
                self._partitions(table, user, identifier, done)
                _consumers(table, deleting, done)
                _snapshots(table, deleting, done)
            if self._of_engine and (partitions := {m.partition for m in messages}):
                _batch_tag(table, deleting, done)
                _mark_partitions(table, sorted(partitions), self._env, done)
        except Exception as e:
            log.warning(
                "table=%s the commit succeeded, the maintenance after it failed: %s",
                self._table.name,
                e,
                exc_info=log.isEnabledFor(logging.DEBUG),
            )
            done.failure = e
        self.last = done

    def _partitions(
        self, table: FileStoreTable, user: str, identifier: int, done: Maintained
    ) -> None:
        rule = partition_rule(table.options) if table.schema.partition_keys else None
        if rule is None or table.options.flag(CHAIN_TABLE):
            return  # partitions of a chain table expire together, by the job
        interval = table.options.value(PARTITION_EXPIRATION_CHECK_INTERVAL)
        at_end = (
            table.options.value(END_INPUT_CHECK_PARTITION_EXPIRE)
            and identifier == BATCH_COMMIT_IDENTIFIER
        )
        now = self._env.now_millis()
        if interval and not at_end and now <= self._checked + interval:
            return
        latest = table.snapshots.latest()
        plan = plan_partitions(table, latest, rule, local_millis=self._env.local_millis())
        if plan.work.going:
            check_clock(table, self._env)
        work = recheck_partitions(table, plan.work)
        apply_partitions(table, work, user_of=lambda _: user, env=self._env, identifier=identifier)
        done.expired_partitions = [p.path for p in work.going]
        self._checked = now


# --- the steps ----------------------------------------------------------------------------------


def _automatic_tags(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    mode = table.options.value(TAG_AUTOMATIC_CREATION)
    if mode not in _PERIODIC:
        return
    tags = table.tags.all()
    due = periodic_tags(table, mode, tags, deleting.env)
    if due.create:
        check_taggable(table)
    retained = table.options.value(TAG_DEFAULT_TIME_RETAINED)
    new = [make_tag(name, snapshot, retained, deleting.env) for name, snapshot in due.create]
    done.created_tags = create_automatic(table, new, deleting.env)
    beyond = set(due.schedule.delete)
    _delete_tags(table, [t for t in tags if t.name in beyond], deleting, done)


def _expired_tags(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    if table.options.value(TAG_TIME_EXPIRE_ENABLED) and table.tags.names():
        over = over_time(table.tags.all(), local_millis=deleting.env.local_millis())
        if over:
            check_clock(table, deleting.env)
        _delete_tags(table, over, deleting, done)


def _delete_tags(
    table: FileStoreTable, tags: Sequence[Tag], deleting: Deleting, done: Maintained
) -> None:
    if not tags:
        return
    work, garbage, _ = plan_tag_deletion(table, tags)
    check_not_needed(table, garbage.files)
    work = recheck_tags(table, work)
    apply_tags(table, work, deleting)
    done.deleted_tags += [r.name for r in work.going]


def _consumers(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    expiration = table.options.value(CONSUMER_EXPIRATION_TIME)
    if expiration is None:
        return
    dead = dead_consumers(
        table.consumers.each(), expiration_millis=expiration, now_millis=deleting.env.now_millis()
    )
    if dead:
        check_clock(table, deleting.env)
    done.expired_consumers = delete_unchanged(table, dead)


def _snapshots(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    if table.bucket_mode is BucketMode.POSTPONE:
        return  # Java: PrimaryKeyFileStoreTable.newExpireRunnable
    now = deleting.env.now_millis()
    retention = snapshot_retention(table.options, now_millis=now)
    plan = plan_expiry(table, retention, now_millis=now, only_if_due=True)
    if plan is not None:
        check_clock(table, deleting.env)
        check_not_needed(table, plan.garbage.files)
        work = recheck_expiry(table, plan.work)
        apply_expiry(table, work, deleting)
        done.expired_snapshots = [r.snapshot.id for r in work.going]
    if not changelogs_are_kept_longer(table, retention, now):
        return
    found = plan_changelogs(table, changelog_retention(table.options, now_millis=now))
    if found is not None:
        changelogs, garbage = found
        check_clock(table, deleting.env)
        check_not_needed(table, garbage.files)
        changelogs = recheck_changelogs(table, changelogs)
        apply_changelogs(table, changelogs, deleting)
        done.expired_changelogs = [r.snapshot.id for r in changelogs.going]


def _batch_tag(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    """Tag the newest snapshot; the tag of this day moves to it.

    Unlike Java, only tags of batch writes count towards tag.num-retained-max (decision 0008).
    """
    if table.options.value(TAG_AUTOMATIC_CREATION) != "batch":
        return
    if (found := batch_tag(table, deleting.env)) is None:
        return
    check_taggable(table)
    name, snapshot = found
    new = make_tag(name, snapshot, table.options.value(TAG_DEFAULT_TIME_RETAINED), deleting.env)
    old = table.tags.get_or_none(name)
    if old is None:
        done.created_tags += create_automatic(table, [new], deleting.env)
    elif old.snapshot.identity != snapshot.identity:
        move_tag(table, old, new, deleting)
        announce_tag(table, name, deleting.env.now_millis())
        done.created_tags.append(name)
    most = table.options.value(TAG_NUM_RETAINED_MAX)
    if most is not None:
        mine = sorted(batch_tags(table, table.tags.all()), key=lambda t: t.snapshot.id)
        _delete_tags(table, mine[: max(0, len(mine) - most)], deleting, done)


def _mark_partitions(
    table: FileStoreTable, partitions: Sequence[bytes], env: Environment, done: Maintained
) -> None:
    """Mark the partitions that the batch wrote to as done."""
    if not table.schema.partition_keys or not table.options.value(
        PARTITION_MARK_DONE_WHEN_END_INPUT
    ):
        return
    marks = PartitionMarks.of(table)
    for path in (f"{table.paths.partition_path(p)}/" for p in partitions):
        marks.mark(table, path, env.now_millis())
        done.marked_partitions.append(path)
