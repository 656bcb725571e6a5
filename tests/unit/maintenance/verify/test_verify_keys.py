"""Keys in two buckets are found, and nothing else is taken for one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_line import caretaker
from lakes import ENV, Lake
from replay import run_step

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.errors import StorageError
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.table.open import open_table
from paimon_maintenance.verify import keys
from paimon_maintenance.verify.check import Scope, check_table
from paimon_maintenance.verify.findings import Finding, Problem, Severity

DYNAMIC = {"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "10"}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Two days of 30 keys in three buckets each, written twice."""
    lake.create(partitioned=True, options=DYNAMIC)
    lake.fill(2, rows=60)
    return lake


def found(table: FileStoreTable) -> list[Finding]:
    """Findings but for statistics: a copied file says something else of the partition."""
    return check_table(table, Scope(keys=True, rows=False)).findings


def live(table: FileStoreTable) -> list[ManifestEntry]:
    return scan_files(table, table.latest_or_not_found())


def copy_to(table: FileStoreTable, entry: ManifestEntry, place: tuple[bytes, int]) -> None:
    """Commit a file of one bucket in another as well, as a writer that remembers wrongly does."""
    partition, bucket = place
    source = Path(table.paths.data_file(entry.partition, entry.bucket, entry.file))
    file = replace(entry.file, file_name=f"data-{ENV.new_uuid()}-0{source.suffix}", level=0)
    target = Path(table.paths.data_file(partition, bucket, file))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    added = ManifestEntry(FileKind.ADD, partition, bucket, entry.total_buckets, file)
    request = CommitRequest(user=ENV.new_uuid(), kind=CommitKind.APPEND, check=False)
    commit_changes(table, lambda _: ManifestChanges(files=(added,)), request, env=ENV)


def test_a_sound_table_has_every_key_once(lake: Lake) -> None:
    result = check_table(lake.table(), Scope(keys=True))
    assert result.findings == []
    assert result.checked["keys"] == 120
    assert check_table(lake.table()).checked["keys"] == 0


def test_keys_that_cannot_be_compared_are_not_called_sound(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_SPILL_THRESHOLD_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    with pytest.raises(StorageError, match="a temporary file cannot be used"):
        check_table(lake.table(), Scope(keys=True))


def test_a_key_in_two_buckets_of_a_partition(lake: Lake) -> None:
    table = lake.table()
    entry = next(e for e in live(table) if e.bucket == 0)
    copy_to(table, entry, (entry.partition, 2))
    assert check_table(table).clean, "no metadata shows it"
    (finding,) = found(table)
    assert (finding.problem, finding.severity) == (Problem.KEY_IN_TWO_BUCKETS, Severity.ERROR)
    assert finding.message.startswith(
        f"{entry.file.row_count} keys of partition {finding.partition} are in more than one bucket"
    )
    assert "in bucket-0 and bucket-2" in finding.message
    assert finding.partition == table.paths.partition_path(entry.partition)
    ran = caretaker("verify", "db.t", "-w", lake.warehouse, "--keys")
    assert ran.code == 7
    assert "key_in_two_buckets" in ran.out
    assert caretaker("verify", "db.t", "-w", lake.warehouse).code == 0


def test_the_same_key_in_two_partitions_is_two_keys(lake: Lake) -> None:
    table = lake.table()
    entry, other = live(table)[0], live(table)[-1]
    assert entry.partition != other.partition
    copy_to(table, entry, (other.partition, 7))
    assert found(table) == []


def test_a_key_in_two_partitions_of_a_cross_partition_table(tmp_path: Path) -> None:
    at = {"warehouse": str(tmp_path), "database": "db", "table": "t"}
    columns = [
        {"name": "k", "type": "INT NOT NULL"},
        {"name": "v", "type": "STRING"},
        {"name": "dt", "type": "STRING NOT NULL"},
    ]
    steps: list[dict[str, Any]] = [
        {
            "op": "create_table",
            "columns": columns,
            "primary_keys": ["k"],
            "partition_keys": ["dt"],
            "options": DYNAMIC,
        },
        {"op": "write", "rows": [[i, "a", "x"] for i in range(25)]},
        # Every other key moves: a delete is left in its old place.
        {"op": "write", "rows": [[i, "b", "y"] for i in range(0, 25, 2)]},
    ]
    for step in steps:
        assert "error" not in run_step({**at, **step})
    table = open_table(str(tmp_path), "db.t")
    assert found(table) == []
    entry = next(e for e in live(table) if "dt=y" in table.paths.partition_path(e.partition))
    other = next(e for e in live(table) if e.partition != entry.partition)
    copy_to(table, entry, (other.partition, 9))
    (finding,) = found(table)
    assert finding.problem is Problem.KEY_IN_TWO_BUCKETS
    assert "dt=x/bucket-9" in finding.message
    assert f"dt=y/bucket-{entry.bucket}" in finding.message


def test_a_deleted_key_is_in_no_bucket(lake: Lake) -> None:
    """A delete of the key in one of the buckets leaves it in one place."""
    at = {"warehouse": str(lake.warehouse), "database": "db", "table": "t"}
    table = lake.table()
    moved = next(e for e in live(table) if e.bucket == 0)
    keys_there = pa.parquet.read_table(
        table.paths.data_file(moved.partition, moved.bucket, moved.file)
    ).to_pylist()
    day = table.paths.partition_values(moved.partition)["dt"]
    rows = [{"kind": "-D", "values": [r["_KEY_k"], None, day]} for r in keys_there]
    copy_to(table, moved, (moved.partition, 2))
    assert len(found(table)) == 1
    assert "error" not in run_step({**at, "op": "write", "rows": rows})
    assert found(table) == []


@pytest.mark.parametrize("memory", ["one spill file", "many spill files on disk"])
def test_memory_is_bounded_by_spill_files(
    memory: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory != "one spill file":
        monkeypatch.setattr(keys, "_KEYS_PER_SPILL_FILE", 7)
        monkeypatch.setattr(keys, "_SPILL_THRESHOLD_BYTES", 16)
    table = lake.table()
    for entry in [e for e in live(table) if e.bucket == 0]:
        copy_to(table, entry, (entry.partition, 5))
    count = sum(int(f.message.split()[0]) for f in found(table))
    assert count == 20, "ten keys of each day"


def test_equal_hashes_are_no_equal_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        keys, "wide_hash_rows", lambda columns, _: np.zeros(len(columns[0]), np.uint64)
    )
    assert found(lake.table()) == []
    entry = live(lake.table())[0]
    copy_to(lake.table(), entry, (entry.partition, 9))
    (finding,) = found(lake.table())
    assert finding.problem is Problem.KEY_IN_TWO_BUCKETS


def test_one_bucket_a_partition_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.create(partitioned=True, options=DYNAMIC)
    lake.fill(2, rows=10)
    lake.primary_key("db.fixed", buckets=3)
    lake.fill(2, rows=10, name="db.fixed")

    def unread(*_: object) -> None:
        raise AssertionError("a bucket was read")

    monkeypatch.setattr(keys, "read_bucket", unread)
    assert found(lake.table()) == []
    assert found(lake.table("db.fixed")) == []


def test_a_missing_file_is_a_finding_of_its_own(lake: Lake) -> None:
    table = lake.table()
    entry = live(table)[0]
    Path(table.paths.data_file(entry.partition, entry.bucket, entry.file)).unlink()
    assert {f.problem for f in found(table)} == {Problem.MISSING_DATA_FILE}


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_tables_of_java_have_every_key_once(version: str, golden: Callable[..., Any]) -> None:
    table = open_table(str(golden("dynamic_bucket", version).warehouse), "db.t")
    result = check_table(table, Scope(keys=True))
    assert result.findings == []
    assert result.checked["keys"] > 0
