"""Metadata of versions and kinds that are not known stops reading and every job, by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from avro_fields import add_fields
from command_line import caretaker

from paimon_maintenance.job.exit_codes import ExitCode

GOLDEN = Path(__file__).parents[3] / "golden" / "2.0.0" / "deletion_vectors" / "warehouse"


def _json(folder: str, name: str, **fields: Any) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = root / folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change


def _avro(prefix: str, **fields: Any) -> Callable[[Path], None]:
    def set_fields(records: list[dict[str, Any]]) -> None:
        for record in records:
            record.update(fields)

    def change(root: Path) -> None:
        for path in (root / "manifest").glob(f"{prefix}-*"):
            if prefix != "manifest" or not path.name.startswith("manifest-list-"):
                path.write_bytes(add_fields(path, {}, change=set_fields))

    return change


CHANGES = {
    "snapshot version 4": _json("snapshot", "snapshot-12", version=4),
    "commit kind REWRITE": _json("snapshot", "snapshot-12", commitKind="REWRITE"),
    "schema version 4": _json("schema", "schema-0", version=4),
    "manifest lists of version 3": _avro("manifest-list", _VERSION=3),
    "manifest entries of version 3": _avro("manifest", _VERSION=3),
    "manifest entries of kind 2": _avro("manifest", _KIND=2),
    "index manifests of version 2": _avro("index-manifest", _VERSION=2),
    "index type FUTURE": _avro("index-manifest", _INDEX_TYPE="FUTURE"),
}
COMMANDS: tuple[tuple[Any, ...], ...] = (
    ("read",),
    ("compact", "--strategy", "full"),
    ("expire_snapshots", "--retain-max", 1, "--retain-min", 1, "--older-than", "2100-01-01"),
    ("remove_orphan_files", "--older-than", "0 s", "--allow-young"),
    ("rollback", "--snapshot", 10),
)
UNTOUCHED_BY_INDEX_TYPES = {"expire_snapshots", "remove_orphan_files", "rollback"}


@pytest.mark.parametrize("what", CHANGES)
def test_they_are_refused_and_nothing_changes(tmp_path: Path, what: str) -> None:
    root = tmp_path / "lake" / "db.db" / "t"
    shutil.copytree(GOLDEN, tmp_path / "lake")
    CHANGES[what](root)
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    for words in COMMANDS:
        at = ("db.t", "-w", tmp_path / "lake")
        if words[0] == "read":
            ran = caretaker("read", *at)
        else:
            local = ("--engine", "local") if words[0] == "compact" else ()
            ran = caretaker("run", words[0], *at, "--force", *local, *words[1:])
        if what.startswith("index type") and words[0] in UNTOUCHED_BY_INDEX_TYPES:
            continue  # index files are kept and deleted by their names
        assert ran.code == ExitCode.REFUSED, (words, ran.code, ran.err)
        assert what in ran.err, words
        assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before, words
