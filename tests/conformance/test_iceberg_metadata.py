"""Iceberg metadata: ours and Java's on one table, read by pyiceberg."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker
from iceberg_reader import (
    entries,
    iceberg_rows,
    manifests,
    metadata,
    newest,
    records,
    schema_text,
    unreferenced,
)
from replay import run_step

from oracle import Oracle
from paimon_core.commit.iceberg import publish as iceberg_publish
from paimon_core.errors import StorageError
from paimon_core.iceberg.store import IcebergStore
from paimon_core.index.deletion_vectors import read_deletion_vectors
from paimon_core.table.open import open_table

COLUMNS = [
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "STRING"},
    {"name": "dt", "type": "STRING NOT NULL"},
]
TYPES = {
    "b": ("BOOLEAN", True),
    "t": ("TINYINT", -7),
    "s": ("SMALLINT", 300),
    "i": ("INT", -1),
    "l": ("BIGINT", 1 << 40),
    "f": ("FLOAT", 0.5),
    "d": ("DOUBLE", -2.25),
    "n": ("DECIMAL(10, 2)", "-1.28"),
    "w": ("DECIMAL(30, 5)", "123456789012345678.12345"),
    "day": ("DATE", "2024-02-29"),
    "ms": ("TIMESTAMP(3)", "2024-02-29T12:34:56.789"),
    "us": ("TIMESTAMP(6)", "2024-02-29T12:34:56.789123"),
    "z": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "2024-02-29T12:34:56.789123Z"),
    "c": ("CHAR(3)", "äbc"),
    "x": ("BYTES", "00ff"),
    "a": ("ARRAY<INT>", [1, None]),
    "m": ("MAP<STRING, ARRAY<INT>>", [["k", [1]]]),
    "r": ("ROW<x INT, y ARRAY<STRING>>", {"x": 1, "y": ["s"]}),
}
BOUNDS = ("lower_bounds", "upper_bounds")
BYTES_ID = [*TYPES].index("x") + 1
"""Java 2.0 has bounds of bytes in its statistics, 1.4.2 and ours do not."""
ICEBERG = {"metadata.iceberg.storage": "table-location"}


class Shared:
    """One table that both write: steps by `java` and by `ours`."""

    def __init__(self, oracle: Oracle, warehouse: Path, name: str = "t") -> None:
        self.at = {"warehouse": str(warehouse), "database": "db", "table": name}
        self.warehouse = warehouse
        self.oracle = oracle
        self.root = warehouse / "db.db" / name
        self.folder = self.root / "metadata"

    def java(self, op: str, **fields: Any) -> dict[str, Any]:
        (answer,) = self.oracle([{"op": op, **self.at, **fields}])
        return answer

    def ours(self, op: str, **fields: Any) -> dict[str, Any]:
        result = run_step({"op": op, **self.at, **fields})
        assert "error" not in result, result
        return result

    def job(self, *words: object) -> None:
        ran = caretaker("run", words[0], f"db.{self.at['table']}", "-w", self.warehouse, *words[1:])
        assert ran.code in (0, 3), ran.err  # 3: nothing to do

    def rows(self) -> list[tuple[Any, ...]]:
        """Ours, which must be Java's."""
        found = [tuple(r[1:]) for r in self.ours("read")["rows"]]
        assert found == [tuple(r[1:]) for r in self.java("read")["rows"]]
        return sorted(found, key=repr)

    def check(self) -> None:
        """All three readers see the same rows, and no file is left over."""
        assert iceberg_rows(self.folder) == self.rows()
        assert unreferenced(self.folder) == set()


@pytest.fixture
def shared(oracle: Oracle, tmp_path: Path) -> Shared:
    return Shared(oracle, tmp_path / "lake")


def made(
    shared: Shared, *, keys: list[str] | None = None, by: str = "java", **options: str
) -> Shared:
    create = shared.java if by == "java" else shared.ours
    shared.java("create_database")
    create(
        "create_table",
        columns=COLUMNS,
        partition_keys=["dt"],
        primary_keys=keys or [],
        options=ICEBERG | {k.replace("__", "-"): v for k, v in options.items()},
    )
    return shared


def test_append_table_by_turns(shared: Shared) -> None:
    made(shared, bucket="-1")
    shared.java("write", rows=[[1, "a", "x"], [2, "b", "y"]])
    shared.ours("write", rows=[[3, None, "x"]])
    shared.check()
    shared.java("write", rows=[[4, "d", "z"]])
    shared.check()
    shared.ours("drop_partition", partitions=[{"dt": "y"}])
    shared.check()
    shared.java("alter_table", changes=[{"change": "add_column", "name": "n", "type": "BIGINT"}])
    shared.java("alter_table", changes=[{"change": "rename_column", "name": "v", "to": "text"}])
    shared.ours("write", rows=[[5, "e", "x", 7]])
    shared.check()
    shared.ours("compact", full=True, options={"compaction.min.file-num": "2"})
    shared.check()
    shared.java("overwrite", partition={"dt": "z"}, rows=[[6, "f", "z", None]])
    shared.check()
    shared.ours("overwrite", partition={"dt": "x"}, rows=[[7, "g", "x", 1]])
    shared.check()
    assert iceberg_rows(shared.folder, where="dt = 'z'") == [(6, "f", "z", None)]
    assert iceberg_rows(shared.folder, where="k > 6") == [(7, "g", "x", 1)]
    shared.job("compact_manifest")
    shared.check()
    shared.ours("truncate")
    assert iceberg_rows(shared.folder) == []
    shared.java("write", rows=[[8, "h", "x", 1]])
    shared.check()


def test_primary_keys_by_turns(shared: Shared) -> None:
    """Iceberg sees the rows of the last full compaction."""
    made(shared, keys=["k", "dt"], bucket="2")
    shared.java("write", rows=[[k, "java", "xy"[k % 2]] for k in range(20)])
    shared.ours("compact", full=True)
    shared.check()
    shared.ours("write", rows=[[k, "ours", "xy"[k % 2]] for k in range(5, 25)])
    shared.java("compact", full=True)
    shared.check()
    shared.ours("write", rows=[{"kind": "-D", "values": [k, "", "xy"[k % 2]]} for k in range(7)])
    before = iceberg_rows(shared.folder)
    assert len(before) == 25
    shared.ours("compact", full=True)
    shared.check()
    assert len(iceberg_rows(shared.folder)) == 18
    shared.ours("overwrite", partition={"dt": "x"}, rows=[[100, "over", "x"]])
    shared.java("compact", full=True)
    shared.check()


@pytest.mark.parametrize("version", ["2", "3"])
def test_all_types_as_java(oracle_2_0_0: Oracle, tmp_path: Path, version: str) -> None:
    """Metadata of the same commits is the same, but for names, times and sizes."""
    columns = [{"name": "k", "type": "INT NOT NULL"}] + [
        {"name": n, "type": t, "comment": f"column {n}"} for n, (t, _) in TYPES.items()
    ]
    rows = [[1, *(v for _, v in TYPES.values())], [2, *(None for _ in TYPES)]]
    tables = {}
    for who in ("java", "ours"):
        table = tables[who] = Shared(oracle_2_0_0, tmp_path / who)
        act: Callable[..., Any] = table.java if who == "java" else table.ours
        act("create_database")
        act(
            "create_table",
            columns=columns,
            partition_keys=["day", "n"],
            options=ICEBERG | {"metadata.iceberg.format-version": version},
        )
        for row in rows[:1] * 2:
            act("write", rows=[row])
        act("create_tag", name="t1", snapshot=1)
        act("drop_partition", partitions=[{"day": "2024-02-29"}])
        act("write", rows=[rows[0]])
    java, ours = tables["java"], tables["ours"]
    assert _plain(metadata(ours.folder)) == _plain(metadata(java.folder))
    assert list(metadata(ours.folder)) == list(metadata(java.folder))
    for one, other in zip(manifests(ours.folder), manifests(java.folder), strict=True):
        assert _plain(one) == _plain(other)
        paths = Path(one["manifest_path"]), Path(other["manifest_path"])
        assert schema_text(paths[0]) == schema_text(paths[1])
        for mine, theirs in zip(*map(records, paths), strict=True):
            assert _plain(mine) == _plain(theirs)
    lists = [Path(metadata(t.folder)["snapshots"][-1]["manifest-list"]) for t in (ours, java)]
    assert schema_text(lists[0]) == schema_text(lists[1])
    assert iceberg_rows(ours.folder) == iceberg_rows(java.folder)
    assert len(iceberg_rows(ours.folder)) == 1


def _plain(value: Any, key: str = "") -> Any:
    """Without what differs from commit to commit."""
    if isinstance(value, dict):
        return {k: _plain(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value if key not in BOUNDS or v["key"] != BYTES_ID]
    varying = (
        "path",
        "length",
        "manifest-list",
        "location",
        "uuid",
        "-ms",
        "size_in_bytes",
        "size",
    )
    return None if key.endswith(varying) and key != "max-ref-age-ms" else value


def test_tags_and_expiry(shared: Shared) -> None:
    made(
        shared, bucket="-1", **{"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    )
    shared.java("write", rows=[[1, "a", "x"]], options={"snapshot.num-retained.max": "9"})
    shared.job("create_tag", "--tag", "ours", "--snapshot", 1)
    shared.java("create_tag", name="java", snapshot=1)
    assert {n: r["snapshot-id"] for n, r in metadata(shared.folder)["refs"].items()} == {
        "ours": 1,
        "java": 1,
    }
    shared.job("rename_tag", "--tag", "java", "--target-tag", "renamed")
    assert set(metadata(shared.folder)["refs"]) == {"ours", "renamed"}
    shared.ours("write", rows=[[2, "b", "x"]])
    assert set(metadata(shared.folder)["refs"]) == {"ours", "renamed"}
    assert iceberg_rows(shared.folder, snapshot=1) == [(1, "a", "x")]
    shared.job("delete_tag", "--tag", "renamed")
    assert set(metadata(shared.folder)["refs"]) == {"ours"}
    for k in range(3, 8):
        (shared.ours if k % 2 else shared.java)("write", rows=[[k, "c", "x"]])
        shared.check()
    found = metadata(shared.folder)
    assert [s["snapshot-id"] for s in found["snapshots"]] == [5, 6, 7]
    assert found["refs"] == {}
    shared.job("expire_snapshots", "--retain-max", 1, "--retain-min", 1, "--older-than", "0 s")
    shared.job("remove_orphan_files", "--older-than", "0 s", "--allow-young")
    shared.check()
    shared.java("write", rows=[[9, "c", "x"]])
    shared.check()


def test_interrupted_commits_heal(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit without metadata: readers see the one before, the next commit writes it all."""
    made(shared, bucket="-1")
    shared.ours("write", rows=[[1, "a", "x"]])
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise StorageError("no")

        patch.setattr(IcebergStore, "write_metadata", fail)
        shared.ours("write", rows=[[2, "b", "x"]])
    assert iceberg_rows(shared.folder) == [(1, "a", "x")]
    shared.java("write", rows=[[3, "c", "x"]])
    assert iceberg_rows(shared.folder) == shared.rows()
    with monkeypatch.context() as patch:
        patch.setattr(IcebergStore, "write_list", fail)
        shared.ours("write", rows=[[4, "d", "x"]])
    shared.ours("write", rows=[[5, "e", "x"]])
    assert iceberg_rows(shared.folder) == shared.rows()
    for damaged in ("v5.metadata.json", Path(manifests(shared.folder)[0]["manifest_path"]).name):
        (shared.folder / damaged).write_bytes(b"{")
        shared.ours("write", rows=[[6, "f", "x"]])
        assert iceberg_rows(shared.folder) == shared.rows()


def test_a_rollback_shows_the_old_rows(shared: Shared) -> None:
    made(shared, bucket="-1")
    for k in range(1, 5):
        shared.ours("write", rows=[[k, "a", "x"]])
    shared.job("rollback", "--snapshot", 2, "--safety-tag", "0 s")
    shared.check()
    shared.java("write", rows=[[10, "java", "x"]])
    shared.check()
    shared.java("rollback_to", snapshot=2)
    shared.ours("write", rows=[[11, "ours", "x"]])
    shared.ours("write", rows=[[12, "ours", "x"]])
    shared.check()


def test_manifests_are_compacted(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_publish, "SETTLED_MILLIS", 0)
    made(
        shared,
        bucket="-1",
        **{
            "metadata.iceberg.compaction.min.file-num": "3",
            "metadata.iceberg.compaction.max.file-num": "4",
            "metadata.iceberg.previous-versions-max": "2",
            "metadata.iceberg.manifest-legacy-version": "true",
            "metadata.iceberg.manifest-compression": "zstd",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "2",
        },
    )
    for k in range(12):
        (shared.ours if k % 3 else shared.java)("write", rows=[[k, "v", "xyz"[k % 3]]])
        assert len(manifests(shared.folder)) <= 4
    shared.ours("drop_partition", partitions=[{"dt": "y"}])
    shared.check()
    versions = {p.name for p in shared.folder.glob("v*.metadata.json")}
    assert versions == {f"v{n}.metadata.json" for n in (11, 12, 13)}


def test_hadoop_catalog_and_a_table_created_again(shared: Shared) -> None:
    made(shared, bucket="-1", by="ours", **{"metadata.iceberg.storage": "hadoop-catalog"})
    shared.folder = shared.warehouse / "iceberg" / "db" / "t" / "metadata"
    shared.ours("write", rows=[[1, "a", "x"]])
    shared.java("write", rows=[[2, "b", "x"]])
    shared.ours("write", rows=[[3, "c", "x"]])
    shared.check()
    shared.java("drop_table")
    made(shared, bucket="-1", by="ours", **{"metadata.iceberg.storage": "hadoop-catalog"})
    shared.ours("write", rows=[[7, "new", "x"]])
    shared.check()
    assert newest(shared.folder).name == "v1.metadata.json"


def test_deletion_vectors(oracle_2_0_0: Oracle, tmp_path: Path) -> None:
    """Format version 3: the vectors are those that Java names, in Iceberg's own encoding."""
    shared = made(
        Shared(oracle_2_0_0, tmp_path / "lake"),
        keys=["k", "dt"],
        bucket="1",
        **{
            "metadata.iceberg.format-version": "3",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": "true",
        },
    )
    shared.java("write", rows=[[k, "java", "x"] for k in range(50)])
    shared.ours("write", rows=[[k, "ours", "x"] for k in range(0, 50, 7)])
    shared.ours("compact", full=False)
    shared.java("write", rows=[[3, "java", "x"]])
    shared.ours("write", rows=[[4, "ours", "x"]])
    shared.ours("compact", full=False)
    ours = [e["data_file"] for e in entries(shared.folder, content=1)]
    assert ours
    live = {
        e["data_file"]["file_path"]: e["data_file"]["record_count"] for e in entries(shared.folder)
    }
    deleted = {v["referenced_data_file"]: v["record_count"] for v in ours}
    assert set(deleted) <= set(live)
    assert sum(live.values()) - sum(deleted.values()) == len(shared.rows()) == 50
    table = open_table(str(shared.warehouse), "db.t")
    for entry in table.index_entries(table.latest_or_not_found()):
        path = str(shared.root / "index" / entry.index_file.file_name)
        positions = read_deletion_vectors(table.io, path, entry.index_file)
        for vector in (v for v in ours if v["file_path"] == path):
            block = Path(path).read_bytes()[vector["content_offset"] :]
            block = block[: vector["content_size_in_bytes"]]
            assert int.from_bytes(block[:4], "big") == len(block) - 8
            assert block[4:8] == bytes.fromhex("d1d33964")  # Iceberg's `deletion-vector-v1`
            name = Path(vector["referenced_data_file"]).name
            assert len(positions[name]) == vector["record_count"]
    for version in shared.folder.glob("v*.metadata.json"):
        version.unlink()
    shared.java("write", rows=[[60, "java", "y"]], compact=False)  # Java describes all of it
    java = [e["data_file"] for e in entries(shared.folder, content=1)]
    # Java does not know the size of the index file there.
    assert _by_file([v | {"file_size_in_bytes": -1} for v in ours]) == _by_file(java)


def _by_file(vectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(vectors, key=lambda v: v["referenced_data_file"])


def test_a_moved_table_is_described_again(shared: Shared) -> None:
    made(shared, bucket="-1")
    shared.ours("write", rows=[[1, "a", "x"]])
    moved = Shared(shared.oracle, shared.warehouse, "u")
    shutil.move(shared.root, moved.root)
    moved.ours("write", rows=[[2, "b", "x"]])
    moved.check()


def test_both_at_once(shared: Shared) -> None:
    made(shared, bucket="-1")
    shared.java("write", rows=[[0, "java", "x"]])

    def java() -> None:
        for k in range(1, 9):
            shared.java("write", rows=[[k, "java", "x"]])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(java)
        for k in range(100, 112):
            shared.ours("write", rows=[[k, "ours", "y"]])
        writing.result()
    shared.ours("write", rows=[[200, "ours", "y"]])
    assert iceberg_rows(shared.folder) == shared.rows()
    shared.java("write", rows=[[201, "java", "x"]])
    assert iceberg_rows(shared.folder) == shared.rows()
    assert len(shared.rows()) == 23
