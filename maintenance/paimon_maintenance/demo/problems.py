"""The tables of the demo: one for each criterion of the health score, and two healthy ones.

The criterion `large_buckets` has no table: writing more than a gigabyte would take minutes.
The thresholds are those of `demo.policy`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import Options
from paimon_core.read.table_read import read_table
from paimon_core.refs.tags import Tag
from paimon_maintenance.demo.accidents import DAY_SECONDS, fail_a_write, leave_a_consumer
from paimon_maintenance.demo.problem_table import ProblemTable
from paimon_maintenance.demo.run_here import run_here

NOT_SHOWN: Final = frozenset({"large_buckets"})
MONTHLY_TAGS: Final = ("may", "june", "july", "august", "september")
INVALID_OPTION: Final = ("write-buffer-size", "256 megs")
MISSPELT_OPTION: Final = ("snapshot.num-retaind.max", "10")


def problem_tables() -> tuple[ProblemTable, ...]:
    """All tables: those that compaction heals, those that expiry heals, those that need people."""
    return (*_badly_written(), *_never_expired(), *_for_people(), *_healthy())


def _badly_written() -> tuple[ProblemTable, ...]:
    return (
        ProblemTable(
            name="payment",
            owner="payments",
            criterion="full_read_runs",
            problem="many sorted runs: every read merges 14 files",
            options={"bucket": "2"},
            commits=14,
            hours=30,
            after=_tags,
        ),
        ProblemTable(
            name="counter",
            owner="web",
            criterion="point_read_runs",
            problem="a few hot keys are in 13 files each",
            options={"bucket": "1", "target-file-size": "128 kb"},
            commits=13,
            rows=20_000,
            hours=1.5,
            compacted={0: "full"},
            later_share=0.01,
            is_hot=True,
        ),
        ProblemTable(
            name="click",
            owner="web",
            criterion="small_files",
            problem="hundreds of small files",
            primary_key=False,
            options={"bucket": "-1"},
            commits=30,
            writers=6,
            rows=60,
            hours=20,
        ),
        ProblemTable(
            name="cart",
            owner="web",
            criterion="delete_rows",
            problem="more than half of the rows are deletes",
            options={"bucket": "1"},
            commits=4,
            deleted=0.6,
            hours=1.5,
        ),
        ProblemTable(
            name="customer",
            owner="sales",
            criterion="deletion_vectors",
            problem="deletion vectors hide almost half of the rows",
            options={"bucket": "1", "deletion-vectors.enabled": "true"},
            commits=2,
            hours=9,
            spread=1,
            later_share=0.9,
            compacted={0: "full", 1: "minor"},
        ),
        ProblemTable(
            name="address",
            owner="sales",
            criterion="level_0_age",
            problem="nothing has compacted its new files for three days",
            options={"bucket": "1"},
            commits=2,
            hours=72,
        ),
        ProblemTable(
            name="alarm",
            owner="security",
            criterion="freshness",
            problem="readers see its rows after a compaction, and the policy wants that in 10 minutes",
            options={"bucket": "1", "merge-engine": "first-row"},
            commits=3,
            hours=1.9,
        ),
        ProblemTable(
            name="event",
            owner="web",
            criterion="manifests",
            problem="90 small manifests, and writers that do not merge them",
            options={"bucket": "1", "manifest.merge-min-count": "1000"},
            commits=90,
            rows=10,
            hours=0.5,
            compacted={89: "full"},
        ),
    )


def _never_expired() -> tuple[ProblemTable, ...]:
    return (
        ProblemTable(
            name="rate",
            owner="finance",
            criterion="expired_snapshots",
            problem="100 snapshots that nobody needs",
            options={"bucket": "1"},
            commits=110,
            rows=10,
            hours=20,
            compacted={109: "full"},
        ),
        ProblemTable(
            name="invoice",
            owner="finance",
            criterion="expired_bytes",
            problem="its old snapshots hold 75 times what it has",
            primary_key=False,
            options={"bucket": "-1", "snapshot.num-retained.min": "1"},
            commits=6,
            hours=20,
            documents=30,
        ),
        ProblemTable(
            name="transfer",
            owner="payments",
            criterion="consumer_lag",
            problem="a consumer that stopped ten days ago holds back the expiry",
            options={
                "bucket": "1",
                "snapshot.num-retained.min": "2",
                "snapshot.num-retained.max": "6",
                "consumer.expiration-time": "7 d",
            },
            commits=44,
            rows=500,
            hours=24 * 12,
            compacted={14: "full", 29: "full", 43: "full"},
            after=_old_consumer,
        ),
        ProblemTable(
            name="balance",
            owner="finance",
            criterion="tags_due",
            problem="daily tags are due, and no job creates them",
            options={
                "bucket": "1",
                "tag.automatic-creation": "process-time",
                "tag.creation-period": "daily",
                "tag.num-retained-max": "3",
            },
            commits=6,
            hours=24 * 5,
            compacted={5: "full"},
        ),
        ProblemTable(
            name="session",
            owner="web",
            criterion="partitions_due",
            problem="partitions are due to expire",
            options={
                "bucket": "1",
                "partition.expiration-time": "21 d",
                "partition.timestamp-formatter": "yyyy-MM-dd",
            },
            days=_days("%Y-%m-%d", 40),
        ),
    )


def _for_people() -> tuple[ProblemTable, ...]:
    """Tables that no job of the scheduler makes healthy: `demo.people` does."""
    return (
        ProblemTable(
            name="stock",
            owner="logistics",
            criterion="small_buckets",
            problem="64 buckets for a megabyte",
            options={"bucket": "64"},
            commits=2,
            hours=24 * 4,
            compacted={0: "full"},
            last_is_new=True,
        ),
        ProblemTable(
            name="device",
            owner="logistics",
            criterion="bucket_count",
            problem="a partition with a bucket of its own for each of 150 days",
            options={"bucket": "1"},
            days=_days("%Y-%m-%d", 150),
        ),
        ProblemTable(
            name="visit",
            owner="web",
            criterion="stuck_partitions",
            problem="partitions never expire, because their values do not fit the format",
            options={
                "bucket": "1",
                "partition.expiration-time": "7 d",
                "partition.timestamp-formatter": "yyyy-MM-dd",
            },
            days=_days("%Y%m%d", 14),
        ),
        ProblemTable(
            name="price",
            owner="sales",
            criterion="unknown_options",
            problem="a misspelt option that Paimon does not know",
            options={"bucket": "1", MISSPELT_OPTION[0]: MISSPELT_OPTION[1]},
        ),
        ProblemTable(
            name="quote",
            owner="sales",
            criterion="invalid_options",
            problem="an option with a value that Paimon cannot read",
            options={"bucket": "1"},
            after=_invalid_option,
        ),
        ProblemTable(
            name="contract",
            owner="finance",
            criterion="held_bytes",
            problem="forgotten tags hold 28 times what it has",
            primary_key=False,
            options={"bucket": "-1", "snapshot.num-retained.min": "1"},
            commits=2,
            hours=20,
            documents=28,
            after=_monthly_tags,
        ),
        ProblemTable(
            name="profile",
            owner="sales",
            criterion="unindexed_rows",
            problem="a global index that lacks the rows of today, so queries of Java do, too",
            primary_key=False,
            options={
                "bucket": "-1",
                "row-tracking.enabled": "true",
                "data-evolution.enabled": "true",
            },
            days=_days("%Y-%m-%d", 3),
            after=_index_of_earlier_days,
        ),
        ProblemTable(
            name="search",
            owner="web",
            criterion="row_id_gaps",
            problem="gaps between row ids, so compaction cannot join its small files",
            primary_key=False,
            options={
                "bucket": "-1",
                "row-tracking.enabled": "true",
                "data-evolution.enabled": "true",
            },
            commits=40,
            rows=30,
            hours=20,
            days=_days("%Y-%m-%d", 2),
        ),
        ProblemTable(
            name="upload",
            owner="web",
            criterion="orphans",
            problem="files that a failed write left behind",
            options={"bucket": "1"},
            after=_orphans,
        ),
        ProblemTable(
            name="refund",
            owner="payments",
            criterion="snapshot_gap",
            problem="somebody deleted a snapshot file",
            options={"bucket": "1"},
            commits=4,
            after=_lose_a_snapshot,
        ),
    )


def _healthy() -> tuple[ProblemTable, ...]:
    return (
        ProblemTable(name="country", owner="finance", options={"bucket": "1"}, rows=200),
        ProblemTable(name="shipment", owner="logistics", options={"bucket": "2"}, commits=2),
    )


def _tags(table: FileStoreTable) -> None:
    for number, name in ((2, "before-campaign"), (9, "end-of-quarter")):
        table.tags.create(Tag(name=name, snapshot=table.snapshots.get(number)))


def _monthly_tags(table: FileStoreTable) -> None:
    for name in MONTHLY_TAGS:
        table.tags.create(Tag(name=name, snapshot=table.snapshots.get(1)))
    warehouse = str(Path(table.root).parents[1])
    run_here("expire_snapshots", warehouse, table.name, {"retain_max": 1, "retain_min": 1})


def _old_consumer(table: FileStoreTable) -> None:
    leave_a_consumer(table, "fraud-check", 3)


def _orphans(table: FileStoreTable) -> None:
    rows = pa.Table.from_batches(read_table(table, table.latest_or_not_found()))
    fail_a_write(table, rows.select(table.schema.names))


def _index_of_earlier_days(table: FileStoreTable) -> None:
    warehouse = str(Path(table.root).parents[1])
    (today,) = _days("%Y-%m-%d", 1)
    arguments = {"index_column": "name", "where": f"dt < '{today}'"}
    run_here("create_global_index", warehouse, table.name, arguments)


def _invalid_option(table: FileStoreTable) -> None:
    """A schema of a program that does not check options."""
    options = Options({**table.schema.options, INVALID_OPTION[0]: INVALID_OPTION[1]})
    table.schemas.commit_new(replace(table.schema, id=table.schema.id + 1, options=options))


def _lose_a_snapshot(table: FileStoreTable) -> None:
    table.snapshots.delete(2)


def _days(pattern: str, number: int) -> tuple[str, ...]:
    """The last days, today included, oldest first."""
    now = time.time()
    days = (now - ago * DAY_SECONDS for ago in range(number - 1, -1, -1))
    return tuple(datetime.fromtimestamp(day, UTC).strftime(pattern) for day in days)
