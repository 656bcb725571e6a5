"""The number of requests that each job makes on a small table on S3 stays within its budget."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from s3_store import s3_server
from slow_store import DELETE, GET, HEAD, LIST, Fault, slow_store

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.reachability.release import delete_here

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "benchmarks")]

import store_requests  # noqa: E402 - the folder is not a package

pytest.importorskip("moto")
SIZE = store_requests.Size(
    commits=12,
    partitions=2,
    buckets=1,
    delay_millis=0,
    budgets={
        "open": 2,
        "commit": 12,
        "append": 34,
        "inspect": 60,
        "plan compact": 23,
        "plan expire_snapshots": 80,
        "plan remove_orphan_files": 76,
        store_requests.WITH_ORPHANS: 76,
        "compact": 80,
        "create_tag": 34,
        "expire_partitions": 48,
        "expire_snapshots": 172,
        "remove_orphan_files": 42,
    },
)


def test_no_job_makes_more_requests_than_its_budget() -> None:
    with s3_server() as server, slow_store(server) as store:
        root = store.new_root()
        store_requests.make(root, server.options, SIZE)
        taken = {}
        heads = {}
        for name, work in store_requests.jobs(root, store, SIZE).items():
            store.clear()
            work()
            taken[name], heads[name] = len(store.requests), store.counts[HEAD]
        over = {n: taken[n] for n, most in SIZE.budgets.items() if taken[n] > most}
        assert not over
        assert taken.keys() == SIZE.budgets.keys()
        # Sizes of data files come from manifests.
        assert heads["compact"] == 0
        assert heads["plan expire_snapshots"] == heads["plan remove_orphan_files"] == 0


def test_many_files_are_deleted_by_one_request_or_singly_where_it_fails() -> None:
    with s3_server() as server, slow_store(server) as store:
        size = store_requests.Size(1, 1, 1, 0, {})
        root = store.new_root()
        store_requests.make(root, server.options, size)
        table = FileSystemCatalog(root, store.options).get_table("db.t")
        paths = [f"{table.root}/manifest/old-{i}" for i in range(20)]

        def delete_all() -> None:
            for path in paths:
                table.io.write_bytes(path, b"1")
            store.clear()
            assert delete_here(table, paths) == [True] * 20

        delete_all()
        assert store.counts == {"delete many": 1}
        names = {f.path for f in table.io.list_dir(f"{table.root}/manifest")}
        assert not names & set(paths)
        delete_all()
        store.add(Fault("answer", kinds={"delete many"}, times=2, status=503, code="SlowDown"))
        for path in paths:
            table.io.write_bytes(path, b"1")
        assert delete_here(table, paths) == [True] * 20
        store.clear()
        store.add(Fault("answer", kinds={"delete many"}, status=501, code="NotImplemented"))
        for path in paths:
            table.io.write_bytes(path, b"1")
        delete_here(table, paths)
        assert store.counts["delete many"] == 1
        assert store.counts[DELETE] == 20
        names = {f.path for f in table.io.list_dir(f"{table.root}/manifest")}
        assert not names & set(paths)
        assert store.counts[GET] == 0
        assert store.counts[LIST] == 1
