"""What a store's failures become: bounded in time, typed, named, and never a lost commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from s3_store import S3Server, s3_server
from slow_store import (
    CONDITIONAL_PUT,
    DELETE,
    DELETE_MANY,
    GET,
    HEAD,
    LIST,
    MULTIPART,
    PUT,
    Fault,
    SlowStore,
    slow_store,
)

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.catalog.jdbc.database import LOCKS
from paimon_core.catalog.jdbc.jdbc_catalog import JdbcCatalog
from paimon_core.catalog.jdbc.table_rows import execute
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import (
    CatalogLocked,
    CommitStateUnknown,
    StorageAccessDenied,
    StorageError,
    UnsupportedFeature,
)
from paimon_core.file_store_table import FileStoreTable
from paimon_core.io.file_io import FileIO
from paimon_core.io.fsspec_io import FsspecFileIO
from paimon_core.io.open import open_file_io
from paimon_core.write.row_writer import RowWriter

ENV = replace(system_environment(), sleep_millis=lambda _: None)
IN_TIME_SECONDS = 40
"""Enough for a deadline of some seconds on a busy machine; without one it would be a minute."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(s3: S3Server) -> Iterator[SlowStore]:
    with slow_store(s3) as proxy:
        yield proxy


def opened(store: SlowStore, *, deadline: str = "60 s") -> tuple[FileIO, str]:
    """Where requests are to be answered, no busy machine comes near the deadline."""
    return open_file_io(store.new_root(), within(store, deadline))


def within(store: SlowStore, deadline: str) -> dict[str, str]:
    return {**store.options, "caretaker.request-deadline": deadline}


def new_table(store: SlowStore, **table: str) -> FileStoreTable:
    """A table that was made past the proxy, opened through it."""
    root = store.new_root()
    catalog = FileSystemCatalog(root, store.server.options)
    catalog.create_database("db")
    catalog.create_table(
        "db.t", create_schema([Column("k", "INT")], now_millis=1, options={"bucket": "-1", **table})
    )
    return FileSystemCatalog(root, within(store, "60 s")).get_table("db.t")


def append(table: FileStoreTable, value: int = 1, user: str = "me") -> int:
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([value], pa.int32())}))
    (snapshot,) = commit(table, writer.prepare_commit(), user=user, env=ENV)
    return snapshot.id


# --- the proof -----------------------------------------------------------------------------------


def test_a_store_that_ignores_the_condition_is_refused_before_the_first_commit(
    store: SlowStore,
) -> None:
    table = new_table(store)
    store.add(Fault("ignore condition"))
    with pytest.raises(UnsupportedFeature, match=r"created .*caretaker/conditional-put twice") as e:
        append(table)
    assert "If-None-Match" in e.value.next_step
    assert table.snapshots.ids() == []


def test_no_commit_is_lost_on_a_store_that_ignores_the_condition(store: SlowStore) -> None:
    """Every commit that was reported as won exists; on such a store no commit is reported as won."""
    table = new_table(store)
    store.add(Fault("ignore condition"))
    barrier = threading.Barrier(4)

    def work(writer: int) -> list[int]:
        barrier.wait()
        won = []
        for i in range(3):
            try:
                won.append(append(table, writer * 10 + i, f"writer {writer}"))
            except UnsupportedFeature:
                continue
        return won

    with ThreadPoolExecutor(4) as pool:
        won = sorted(i for ids in pool.map(work, range(4)) for i in ids)
    assert won == table.snapshots.ids() == []


def test_the_lock_of_a_catalog_stands_in_for_the_condition(
    store: SlowStore, tmp_path: Path
) -> None:
    """With the lock, the same race on such a store wins every commit, and keeps it."""
    store.add(Fault("ignore condition"))
    catalog = JdbcCatalog(
        {
            **store.options,
            "uri": f"jdbc:sqlite:{tmp_path}/c.db",
            "warehouse": store.new_root(),
            "lock.enabled": "true",
            "lock-check-max-sleep": "20 ms",
        }
    )
    catalog.create_database("db")
    options = {"bucket": "-1", "commit.max-retries": "100", "commit.min-retry-wait": "1 ms"}
    catalog.create_table("db.t", create_schema([Column("k", "INT")], now_millis=1, options=options))
    barrier = threading.Barrier(4)

    def work(writer: int) -> list[int]:
        table = catalog.get_table("db.t")
        barrier.wait()
        return [append(table, writer * 10 + i, f"writer {writer}") for i in range(3)]

    with ThreadPoolExecutor(4) as pool:
        won = sorted(i for ids in pool.map(work, range(4)) for i in ids)
    table = catalog.get_table("db.t")
    assert won == table.snapshots.ids() == list(range(1, 13))
    users = [s.commit_user for s in table.snapshots.all()]
    assert sorted(users) == sorted(f"writer {w}" for w in range(4) for _ in range(3))
    assert not [s for s in table.io.list_dir(table.paths.snapshot_dir) if s.name.startswith(".")]


def test_a_commit_whose_lock_another_client_took_over_replaces_nothing(
    store: SlowStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was suspended after it had looked for the snapshot, until its lock expired."""
    store.add(Fault("ignore condition"))
    options = {
        **store.options,
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": store.new_root(),
        "lock.enabled": "true",
    }
    catalog = JdbcCatalog(options)
    catalog.create_database("db")
    catalog.create_table("db.t", create_schema([Column("k", "INT")], now_millis=1))
    table = catalog.get_table("db.t")
    exists, looks = FsspecFileIO.exists, []

    def suspended(io: FsspecFileIO, path: str) -> bool:
        found = exists(io, path)
        if path.endswith("/snapshot-1"):
            looks.append(found)
        if looks == [False, False]:  # the last look before the rename
            with catalog._database.transaction() as connection:
                execute(connection, f"UPDATE {LOCKS} SET acquired_at = '2020-01-01 00:00:00'")
            looks.append(True)
            assert append(catalog.get_table("db.t"), 2, "other") == 1
        return found

    monkeypatch.setattr(FsspecFileIO, "exists", suspended)
    with pytest.raises(CatalogLocked, match=r"may expire, or has; nothing was changed"):
        append(table, 1, "suspended")
    assert [s.commit_user for s in table.snapshots.all()] == ["other"]


def test_a_store_is_proven_once(store: SlowStore) -> None:
    table = new_table(store)
    append(table)
    proofs = [r for r in store.requests if r.key.endswith("/db.db/t/caretaker/conditional-put")]
    # The table's schema proved the endpoint behind the proxy; through the proxy this is the first.
    assert [r.kind for r in proofs] == [CONDITIONAL_PUT]
    store.clear()
    append(table)
    append(FileSystemCatalog(table.root.rsplit("/", 2)[0], store.options).get_table("db.t"))
    assert not [r for r in store.requests if "conditional-put" in r.key]


def test_the_first_proof_of_all_sees_the_second_creation_refused(store: SlowStore) -> None:
    io, root = opened(store)
    assert io.create_if_absent(f"{root}/db.db/t/snapshot/snapshot-1", b"1")
    proofs = [r.kind for r in store.requests if "conditional-put" in r.key]
    assert proofs[:2] == [CONDITIONAL_PUT, CONDITIONAL_PUT]
    assert io.exists(f"{root}/db.db/t/caretaker/conditional-put")


def test_the_proof_of_a_branch_lies_with_the_table(store: SlowStore) -> None:
    io, root = opened(store)
    assert io.create_if_absent(f"{root}/db.db/t/branch/branch-b/snapshot/snapshot-1", b"1")
    assert io.exists(f"{root}/db.db/t/caretaker/conditional-put")
    assert [f.name for f in io.list_dir(f"{root}/db.db/t/branch/branch-b")] == ["snapshot"]


@pytest.mark.parametrize("key", ["conditional-put$", "snapshot-1$"])
def test_a_store_without_conditional_writes_is_refused_at_once(store: SlowStore, key: str) -> None:
    table = new_table(store)
    store.add(Fault("answer", {CONDITIONAL_PUT}, key, status=501, code="NotImplemented"))
    with pytest.raises(UnsupportedFeature, match="NotImplemented"):
        append(table)
    refused = [r for r in store.requests if r.fault == "answer"]
    assert len(refused) == 1
    assert table.snapshots.ids() == []


# --- credentials ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (403, "InvalidAccessKeyId"),
        (403, "SignatureDoesNotMatch"),
        (400, "ExpiredToken"),
        (400, "InvalidToken"),
        (401, "Unauthorized"),
    ],
)
def test_refused_credentials_fail_at_once(store: SlowStore, status: int, code: str) -> None:
    io, root = opened(store)
    io.write_bytes(f"{root}/f", b"f")
    store.add(Fault("answer", status=status, code=code))
    for call in (
        lambda: io.read_bytes(f"{root}/f"),
        lambda: io.list_dir(f"{root}/d"),
        lambda: io.exists(f"{root}/f"),
        lambda: io.delete(f"{root}/f"),
        lambda: io.create_if_absent(f"{root}/t/snapshot/snapshot-1", b"1"),
    ):
        before = len(store.requests)
        with pytest.raises(StorageAccessDenied, match="s3://b") as caught:
            call()
        assert isinstance(caught.value, PermissionError)
        assert "credentials" in caught.value.next_step
        # Of a HEAD, whose reply has no body, botocore learns the reason by a second one.
        assert len(store.requests) - before <= (2 if status == 400 else 1)


def test_a_commit_whose_credentials_are_refused_is_not_tried_again(store: SlowStore) -> None:
    table = new_table(store)
    store.add(Fault("answer", {CONDITIONAL_PUT}, r"snapshot-1$", status=403, code="ExpiredToken"))
    with pytest.raises(StorageAccessDenied, match="ExpiredToken"):
        append(table)
    assert sum(r.fault == "answer" for r in store.requests) == 1
    assert table.snapshots.ids() == []


def test_missing_credentials_are_a_refusal(
    store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    options = {k: v for k, v in store.options.items() if not k.endswith("-key")}
    io, root = open_file_io(store.new_root(), options)
    with pytest.raises(StorageAccessDenied, match="credentials"):
        io.read_bytes(f"{root}/f")
    assert store.requests == []


def test_a_clock_that_the_store_refuses_is_named(store: SlowStore) -> None:
    io, root = opened(store)
    store.add(Fault("answer", status=403, code="RequestTimeTooSkewed"))
    with pytest.raises(StorageAccessDenied, match="RequestTimeTooSkewed") as caught:
        io.read_bytes(f"{root}/f")
    assert "clock" in caught.value.next_step


# --- deadlines and retries -----------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["answer", "hang", "reset"])
def test_a_store_that_does_not_serve_is_given_up_in_time(store: SlowStore, what: str) -> None:
    patient, root = opened(store)
    patient.write_bytes(f"{root}/f", b"f")
    store.clear()
    io, _ = open_file_io(root, within(store, "2 s"))
    store.add(Fault(what))
    for call in (
        lambda: io.read_bytes(f"{root}/f"),
        lambda: io.list_dir(f"{root}/d"),
        lambda: io.write_bytes(f"{root}/g", b"g"),
    ):
        started = time.perf_counter()
        with pytest.raises(StorageError, match=r"s3://b\w+/warehouse/.*attempts? in ") as caught:
            call()
        assert time.perf_counter() - started < IN_TIME_SECONDS
        assert not isinstance(caught.value, StorageAccessDenied)
    assert len(store.requests) <= 8 * 3


def test_few_requests_go_to_a_store_that_is_overloaded(store: SlowStore) -> None:
    io, root = opened(store, deadline="8 s")
    store.add(Fault("answer", status=503, code="SlowDown"))
    started = time.perf_counter()
    with pytest.raises(StorageError, match="503 SlowDown"):
        io.read_bytes(f"{root}/f")
    assert len(store.requests) <= 8
    assert time.perf_counter() - started < IN_TIME_SECONDS


def test_what_passes_is_tried_again(store: SlowStore) -> None:
    io, root = opened(store)
    for what in ("answer", "reset", "lose reply"):
        for kind in (PUT, HEAD, GET, LIST, DELETE):
            store.add(Fault(what, {kind}, times=1))
    io.write_bytes(f"{root}/d/f", b"f" * 1000)
    assert io.read_bytes(f"{root}/d/f") == b"f" * 1000
    assert [f.name for f in io.list_dir(f"{root}/d")] == ["f"]
    assert io.exists(f"{root}/d/f")
    io.delete(f"{root}/d/f")
    assert all(f.hits == 1 for f in store.faults)


def test_streams_are_tried_again_and_bounded(store: SlowStore) -> None:
    io, root = opened(store)
    store.add(Fault("reset", {MULTIPART, PUT}, times=2))
    content = b"0123456789" * 1_200_000
    with io.open_output(f"{root}/big") as out:
        out.write(content)
    store.add(Fault("reset", {GET}, times=1))
    with io.open_input(f"{root}/big") as source:
        assert source.read() == content
    impatient, _ = open_file_io(root, within(store, "3 s"))
    with impatient.open_input(f"{root}/big") as source:
        store.add(Fault("hang", {GET}))
        started = time.perf_counter()
        with pytest.raises(StorageError, match=f"{root}/big"):
            source.read()
        assert time.perf_counter() - started < IN_TIME_SECONDS


def test_a_listing_without_its_next_page_is_no_complete_one(store: SlowStore) -> None:
    io, root = opened(store)
    for name in "abc":
        io.write_bytes(f"{root}/d/{name}", b"f")
    store.add(Fault("no next page", {LIST}))
    for call in (
        lambda: io.list_dir(f"{root}/d"),
        lambda: io.list_below(f"{root}/d"),
        lambda: io.delete_dir(f"{root}/d"),
        lambda: io.rename(f"{root}/d", f"{root}/e"),
    ):
        with pytest.raises(StorageError, match="more objects follow") as caught:
            call()
        assert "ListObjectsV2" in caught.value.next_step
    store.clear()
    assert sorted(f.name for f in io.list_dir(f"{root}/d")) == ["a", "b", "c"]


def test_no_object_of_a_folder_that_is_deleted_stays_unnoticed(store: SlowStore) -> None:
    io, root = opened(store)
    for name in "abc":
        io.write_bytes(f"{root}/d/{name}", b"f")
    store.add(Fault("keep", {DELETE_MANY}))
    denied = store.add(Fault("answer", {DELETE}, "/b$", status=403, code="AccessDenied"))
    with pytest.raises(StorageAccessDenied, match=f"{root}/d/b"):
        io.delete_dir(f"{root}/d")
    assert [f.name for f in io.list_dir(f"{root}/d")] == ["b"]
    store.faults.remove(denied)
    assert io.delete_dir(f"{root}/d")
    assert io.list_dir(f"{root}/d") == []
    assert not io.delete_dir(f"{root}/d")


# --- outcomes ------------------------------------------------------------------------------------


def test_a_lost_reply_of_a_creation_is_settled_by_looking(store: SlowStore) -> None:
    table = new_table(store)
    fault = store.add(Fault("lose reply", {CONDITIONAL_PUT}, "snapshot-1$", times=1))
    assert append(table) == 1
    assert fault.hits == 1
    assert table.snapshots.ids() == [1]


def test_a_refusal_after_a_lost_reply_leaves_the_outcome_unknown(store: SlowStore) -> None:
    """The first request made the snapshot: that the second was refused says nothing about it."""
    io, root = opened(store)
    path = f"{root}/t/snapshot/snapshot-1"
    store.add(Fault("lose reply", {CONDITIONAL_PUT}, "snapshot-1$", times=1))
    store.add(Fault("answer", {CONDITIONAL_PUT}, "snapshot-1$", status=403, code="ExpiredToken"))
    with pytest.raises(StorageError, match="unknown") as caught:
        io.create_if_absent(path, b"ours")
    assert not isinstance(caught.value, StorageAccessDenied)
    assert io.read_bytes(path) == b"ours"


def test_a_taken_name_that_cannot_be_read_leaves_the_outcome_unknown(store: SlowStore) -> None:
    io, root = opened(store)
    path = f"{root}/t/snapshot/snapshot-1"
    store.add(Fault("lose reply", {CONDITIONAL_PUT}, "snapshot-1$", times=1))
    store.add(Fault("answer", {GET, HEAD}, "snapshot-1$", status=403, code="AccessDenied"))
    with pytest.raises(StorageError) as caught:
        io.create_if_absent(path, b"ours")
    assert not isinstance(caught.value, StorageAccessDenied)


def test_a_commit_that_never_gets_a_reply_is_unknown_and_not_lost(store: SlowStore) -> None:
    table = new_table(store, **{"commit.max-retries": "1"})
    writer = RowWriter(table, env=ENV)
    writer.write(pa.table({"k": pa.array([1], pa.int32())}))
    messages = writer.prepare_commit()
    store.add(Fault("hang", {CONDITIONAL_PUT}, "snapshot-1$"))
    warehouse = table.root.rsplit("/", 2)[0]
    impatient = FileSystemCatalog(warehouse, within(store, "5 s")).get_table("db.t")
    with pytest.raises(CommitStateUnknown):
        commit(impatient, messages, user="me", env=ENV)
