"""Java reads manifests that we rewrote with fields of a later version, and goes on."""

from __future__ import annotations

from pathlib import Path

from avro_fields import add_fields, values_of
from command_line import caretaker, read_rows
from from_the_future import add_everywhere, names_in_metadata

from oracle import Oracle
from paimon_maintenance.job.exit_codes import ExitCode

COLUMNS = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]


def test_java_reads_merged_manifests_and_commits_after_them(oracle: Oracle, tmp_path: Path) -> None:
    oracle.defaults(warehouse=tmp_path, database="db", table="t")
    oracle.one("create_database")
    options = {"bucket": "1", "write-only": "true"}
    oracle.one("create_table", columns=COLUMNS, primary_keys=["k"], options=options)
    for i in range(3):
        oracle.one("write", rows=[[i, f"v{i}"], [100, f"w{i}"]])
    root = tmp_path / "db.db" / "t"
    add_everywhere(root, lists=False)
    for path in (root / "manifest").glob("manifest-*-0"):
        if not path.name.startswith("manifest-list-"):
            path.write_bytes(add_fields(path, {"_REQUIRED": ("long", 7)}, record=("_FILE",)))
    old = names_in_metadata(root)
    oracle.one("write", rows=[[7, "java"]])
    rows = oracle.rows()
    ran = caretaker("run", "compact_manifest", "db.t", "-w", tmp_path)
    assert ran.code == ExitCode.SUCCESS, ran.err
    (merged,) = [m["file"] for m in _base_manifests(oracle)]
    values = dict(
        zip(
            values_of(root / "manifest" / merged, "_FILE", "_FILE_NAME"),
            values_of(root / "manifest" / merged, "_FILE", "_REQUIRED"),
            strict=True,
        )
    )
    assert {name in old: value for name, value in values.items()} == {True: 7, False: None}
    assert oracle.rows() == rows == read_rows(tmp_path)
    oracle.one("write", rows=[[8, "java"]])
    oracle.one("compact")
    assert oracle.rows() == read_rows(tmp_path)
    assert len(oracle.rows()) == len(rows) + 1


def _base_manifests(oracle: Oracle) -> list[dict[str, str]]:
    latest = max(s["id"] for s in oracle.one("snapshots")["snapshots"])
    found: list[dict[str, str]] = oracle.one("manifests", snapshot=latest)["base"]["manifests"]
    return found
