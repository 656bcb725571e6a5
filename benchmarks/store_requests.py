"""Requests to an S3 store, by kind, for each job on one table.

    python benchmarks/store_requests.py             40 commits of two files
    python benchmarks/store_requests.py --long      400 commits, and 20 ms for each request
    python benchmarks/store_requests.py --keys      also the repeated requests, by key

The store is moto behind the counting proxy of the tests.  What is to reach is a number of requests that
does not depend on the time of a request: `BUDGETS` for the short run, per job.
"""

# ruff: noqa: E402 - the store is one of the tests
from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from s3_store import s3_server
from slow_store import SlowStore, slow_store

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import plan_table, run_table

ENV = system_environment()
KINDS = ("get", "head", "list", "put", "conditional put", "delete", "delete many", "copy")
BUDGETS = {
    "open": 2,
    "append": 34,
    "plan compact": 22,
    "plan expire_snapshots": 205,
    "plan remove_orphan_files": 220,
    "compact": 222,
    "create_tag": 32,
    "expire_partitions": 44,
    "expire_snapshots": 590,
    "remove_orphan_files": 65,
}
"""What the short run took in November 2026 and a little more: a budget may only be lowered."""


def main() -> int:
    """0 if no job takes more requests than its budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--keys", action="store_true")
    arguments = parser.parse_args()
    commits, delay = (400, 20) if arguments.long else (40, 0)
    over = []
    with s3_server() as server, slow_store(server, delay_millis=delay) as store:
        root = store.new_root()
        make(root, store.server.options, commits)
        print(f"{commits} commits of two files\n")
        print("| job | all | " + " | ".join(KINDS) + " | s |")
        print("|---|" + "---|" * (len(KINDS) + 2))
        for name, work in jobs(root, store).items():
            store.clear()
            started = time.perf_counter()
            work()
            seconds = time.perf_counter() - started
            counts = store.counts
            total = sum(counts.values())
            found = " | ".join(str(counts[kind] or "") for kind in KINDS)
            print(f"| {name} | {total} | {found} | {seconds:.1f} |")
            if arguments.keys:
                print_repeated(store)
            budget = None if arguments.long else BUDGETS.get(name)
            if budget is not None and total > budget:
                over.append(f"{name}: {total} requests, more than {budget}")
    print("\n".join(over), file=sys.stderr)
    return 1 if over else 0


def make(root: str, options: dict[str, str], commits: int) -> None:
    """A table with this many small commits of two partitions, made past the proxy."""
    catalog = FileSystemCatalog(root, options)
    catalog.create_database("db")
    schema = create_schema(
        [Column("k", "BIGINT"), Column("dt", "STRING"), Column("v", "STRING")],
        now_millis=1,
        partition_keys=["dt"],
        primary_keys=["k", "dt"],
        options={"bucket": "1", "write-only": "true"},
    )
    catalog.create_table("db.t", schema)
    table = catalog.get_table("db.t")
    for i in range(commits):
        append(table, i)


def append(table: FileStoreTable, i: int) -> None:
    """One commit with a file in each of two partitions."""
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": [i, i], "dt": ["2020-01-01", "2030-01-01"], "v": ["a", "b"]}))
    commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)


def jobs(root: str, store: SlowStore) -> dict[str, Callable[[], object]]:
    """What is counted, in order: each finds what those before it left."""
    catalog = FileSystemCatalog(root, store.options)
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

    return {
        "open": lambda: catalog.get_table("db.t"),
        "append": lambda: append(catalog.get_table("db.t"), 1000),
        "plan compact": lambda: plan_table(request("compact")),
        "plan expire_snapshots": lambda: plan_table(request("expire_snapshots", **few)),
        "plan remove_orphan_files": lambda: plan_table(request("remove_orphan_files")),
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
