"""What every FileIO promises, run over local files, memory and S3 (a moto server)."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
from dropped_reply import dropped_reply
from ports import free_port
from s3_store import S3Server, s3_server
from store_emulators import azure_store, gcs_store, hdfs_cluster

from paimon_core.errors import StorageAccessDenied, StorageError
from paimon_core.io.file_io import (
    IS_DIR,
    FileIO,
    FolderNames,
    delete_files,
    map_parallel,
    read_parallel,
)
from paimon_core.io.fsspec_io import FsspecFileIO
from paimon_core.io.hdfs import HdfsFileIO
from paimon_core.io.local import LocalFileIO
from paimon_core.io.open import open_file_io

Store = tuple[FileIO, str]


class FileIOContract:
    """Subclasses provide the fixture `store`: the FileIO and an empty root."""

    def test_written_bytes_are_read_back(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/a/b/file", b"some bytes")
        assert io.read_bytes(f"{root}/a/b/file") == b"some bytes"
        with io.open_input(f"{root}/a/b/file") as f:
            f.seek(5)
            assert f.read() == b"bytes"
            assert f.size() == 10

    def test_output_streams_make_files(self, store: Store) -> None:
        io, root = store
        with io.open_output(f"{root}/x/stream") as f:
            f.write(b"abc")
            f.write(b"def")
            assert f.tell() == 6
        assert io.read_bytes(f"{root}/x/stream") == b"abcdef"

    def test_missing_files_are_told_by_their_error(self, store: Store) -> None:
        io, root = store
        with pytest.raises(FileNotFoundError):
            io.read_bytes(f"{root}/nothing")
        with pytest.raises(FileNotFoundError):
            io.open_input(f"{root}/nothing")
        with pytest.raises(FileNotFoundError):
            io.stat(f"{root}/nothing")
        with pytest.raises(FileNotFoundError):
            io.rename(f"{root}/nothing", f"{root}/elsewhere")
        assert not io.exists(f"{root}/nothing")
        assert io.list_dir(f"{root}/nothing") == []
        assert not io.delete_dir(f"{root}/nothing")
        io.delete(f"{root}/nothing")

    def test_create_if_absent_creates_once(self, store: Store) -> None:
        io, root = store
        assert io.create_if_absent(f"{root}/snapshot/snapshot-1", b"first")
        assert not io.create_if_absent(f"{root}/snapshot/snapshot-1", b"second")
        assert io.read_bytes(f"{root}/snapshot/snapshot-1") == b"first"
        assert [s.name for s in io.list_dir(f"{root}/snapshot")] == ["snapshot-1"]

    def test_one_of_many_creators_wins(self, store: Store) -> None:
        io, root = store
        barrier = threading.Barrier(8)

        def attempt(i: int) -> bool:
            barrier.wait()
            return io.create_if_absent(f"{root}/race", b"creator %d" % i)

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(attempt, range(8)))
        assert won.count(True) == 1
        assert io.read_bytes(f"{root}/race") == b"creator %d" % won.index(True)

    def test_overwrite_replaces(self, store: Store) -> None:
        io, root = store
        io.overwrite(f"{root}/snapshot/LATEST", b"1")
        io.overwrite(f"{root}/snapshot/LATEST", b"22")
        assert io.read_bytes(f"{root}/snapshot/LATEST") == b"22"
        assert [s.name for s in io.list_dir(f"{root}/snapshot")] == ["LATEST"]

    def test_stat_and_listing(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/d/one", b"1")
        io.write_bytes(f"{root}/d/two", b"22")
        io.write_bytes(f"{root}/d/sub/three", b"333")
        listed = {s.name: s for s in io.list_dir(f"{root}/d")}
        assert {n: (s.path, s.size, s.is_dir) for n, s in listed.items()} == {
            "one": (f"{root}/d/one", 1, False),
            "two": (f"{root}/d/two", 2, False),
            "sub": (f"{root}/d/sub", 0, True),
        }
        names = io.list_names(f"{root}/d")
        if names is not None:
            assert dict(zip(names.names, names.kinds, strict=True)) == {
                name: s.is_dir * IS_DIR for name, s in listed.items()
            }
            assert io.list_names(f"{root}/none") == FolderNames([], b"")
        assert io.stat(f"{root}/d/two").size == 2
        assert io.stat(f"{root}/d").is_dir
        assert io.stat(f"{root}/d/one").modified_millis > 1_600_000_000_000
        assert io.exists(f"{root}/d/one")
        assert io.exists(f"{root}/d")

    def test_listings_are_never_stale(self, store: Store) -> None:
        io, root = store
        other = pickle.loads(pickle.dumps(io))
        io.write_bytes(f"{root}/d/one", b"1")
        assert len(io.list_dir(f"{root}/d")) == 1
        other.write_bytes(f"{root}/d/two", b"2")
        assert len(io.list_dir(f"{root}/d")) == 2
        other.delete(f"{root}/d/one")
        assert [s.name for s in io.list_dir(f"{root}/d")] == ["two"]
        assert not io.exists(f"{root}/d/one")

    def test_delete(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/d/one", b"1")
        assert io.delete(f"{root}/d/one")
        assert not io.exists(f"{root}/d/one")

    def test_files_of_known_size_are_read(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/d/one", b"0123456789")
        with io.open_input(f"{root}/d/one", 10) as f:
            assert f.size() == 10
            assert f.read_at(4, 6) == b"6789"
        with pytest.raises(FileNotFoundError), io.open_input(f"{root}/d/none", 10) as f:
            f.read(1)

    def test_everything_below_a_folder_is_listed(self, store: Store) -> None:
        io, root = store
        for name in ("d/one", "d/p=1/bucket-0/two", "d/p=2/bucket-0/three", "dd/other"):
            io.write_bytes(f"{root}/{name}", b"content")
        found = io.list_below(f"{root}/d")
        if found is None:
            pytest.skip("the store has no listing by prefix")
        assert {f.path: (f.size, f.is_dir) for f in found} == {
            f"{root}/d/one": (7, False),
            f"{root}/d/p=1/bucket-0/two": (7, False),
            f"{root}/d/p=2/bucket-0/three": (7, False),
        }
        times = {f.path: f.modified_millis for f in io.list_dir(f"{root}/d")}
        assert [f.modified_millis for f in found if f.name == "one"] == [times[f"{root}/d/one"]]
        assert io.list_below(f"{root}/none") == []

    def test_many_files_are_deleted(self, store: Store) -> None:
        io, root = store
        paths = [f"{root}/d/f {i} & <é>" for i in range(7)]
        for path in paths:
            io.write_bytes(path, b"1")
        assert delete_files(io, [*paths[:5], f"{root}/d/none"])[:5] == [True] * 5
        assert sorted(s.path for s in io.list_dir(f"{root}/d")) == paths[5:]
        assert delete_files(io, []) == []

    def test_delete_dir(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/d/sub/one", b"1")
        io.write_bytes(f"{root}/dd", b"1")
        assert not io.delete_dir(f"{root}/d", recursive=False)
        assert io.exists(f"{root}/d/sub/one")
        assert io.delete_dir(f"{root}/d")
        assert io.list_dir(f"{root}/d") == []
        assert io.exists(f"{root}/dd")

    def test_folders_are_made_and_deleted(self, store: Store) -> None:
        io, root = store
        io.make_dirs(f"{root}/db.db")
        io.make_dirs(f"{root}/db.db")
        assert io.exists(f"{root}/db.db")
        assert [(s.name, s.is_dir) for s in io.list_dir(root)] == [("db.db", True)]
        assert io.list_dir(f"{root}/db.db") == []
        assert io.delete_dir(f"{root}/db.db", recursive=False)
        assert not io.exists(f"{root}/db.db")
        io.make_dirs(f"{root}/db.db")
        io.write_bytes(f"{root}/db.db/t", b"t")
        assert io.delete_dir(f"{root}/db.db")
        assert not io.exists(f"{root}/db.db")

    def test_rename_keeps_what_is_there(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/t/tag-a", b"a")
        io.write_bytes(f"{root}/t/tag-b", b"b")
        assert not io.rename(f"{root}/t/tag-a", f"{root}/t/tag-b")
        assert io.rename(f"{root}/t/tag-a", f"{root}/u/tag-c")
        assert io.read_bytes(f"{root}/u/tag-c") == b"a"
        assert io.read_bytes(f"{root}/t/tag-b") == b"b"
        assert not io.exists(f"{root}/t/tag-a")

    @pytest.mark.parametrize("name", ["t*", "t?", "t[0-9]", "t1?versionId=7"])
    def test_names_are_no_patterns_and_hold_no_version(self, name: str, store: Store) -> None:
        io, root = store
        names = [name, "t1", "t2"]
        for other in names:
            io.write_bytes(f"{root}/tag/tag-{other}", other.encode())
            io.write_bytes(f"{root}/branch/branch-{other}/snapshot/snapshot-1", b"1")
        assert io.rename(f"{root}/tag/tag-{name}", f"{root}/tag/tag-new")
        assert sorted(f.name for f in io.list_dir(f"{root}/tag")) == ["tag-new", "tag-t1", "tag-t2"]
        assert io.read_bytes(f"{root}/tag/tag-new") == name.encode()
        assert io.delete_dir(f"{root}/branch/branch-{name}")
        assert not io.exists(f"{root}/branch/branch-{name}/snapshot/snapshot-1")
        assert io.exists(f"{root}/branch/branch-t1/snapshot/snapshot-1")
        assert io.exists(f"{root}/branch/branch-t2/snapshot/snapshot-1")

    def test_folders_are_renamed(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/branch/branch-a/tag/tag-x", b"x")
        io.write_bytes(f"{root}/branch/branch-b/tag/tag-y", b"y")
        assert not io.rename(f"{root}/branch/branch-a", f"{root}/branch/branch-b")
        assert io.rename(f"{root}/branch/branch-a", f"{root}/branch/branch-c")
        assert io.read_bytes(f"{root}/branch/branch-c/tag/tag-x") == b"x"
        assert not io.exists(f"{root}/branch/branch-a")

    def test_it_travels(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/f", b"f")
        assert pickle.loads(pickle.dumps(io)).read_bytes(f"{root}/f") == b"f"

    def test_many_at_once_keep_their_order(self, store: Store) -> None:
        io, root = store
        for i in range(20):
            io.write_bytes(f"{root}/f{i}", b"%d" % i)
        paths = [f"{root}/f{i}" for i in range(20)]
        assert map_parallel(io, io.read_bytes, paths) == [b"%d" % i for i in range(20)]
        many = [paths[i % 20] for i in range(300)]
        assert read_parallel(io, io.read_bytes, many) == [b"%d" % (i % 20) for i in range(300)]
        with pytest.raises(FileNotFoundError):
            map_parallel(io, io.read_bytes, [*paths, f"{root}/none"])
        with pytest.raises(FileNotFoundError):
            read_parallel(io, io.read_bytes, [*many, f"{root}/none"])


class TestLocal(FileIOContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_file_io(str(tmp_path))

    def test_names_are_used_once(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"{root}/f", b"f")
        with pytest.raises(FileExistsError):
            io.write_bytes(f"{root}/f", b"g")
        with pytest.raises(FileExistsError):
            io.open_output(f"{root}/f")
        assert io.read_bytes(f"{root}/f") == b"f"

    def test_a_file_scheme_is_the_same_file(self, store: Store) -> None:
        io, root = store
        io.write_bytes(f"file:{root}/f", b"f")
        assert io.read_bytes(f"file://{root}/f") == b"f"
        assert open_file_io(f"file://{root}")[1] == root
        assert open_file_io(f"file:{root}/")[1] == root

    def test_deleting_a_folder_as_a_file_is_an_error(self, store: Store) -> None:
        io, root = store
        io.make_dirs(f"{root}/d")
        with pytest.raises(OSError):
            io.delete(f"{root}/d")
        assert io.delete_dir(f"{root}/d", recursive=False)


def _create_many(root: str, worker: int, rounds: int) -> list[bool]:
    io = LocalFileIO()
    return [
        io.create_if_absent(f"{root}/snapshot-{i}", b"%d" % worker * 4000) for i in range(rounds)
    ]


def test_processes_race_for_local_names(tmp_path: Path) -> None:
    rounds = 60
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.starmap(_create_many, [(str(tmp_path), w, rounds) for w in range(3)])
    for i in range(rounds):
        winners = [w for w in range(3) if results[w][i]]
        assert len(winners) == 1
        assert (tmp_path / f"snapshot-{i}").read_bytes() == b"%d" % winners[0] * 4000
    assert len(list(tmp_path.iterdir())) == rounds


class TestMemory(FileIOContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_file_io(f"memory://{uuid.uuid4()}")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


class TestS3(FileIOContract):
    @pytest.fixture
    def store(self, s3: S3Server) -> Store:
        return open_file_io(s3.new_root(), s3.options)

    def test_paths_keep_their_scheme(self, store: Store, s3: S3Server) -> None:
        _, root = store
        io, s3a_root = open_file_io(root.replace("s3://", "s3a://"), s3.options)
        io.write_bytes(f"{s3a_root}/d/f", b"f")
        assert [s.path for s in io.list_dir(f"{s3a_root}/d")] == [f"{s3a_root}/d/f"]
        assert store[0].read_bytes(f"{root}/d/f") == b"f"

    def test_a_folder_whose_move_was_interrupted(self, store: Store) -> None:
        """The next call continues it, wherever it stopped; nobody ever sees two tables."""
        io, root = store
        files = {
            "bucket-0/data-1.parquet": b"data",
            "manifest/manifest-1": b"manifest",
            "schema/schema-0": b"schema 0",
            "schema/schema-1": b"schema 1",
            "snapshot/LATEST": b"1",
            "snapshot/snapshot-1": b"snapshot",
        }
        assert isinstance(io, FsspecFileIO)
        file_system = io._fs
        calls = {name: getattr(file_system, name) for name in ("cp_file", "rm_file")}
        for k in range(2 * len(files) + 1):
            src, dst = f"{root}/{k}/a", f"{root}/{k}/b"
            for name, data in files.items():
                io.write_bytes(f"{src}/{name}", data)
            left = [k]

            def stops(name: str, left: list[int] = left) -> Callable[..., object]:
                def call(*words: object, **more: object) -> object:
                    if left[0] == 0:
                        raise KeyboardInterrupt
                    left[0] -= 1
                    return calls[name](*words, **more)

                return call

            with patch.multiple(file_system, **{name: stops(name) for name in calls}):
                if k == 2 * len(files):
                    assert io.rename(src, dst)
                    return
                with pytest.raises(KeyboardInterrupt):
                    io.rename(src, dst)
            both = [
                {name: io.exists(f"{folder}/{name}") for name in files} for folder in (src, dst)
            ]
            assert any(all(there.values()) for there in both), k
            tables = [there for there in both if there["schema/schema-0"]]
            assert any(all(there.values()) for there in tables), k
            if k % 2:
                io.write_bytes(f"{dst}/snapshot/snapshot-9", b"by somebody else")
                io.write_bytes(f"{src}/snapshot/snapshot-8", b"by somebody else")
                assert not io.rename(src, dst)
                continue
            assert io.rename(src, dst)
            assert {name: io.read_bytes(f"{dst}/{name}") for name in files} == files
            assert not io.exists(src)

    def test_another_table_is_no_interrupted_move(self, store: Store) -> None:
        io, root = store
        for name, schema in (("a", b"schema of a"), ("b", b"schema of b")):
            io.write_bytes(f"{root}/{name}/schema/schema-0", schema)
        io.write_bytes(f"{root}/b/snapshot/snapshot-1", b"1")
        assert not io.rename(f"{root}/a", f"{root}/b")
        assert not io.rename(f"{root}/b", f"{root}/a")
        assert io.read_bytes(f"{root}/a/schema/schema-0") == b"schema of a"

    def test_a_repeated_request_is_recognised_as_our_own(self, store: Store) -> None:
        """The client library repeats requests whose reply was lost."""
        io, root = store
        assert io.create_if_absent(f"{root}/snapshot-1", b"by me")
        assert io.create_if_absent(f"{root}/snapshot-1", b"by me")
        assert not io.create_if_absent(f"{root}/snapshot-1", b"by another")

    def test_an_unreachable_store_is_an_os_error(self) -> None:
        io, root = open_file_io(
            "s3://b/w",
            {
                "s3.endpoint": "http://127.0.0.1:9",
                "s3.access-key": "x",
                "s3.secret-key": "x",
                "s3.region": "us-east-1",
                "caretaker.request-deadline": "500 ms",
            },
        )
        with pytest.raises(StorageError, match="s3://b/w/x"):
            io.exists(f"{root}/x")
        with pytest.raises(StorageError, match="s3://b/w/x"):
            io.list_dir(f"{root}/x")
        with pytest.raises(StorageError):
            io.create_if_absent(f"{root}/x", b"x")


@pytest.fixture(scope="module")
def azure() -> Iterator[Store]:
    yield from azure_store()


class TestAzure(FileIOContract):
    @pytest.fixture
    def store(self, azure: Store) -> Store:
        return azure[0], f"{azure[1]}/{uuid.uuid4()}"


@pytest.fixture(scope="module")
def gcs() -> Iterator[Store]:
    yield from gcs_store()


class TestGoogle(FileIOContract):
    @pytest.fixture
    def store(self, gcs: Store) -> Store:
        return gcs[0], f"{gcs[1]}/{uuid.uuid4()}"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as url:
        yield url


class TestHdfs(FileIOContract):
    @pytest.fixture
    def store(self, hdfs: str) -> Store:
        return open_file_io(f"{hdfs}/{uuid.uuid4()}")

    def test_a_name_is_taken_without_a_check(self, store: Store) -> None:
        """Another client may take the name between the check and the rename."""
        io, root = store
        io.write_bytes(f"{root}/snapshot-1", b"first")
        with patch.object(HdfsFileIO, "exists", return_value=False):
            assert not io.create_if_absent(f"{root}/snapshot-1", b"second")
        assert io.read_bytes(f"{root}/snapshot-1") == b"first"
        assert [s.name for s in io.list_dir(root)] == ["snapshot-1"]

    def test_a_rename_whose_reply_is_lost_is_recognised(self, store: Store, hdfs: str) -> None:
        io, root = store
        port = int(hdfs.rsplit(":", 1)[1])
        with dropped_reply(port, b"rename2") as (proxy, sent):
            there = root.replace(hdfs, f"hdfs://127.0.0.1:{proxy}")
            assert open_file_io(there)[0].create_if_absent(f"{there}/snapshot-1", b"by me")
            assert sent
        with dropped_reply(port, b"rename2") as (proxy, sent):
            there = root.replace(hdfs, f"hdfs://127.0.0.1:{proxy}")
            open_file_io(there)[0].overwrite(f"{there}/LATEST", b"1")
            assert sent
        assert sorted(s.name for s in io.list_dir(root)) == ["LATEST", "snapshot-1"]
        assert io.read_bytes(f"{root}/snapshot-1") == b"by me"
        assert io.read_bytes(f"{root}/LATEST") == b"1"

    def test_a_lost_race_stays_lost_without_its_reply(self, store: Store, hdfs: str) -> None:
        io, root = store
        io.write_bytes(f"{root}/snapshot-1", b"by another")
        with (
            dropped_reply(int(hdfs.rsplit(":", 1)[1]), b"rename2") as (proxy, sent),
            patch.object(HdfsFileIO, "exists", side_effect=[False, True]),
        ):
            there = root.replace(hdfs, f"hdfs://127.0.0.1:{proxy}")
            assert not open_file_io(there)[0].create_if_absent(f"{there}/snapshot-1", b"by me")
            assert sent
        assert [s.name for s in io.list_dir(root)] == ["snapshot-1"]
        assert io.read_bytes(f"{root}/snapshot-1") == b"by another"

    def test_blocks_and_permissions_follow_the_options(self, store: Store) -> None:
        options = {"dfs.blocksize": "1 mb", "fs.permissions.umask-mode": "002"}
        io, root = open_file_io(store[1], options)
        assert isinstance(io, HdfsFileIO)
        data = bytes(range(256)) * 10_000
        with io.open_output(f"{root}/d/f") as f:
            f.write(data)
        io.make_dirs(f"{root}/e")
        status = io.client.get_file_info(f"/{root.rsplit('/', 1)[1]}/d/f")
        assert (status.blocksize, status.permission) == (1024**2, 0o664)
        assert io.client.get_file_info(f"/{root.rsplit('/', 1)[1]}/e").permission == 0o775
        with io.open_input(f"{root}/d/f") as f:
            assert f.read_at(1000, 1024**2 - 500) == data[1024**2 - 500 :][:1000]
            assert f.read_at(100, len(data)) == b""
            f.seek(-3, 2)
            assert f.read(10) == data[-3:]

    def test_errors_are_typed_and_short(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        io, root = store
        io.write_bytes(f"{root}/f", b"f")
        monkeypatch.setenv("HADOOP_USER_NAME", "joe")
        other = pickle.loads(pickle.dumps(io))
        with pytest.raises(StorageAccessDenied, match="Permission denied: user=joe") as caught:
            other.write_bytes(f"{root}/g", b"g")
        assert "\n" not in caught.value.message
        assert not other.exists(f"{root}/f/g")
        with pytest.raises(IsADirectoryError):
            io.read_bytes(root)
        nowhere = open_file_io(
            f"hdfs://127.0.0.1:{free_port()}/w", {"dfs.client.failover.max.attempts": "1"}
        )
        with pytest.raises(StorageError, match="refused"):
            nowhere[0].list_dir(nowhere[1])
