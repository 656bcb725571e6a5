"""Requests to an S3 store, by kind, for each job on one table, and how many are in flight at once.

    python benchmarks/store_requests.py             40 commits of two files
    python benchmarks/store_requests.py --large     200 commits of 50 files, 20 ms for each request
    python benchmarks/store_requests.py --keys      also the repeated requests, by key

The store is moto behind the counting proxy of the tests.  Each size has its budget of requests per
job; the exit code is 1 if a job makes more.  The number of requests does not depend on their
duration.
"""

# ruff: noqa: E402 - the store is one of the tests
from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from figures import Figure, exit_code, record
from s3_store import s3_server
from slow_store import SlowStore, slow_store

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.health.inspect import inspect_table
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table

ENV = system_environment()
ORPHANS = 50
WITH_ORPHANS = f"plan remove_orphan_files, {ORPHANS} orphans"
KINDS = ("get", "head", "list", "put", "conditional put", "delete", "delete many", "copy")


@dataclass(frozen=True)
class Size:
    """A table of `commits` commits of one file in each of `partitions` x `buckets` buckets."""

    commits: int
    partitions: int
    buckets: int
    delay_millis: int
    budgets: Mapping[str, int]
    """Requests of each job when it was last measured, and a little more."""


SHORT = Size(
    commits=40,
    partitions=2,
    buckets=1,
    delay_millis=0,
    budgets={
        "open": 2,
        "commit": 12,
        "append": 34,
        "inspect": 118,
        "plan compact": 24,
        "plan expire_snapshots": 168,
        "plan remove_orphan_files": 192,
        WITH_ORPHANS: 192,
        "compact": 138,
        "create_tag": 34,
        "expire_partitions": 46,
        "expire_snapshots": 345,
        "remove_orphan_files": 42,
    },
)
LARGE = Size(
    commits=200,
    partitions=10,
    buckets=5,
    delay_millis=20,
    budgets={
        "open": 2,
        "commit": 12,
        "append": 98,
        "inspect": 460,
        "plan compact": 40,
        "plan expire_snapshots": 363,
        "plan remove_orphan_files": 665,
        WITH_ORPHANS: 835,
    },
)


def main() -> int:
    """0 if no job takes more requests than its budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--keys", action="store_true")
    arguments = parser.parse_args()
    size = LARGE if arguments.large else SHORT
    over = []
    with s3_server() as server, slow_store(server, delay_millis=size.delay_millis) as store:
        root = store.new_root()
        make(root, store.server.options, size)
        print(f"{size.commits} commits of {size.partitions * size.buckets} files\n")
        print("| job | all | " + " | ".join(KINDS) + " | at once | s |")
        print("|---|" + "---|" * (len(KINDS) + 3))
        for name, work in jobs(root, store, size).items():
            store.clear()
            started = time.perf_counter()
            work()
            seconds = time.perf_counter() - started
            counts = store.counts
            total = sum(counts.values())
            record([Figure(name=name, value=total, unit="requests")])
            found = " | ".join(str(counts[kind] or "") for kind in KINDS)
            print(
                f"| {name} | {total} | {found} | {store.most_at_once} | {seconds:.1f} |", flush=True
            )
            if arguments.keys:
                print_repeated(store)
            if total > size.budgets.get(name, total):
                over.append(f"{name}: {total} requests, more than {size.budgets[name]}")
    print("\n".join(over), file=sys.stderr)
    return exit_code(missed=bool(over))


def make(root: str, options: dict[str, str], size: Size) -> None:
    """The table, made past the proxy."""
    catalog = FileSystemCatalog(root, options)
    catalog.create_database("db")
    schema = create_schema(
        [Column("k", "BIGINT"), Column("dt", "STRING"), Column("v", "STRING")],
        now_millis=1,
        partition_keys=["dt"],
        primary_keys=["k", "dt"],
        options={"bucket": str(size.buckets), "write-only": "true"},
    )
    catalog.create_table("db.t", schema)
    table = catalog.get_table("db.t")
    for i in range(size.commits):
        append(table, size, i)


def append(table: FileStoreTable, size: Size, i: int) -> None:
    """One commit with a file in each bucket of each partition."""
    commit(table, written(table, size, i), user=ENV.new_uuid(), env=ENV)


def written(table: FileStoreTable, size: Size, i: int) -> list[CommitMessage]:
    """The files of one commit; the first partition is the only one that is old."""
    days = ["2020-01-01", *(f"2030-01-{day:02}" for day in range(1, size.partitions))]
    keys = [i * 100 + k for k in range(size.buckets * 8 if size.buckets > 1 else 1)]
    rows = [(k, day) for day in days for k in keys]
    writer = RowWriter(table, env=ENV)
    writer.write(
        pa.table({"k": [k for k, _ in rows], "dt": [d for _, d in rows], "v": ["a"] * len(rows)})
    )
    return writer.prepare_commit()


def litter(root: str, options: dict[str, str]) -> None:
    """Files of a failed writer, put there past the proxy, and old enough to be orphans."""
    table = FileSystemCatalog(root, options).get_table("db.t")
    for _ in range(ORPHANS):
        path = f"{table.root}/dt=2030-01-01/bucket-0/data-{ENV.new_uuid()}-0.parquet"
        table.io.write_bytes(path, b"lost")
    time.sleep(2)


def jobs(root: str, store: SlowStore, size: Size) -> dict[str, Callable[[], object]]:
    """What is counted, in order: each finds what those before it left."""
    catalog = FileSystemCatalog(root, store.options)
    # Files count as orphans only if they are old: these would need no look at the metadata.
    young = {"older_than": "1 s", "allow_young": True}
    few = {"retain_max": 5, "retain_min": 1, "older_than": "2100-01-01"}

    def request(job: str, **values: object) -> RunRequest:
        definition = job_named(job)
        return RunRequest(
            job=definition,
            warehouse=root,
            table="db.t",
            arguments=definition.read_arguments(values),
            file_io_options=store.options,
            force=True,
        )

    def ran(job: str, **values: object) -> Callable[[], object]:
        def run() -> None:
            report = run_table(request(job, **values))
            if report.error is not None:
                raise report.error

        return run

    opened = catalog.get_table("db.t")
    prepared = written(opened, size, 2000)

    def plan_with_orphans() -> None:
        litter(root, store.server.options)
        plan_table(request("remove_orphan_files", **young))

    return {
        "open": lambda: catalog.get_table("db.t"),
        "commit": lambda: commit(opened, prepared, user=ENV.new_uuid(), env=ENV),
        "append": lambda: append(catalog.get_table("db.t"), size, 1000),
        "inspect": lambda: inspect_table(catalog.get_table("db.t"), ENV),
        "plan compact": lambda: plan_table(request("compact")),
        "plan expire_snapshots": lambda: plan_table(request("expire_snapshots", **few)),
        "plan remove_orphan_files": lambda: plan_table(request("remove_orphan_files", **young)),
        WITH_ORPHANS: plan_with_orphans,
        "compact": ran("compact", strategy="full"),
        "create_tag": ran("create_tag", tag="t"),
        "expire_partitions": ran("expire_partitions", expiration_time="365 d"),
        "expire_snapshots": ran("expire_snapshots", **few),
        "remove_orphan_files": ran("remove_orphan_files"),
    }


def print_repeated(store: SlowStore) -> None:
    """Requests that came more than once, by kind and key without the numbers in it."""
    by_key = Counter((r.kind, r.key) for r in store.requests)
    again: Counter[tuple[str, str]] = Counter()
    for (kind, key), times in by_key.items():
        if times > 1:
            again[kind, re.sub(r"[0-9a-f]{8}-[0-9a-f-]+|\d+", "N", key.partition("/")[2])] += times
    for (kind, key), times in again.most_common(12):
        print(f"    {times:5} {kind:16} {key}")


if __name__ == "__main__":
    sys.exit(main())
