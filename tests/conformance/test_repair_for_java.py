"""Tables that were repaired here read the same in Java, which goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, in_order, read_rows

from oracle import Oracle
from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import system_environment
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import CommitKind
from paimon_core.snapshot.snapshot_json import snapshot_to_json
from paimon_core.table.open import open_table
from paimon_maintenance.verify.check import check_table
from paimon_maintenance.verify.findings import Problem

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]


def lose_a_file(table: FileStoreTable) -> None:
    entry = scan_files(table, table.latest_or_not_found())[0]
    Path(table.paths.data_file(entry.partition, entry.bucket, entry.file)).unlink()


def overlap(table: FileStoreTable) -> None:
    files = scan_files(table, table.latest_or_not_found())
    up = [replace(e, file=e.file.upgraded(3)) for e in files]
    commit_changes(
        table,
        lambda _: ManifestChanges((*(e.as_delete() for e in files), *up)),
        CommitRequest(user="broken", kind=CommitKind.COMPACT, check=False),
        env=system_environment(),
    )


def wrong_sizes(table: FileStoreTable) -> None:
    snapshot = table.latest_or_not_found()
    wrong = replace(snapshot, base_manifest_list_size=9, delta_manifest_list_size=9)
    Path(table.paths.snapshot(snapshot.id)).write_text(snapshot_to_json(wrong))


def wrong_hints(table: FileStoreTable) -> None:
    Path(table.paths.snapshot_dir, "EARLIEST").write_text("3")


def unreadable_newest(table: FileStoreTable) -> None:
    Path(table.paths.snapshot(table.latest_or_not_found().id)).write_text("{")


CASES: dict[str, tuple[Callable[[FileStoreTable], None], str]] = {
    "lost_file": (lose_a_file, "remove_unexisting_files"),
    "overlap": (overlap, "move_down"),
    "sizes": (wrong_sizes, "correct_sizes"),
    "hints": (wrong_hints, "rewrite_hint"),
    "newest": (unreadable_newest, "delete_reference"),
}


@pytest.mark.parametrize("case", CASES)
def test_java_reads_the_same_and_goes_on(case: str, oracle: Oracle, tmp_path: Path) -> None:
    breaks, name = CASES[case]
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    writes: list[dict[str, Any]] = [
        {"op": "write", "rows": [[i, f"{n}"] for i in range(n, n + 5)]} for n in range(4)
    ]
    options = {"bucket": "1", "write-only": "true"}
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}
    oracle([create, *writes])
    breaks(open_table(str(tmp_path), "db.t"))
    ran = caretaker("run", "repair", "db.t", "-w", tmp_path, "--repair", name, "--engine", "local")
    assert ran.code == 0, ran.err
    ours = read_rows(tmp_path)
    assert ours
    assert in_order(oracle.rows()) == ours
    ids = [s["id"] for s in oracle.one("snapshots")["snapshots"]]
    if case != "lost_file":
        for snapshot in ids:
            wanted = read_rows(tmp_path, "--snapshot", snapshot)
            assert in_order(oracle.rows(snapshot=snapshot)) == wanted
    oracle([{"op": "write", "rows": [[99, "x"]]}, {"op": "compact", "full": True}])
    after = in_order(oracle.rows())
    assert after == read_rows(tmp_path)
    assert len(after) == len(ours) + 1


def test_vectors_of_lost_files_go_along(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}
    many = [[i, "old"] for i in range(200)]
    steps: list[dict[str, Any]] = [
        create,
        {"op": "write", "rows": many},
        {"op": "compact", "full": True},
        {"op": "write", "rows": [[i, "new"] for i in range(5)]},
        {"op": "compact", "full": False},
    ]
    oracle(steps)
    table = open_table(str(tmp_path), "db.t")
    latest = table.latest_or_not_found()
    vectors = {
        r.data_file
        for e in table.index_entries(latest)
        if e.index_file.index_type == DELETION_VECTORS_INDEX
        for r in e.index_file.dv_ranges or ()
    }
    lost = next(e for e in scan_files(table, latest) if e.file.file_name in vectors)
    Path(table.paths.data_file(lost.partition, lost.bucket, lost.file)).unlink()
    words = ("run", "remove_unexisting_files", "db.t", "-w", tmp_path, "--engine", "local")
    ran = caretaker(*words, "--force")
    assert ran.code == 0, ran.err
    newest = table.latest_or_not_found().id
    assert [f for f in check_table(table).findings if f.snapshot == newest] == []
    ours = read_rows(tmp_path)
    assert in_order(oracle.rows()) == ours
    assert len(ours) == 5


def test_files_that_java_did_not_see_are_seen_after_merging_manifests(
    oracle: Oracle, tmp_path: Path
) -> None:
    oracle.defaults(warehouse=str(tmp_path), database="db", table="t")
    options = {"bucket": "1", "write-only": "true"}
    create = {"op": "create_table", "columns": COLUMNS, "primary_keys": ["k"], "options": options}
    oracle([create, {"op": "write", "rows": [[1, "a"]]}, {"op": "write", "rows": [[2, "b"]]}])
    table = open_table(str(tmp_path), "db.t")
    entry = scan_files(table, table.latest_or_not_found())[0]
    for number, changes in enumerate(
        (ManifestChanges((entry.as_delete(),)), ManifestChanges((entry,)))
    ):
        commit_changes(
            table,
            lambda _, changes=changes: changes,
            CommitRequest(user=f"u{number}", kind=CommitKind.OVERWRITE),
            env=system_environment(),
        )
    assert [f.problem for f in check_table(table).findings] == [Problem.HIDDEN_FILE]
    assert len(oracle.rows()) == 1
    ran = caretaker("run", "compact_manifest", "db.t", "-w", tmp_path, "--engine", "local")
    assert ran.code == 0, ran.err
    assert in_order(oracle.rows()) == read_rows(tmp_path) == [["+I", 1, "a"], ["+I", 2, "b"]]


@pytest.mark.parametrize("data_format", ["orc", "parquet", "avro"])
def test_short_texts_of_fixed_length_are_sound(
    data_format: str, oracle: Oracle, tmp_path: Path
) -> None:
    """Java's bounds of CHAR columns in ORC are filled up with blanks, its values are not."""
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one("create_database")
    columns = [COLUMNS[0], {"name": "c", "type": "CHAR(5)"}]
    options = {"bucket": "1", "write-only": "true", "file.format": data_format}
    oracle.one("create_table", columns=columns, primary_keys=["k"], options=options)
    oracle.one("write", rows=[[1, "ab"], [2, "abc"], [3, "a c e"]])
    oracle.one("write", rows=[[1, "x  "], [2, ""]])
    assert check_table(open_table(str(tmp_path), "db.t")).findings == []
    assert caretaker("run", "compact", "db.t", "-w", tmp_path, "--engine", "local").code == 0
    assert read_rows(tmp_path) == oracle.rows()
    assert check_table(open_table(str(tmp_path), "db.t")).findings == []
