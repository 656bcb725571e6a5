"""What a writer does after each commit (Java: `TableCommitImpl.maintain`; java-rules H8).

::

    1. automatic tags          tag.automatic-creation by process time or watermark
    2. tags over their time    tag.time-expire-enabled
    3. partitions              partition.expiration-time, once per partition.expiration-check-interval
    4. consumers               consumer.expiration-time; first, so that they do not hold snapshots
    5. snapshots, changelogs   snapshot.*, changelog.*; not where rows are postponed (bucket = -2)

`write-only` tables leave all of it to maintenance jobs.  Each step plans, checks again and applies
with the same code as the job of its kind, and refuses to delete a file that the newest snapshot
needs.  Journals of runs that died are left to the jobs.

The commit has happened before this starts, so a failure here is logged and reported, and never
raised.  (Java raises it from batch commits, and logs it for streams, whose next commit then fails.)
A failed step ends the run, as in Java; the next commit tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument
from paimon_core.features import CHAIN_TABLE, check_taggable
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import (
    CONSUMER_EXPIRATION_TIME,
    END_INPUT_CHECK_PARTITION_EXPIRE,
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    SNAPSHOT_EXPIRE_EXECUTION_MODE,
    TAG_AUTOMATIC_CREATION,
    TAG_DEFAULT_TIME_RETAINED,
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
from paimon_core.retention.tags import (
    apply_tags,
    create_automatic,
    make_tag,
    over_time,
    periodic_tags,
    plan_tag_deletion,
    recheck_tags,
)
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER

log = logging.getLogger(__name__)

_PERIODIC: Final = ("process-time", "watermark")
_MODES: Final = ("sync", "async")


@dataclass(slots=True)
class Maintained:
    """What was done after a commit: names and ids; `failure` is what ended it."""

    created_tags: list[str] = field(default_factory=list)
    deleted_tags: list[str] = field(default_factory=list)
    expired_partitions: list[str] = field(default_factory=list)
    expired_consumers: list[str] = field(default_factory=list)
    expired_snapshots: list[int] = field(default_factory=list)
    expired_changelogs: list[int] = field(default_factory=list)
    failure: Exception | None = None


class AfterCommit:
    """Runs the maintenance of one writer after its commits.

    One object per writer: partitions are checked once per interval, and the first check is at a
    random time within it, so that writers that end early get to it as well.
    """

    def __init__(self, table: FileStoreTable, *, env: Environment) -> None:
        self._table = table
        self._env = env
        self._enabled = not table.options.value(WRITE_ONLY)
        self._executor: ThreadPoolExecutor | None = None
        self.last: Maintained | None = None
        """What the last run did; None before the first one has ended."""
        mode = table.options.value(SNAPSHOT_EXPIRE_EXECUTION_MODE)
        if mode not in _MODES:
            raise InvalidArgument(f"snapshot.expire.execution-mode is one of {', '.join(_MODES)}")
        self._asynchronous = mode == "async"
        interval = table.options.value(PARTITION_EXPIRATION_CHECK_INTERVAL)
        self._checked = env.now_millis() - int(env.jitter() * (interval // 1000)) * 1000

    def run(self, *, user: str, identifier: int) -> None:
        """Run now or, for streams if the table says so, in the background, one run after the other.

        Does nothing for `write-only` tables.
        """
        if not self._enabled:
            return
        if not self._asynchronous or identifier == BATCH_COMMIT_IDENTIFIER:
            self._maintain(user, identifier)
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="after-commit")
        self._executor.submit(self._maintain, user, identifier)

    def close(self) -> None:
        """Wait for what runs in the background."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _maintain(self, user: str, identifier: int) -> None:
        done, table = Maintained(), self._table
        try:
            deleting = Deleting(self._env)
            _automatic_tags(table, deleting, done)
            _expired_tags(table, deleting, done)
            self._partitions(table, user, identifier, done)
            _consumers(table, deleting, done)
            _snapshots(table, deleting, done)
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
        table.consumers.all(), expiration_millis=expiration, now_millis=deleting.env.now_millis()
    )
    done.expired_consumers = delete_unchanged(table, dead)


def _snapshots(table: FileStoreTable, deleting: Deleting, done: Maintained) -> None:
    if table.bucket_mode is BucketMode.POSTPONE:
        return  # Java: PrimaryKeyFileStoreTable.newExpireRunnable
    now = deleting.env.now_millis()
    retention = snapshot_retention(table.options, now_millis=now)
    plan = plan_expiry(table, retention, now_millis=now, only_if_due=True)
    if plan is not None:
        check_not_needed(table, plan.garbage.files)
        work = recheck_expiry(table, plan.work)
        apply_expiry(table, work, deleting)
        done.expired_snapshots = [r.snapshot.id for r in work.going]
    if not changelogs_are_kept_longer(table, retention, now):
        return
    changelogs = plan_changelogs(table, changelog_retention(table.options, now_millis=now))
    if changelogs is not None:
        check_not_needed(table, changelogs.files)
        changelogs = recheck_changelogs(table, changelogs)
        apply_changelogs(table, changelogs, deleting)
        done.expired_changelogs = [r.snapshot.id for r in changelogs.going]
