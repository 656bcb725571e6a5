"""Compacts a table in this process (Java: the compaction of `table/sink/TableWriteImpl`).

For the writers of a table and the public API.  The job `compact` of `paimon_maintenance` compacts
large tables: it plans, guards, packs and spreads the work.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from paimon_core.commit.committer import commit
from paimon_core.compaction.due import BucketFiles, compact_bucket, delete_results, units_due
from paimon_core.compaction.record_expiry import RecordExpiry, record_expiry
from paimon_core.compaction.unit import CompactResult
from paimon_core.environment import Environment
from paimon_core.errors import ClockSkew, CommitConflict, UnsupportedFeature
from paimon_core.features import check_snapshot_compactable, uncompactable_features
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.retention.store_clock import check_clock
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.expiry_beside import read_beside_expiry
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.sink.after_commit import AfterCommit

log = logging.getLogger(__name__)


def compact_table(table: FileStoreTable, *, full: bool, env: Environment) -> tuple[Snapshot, ...]:
    """Compact all buckets where that is due, in one commit; no snapshot if none is.

    Raises UnsupportedFeature for tables that cannot be compacted, CommitConflict if another commit
    replaced a file meanwhile: then the new files are deleted.
    """
    table, latest = table.at_newest_snapshot()
    for feature in uncompactable_features(table):
        raise UnsupportedFeature(str(feature), table=table.name)
    if table.bucket_mode is BucketMode.POSTPONE:
        raise UnsupportedFeature(
            "compacting a postpone table in one process",
            table=table.name,
            next_step="run the job compact",
        )
    if latest is not None:
        check_snapshot_compactable(table, latest)
    after = AfterCommit(table, env=env)
    # Others may have compacted the files meanwhile, and let them expire.
    results = read_beside_expiry(
        partial(_compact_live_files, table, full=full, env=env), lambda: table.snapshots
    )
    if not results:
        return ()
    messages = [m for result in results for m in result.to_messages()]
    user = env.new_uuid()
    try:
        made = commit(table, messages, user=user, env=env)
    except CommitConflict:
        delete_results(table, results)
        raise
    after.run(user=user, identifier=BATCH_COMMIT_IDENTIFIER)
    return made


def _compact_live_files(
    table: FileStoreTable, *, full: bool, env: Environment
) -> list[CompactResult]:
    return compact_buckets(table, buckets_of(table), full=full, env=env)


def buckets_of(table: FileStoreTable) -> list[BucketFiles]:
    """Return the live files of all buckets of the newest snapshot."""
    latest = table.snapshots.latest()
    if latest is None:
        return []
    entries: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in scan_files(table, latest):
        entries[entry.partition, entry.bucket].append(entry)
    vectors = vector_files(table, latest)
    return [
        BucketFiles(
            partition=key[0],
            bucket=key[1],
            total_buckets=found[0].total_buckets,
            files=tuple(e.file for e in found),
            vector_files=vectors.get(key, ()),
        )
        for key, found in entries.items()
    ]


def compact_buckets(
    table: FileStoreTable,
    buckets: Iterable[BucketFiles],
    *,
    full: bool,
    env: Environment,
    until_done: bool = True,
) -> list[CompactResult]:
    """Compact the buckets that are due; on failure, the files of all results are deleted.

    `full` and `until_done` as in `units_due`.  If this machine's clock is wrong, no row expires.
    """
    results: list[CompactResult] = []
    expiry = _record_expiry(table, env) if table.has_primary_key else None
    try:
        for files in buckets:
            units = units_due(
                table,
                files,
                full=full,
                local_millis=env.local_millis(),
                expiry=expiry,
                until_done=until_done,
            )
            if units:
                results.append(compact_bucket(table, units, files, env=env))
    except BaseException:
        delete_results(table, results)
        raise
    return results


def _record_expiry(table: FileStoreTable, env: Environment) -> RecordExpiry | None:
    """The expiry of rows; None if this machine's clock is wrong, and the log says so.

    The write itself must not fail: what it commits does not depend on the clock.
    """
    expiry = record_expiry(table, now_millis=env.now_millis())
    if expiry is not None:
        try:
            check_clock(table, env)
        except (ClockSkew, UnsupportedFeature, OSError) as e:
            log.warning("table=%s rows do not expire in this compaction: %s", table.name, e)
            return None
    return expiry
