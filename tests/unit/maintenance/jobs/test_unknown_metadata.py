"""Every job keeps the metadata of newer versions, or refuses the table by the field's name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import caretaker, in_order, read_rows
from evolving_tables import EVOLVING
from from_the_future import (
    FIELD,
    JSON_FIELD,
    JSON_VALUE,
    VALUE,
    add_everywhere,
    check_everywhere,
    json_files,
    names_in_metadata,
)
from lakes import Lake

from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.registry import JOBS

ROWS_STAY = True
ARGUMENTS: dict[str, tuple[tuple[Any, ...], bool]] = {
    "compact": (("--strategy", "full"), ROWS_STAY),
    "expire_snapshots": (
        ("--retain-max", 2, "--retain-min", 1, "--older-than", "2100-01-01"),
        ROWS_STAY,
    ),
    "expire_changelogs": (("--delete-all",), ROWS_STAY),
    "create_tag": (("--tag", "new", "--snapshot", 9, "--time-retained", "1 d"), ROWS_STAY),
    "replace_tag": (("--tag", "kept", "--snapshot", 11), ROWS_STAY),
    "rename_tag": (("--tag", "kept", "--target-tag", "renamed"), ROWS_STAY),
    "delete_tag": (("--tag", "kept"), ROWS_STAY),
    "expire_tags": (("--older-than", "2100-01-01"), ROWS_STAY),
    "trigger_tag_automatic_creation": (
        ("--option", "tag.automatic-creation=process-time"),
        ROWS_STAY,
    ),
    "expire_consumers": (("--expiration-time", "1 s"), ROWS_STAY),
    "reset_consumer": (("--consumer-id", "reader", "--next-snapshot-id", 3), ROWS_STAY),
    "clear_consumers": ((), ROWS_STAY),
    "expire_partitions": (
        (
            *("--expiration-time", "1 d", "--timestamp-formatter", "yyyy-MM-dd"),
            *("--timestamp-pattern", "$dt"),
        ),
        False,
    ),
    "drop_partition": (("--partition", "dt=2024-01-01"), False),
    "mark_partition_done": (("--partition", "dt=2024-01-01"), ROWS_STAY),
    "rescale": (("--bucket-num", 3), ROWS_STAY),
    "sort_compact": (("--order-strategy", "order", "--order-by", "k"), ROWS_STAY),
    "remove_orphan_files": (("--older-than", "2 d"), ROWS_STAY),
    "restore_orphan_files": (("--quarantine", "none"), ROWS_STAY),
    "purge_orphan_files": (("--quarantine", "none"), ROWS_STAY),
    "rollback": (("--tag", "kept"), False),
    "rollback_to_as_latest": (("--snapshot", 9), False),
    "create_branch": (("--branch-name", "new", "--tag", "kept"), ROWS_STAY),
    "rename_branch": (("--branch-name", "side", "--target-branch", "other"), ROWS_STAY),
    "delete_branch": (("--branch-name", "side"), ROWS_STAY),
    "fast_forward": (("--branch-name", "side"), False),
    "compact_manifest": ((), ROWS_STAY),
    "repair": ((), ROWS_STAY),
    "remove_unexisting_files": ((), ROWS_STAY),
    "analyze": (("--all-columns",), ROWS_STAY),
    "maintain": (("--compact", "minor"), ROWS_STAY),
    "create_global_index": (("--index-column", "v"), ROWS_STAY),
    "drop_global_index": (("--index-column", "v"), ROWS_STAY),
    "reassign_row_id": ((), ROWS_STAY),
}
"""Words for each job, and whether the newest rows stay the same."""
REFUSED = {
    "compact",
    "maintain",
    "rescale",
    "sort_compact",
    "compact_manifest",
    "rollback_to_as_latest",
    "reassign_row_id",
}
"""Jobs that rewrite data files, or write all manifests again."""


TABLES = {
    "sort_compact": "log",
    "expire_partitions": "days",
    "drop_partition": "days",
    "mark_partition_done": "days",
    "create_global_index": "parts",
    "drop_global_index": "parts",
    "reassign_row_id": "parts",
}
"""The table of a job, if it is not `t`."""
CHANGELOGS = {
    "changelog-producer": "input",
    "changelog.num-retained.min": "9",
    "changelog.num-retained.max": "9",
    "write-only": "true",
    "bucket": "1",
}
GOLDEN = Path(__file__).parents[3] / "golden" / "2.0.0" / "deletion_vectors" / "warehouse"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with vectors, statistics, tags, a branch and a consumer; one with partitions; a log."""
    warehouse = tmp_path_factory.mktemp("future") / "lake"
    shutil.copytree(GOLDEN, warehouse)
    lake = Lake(warehouse)
    table = lake.table()
    assert table.snapshots.get(table.snapshots.latest_id() or 0).index_manifest
    for words in (
        ("analyze",),
        ("create_tag", "--tag", "kept", "--snapshot", 10),
        ("create_tag", "--tag", "timed", "--snapshot", 11, "--time-retained", "400 d"),
        ("create_branch", "--branch-name", "side", "--tag", "timed"),
    ):
        assert _run(warehouse, *words) == ExitCode.SUCCESS
    table.consumers.set("reader", 2)
    lake.primary_key("db.days", partitioned=True)
    lake.create("db.parts", primary_key=False, partitioned=True, options=EVOLVING)
    lake.create("db.log", primary_key=False, options={"bucket": "-1", "write-only": "true"})
    for number in range(2):
        rows = {"k": [1, 2, 3 + number], "v": ["a", "b", "c"]}
        lake.append(rows, "db.log")
        lake.append({**rows, "dt": ["2024-01-01", "2024-01-01", "2090-01-01"]}, "db.days")
        lake.append({**rows, "dt": ["a", "a", "b"]}, "db.parts")
    return warehouse


def _run(warehouse: Path, job: str, *words: object) -> int:
    return caretaker("run", job, "db.t", "-w", warehouse, "--force", *words).code


def test_all_jobs_are_here() -> None:
    assert set(ARGUMENTS) == set(JOBS)


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("structures", ["all", "all, with nulls"])
@pytest.mark.parametrize("job", sorted(JOBS))
def test_jobs_keep_unknown_fields(made: Path, tmp_path: Path, job: str, structures: str) -> None:
    shutil.copytree(made, tmp_path / "lake")
    name = TABLES.get(job, "t")
    root = tmp_path / "lake" / "db.db" / name
    everywhere = structures == "all"
    add_everywhere(root, value=VALUE if everywhere else None)
    old = names_in_metadata(root)
    words, rows_stay = ARGUMENTS[job]
    rows = _rows(tmp_path / "lake", name)
    local = ("--engine", "local") if JOBS[job].rewrites else ()
    ran = caretaker(
        "run", job, f"db.{name}", "-w", tmp_path / "lake", "--force", "--json", *local, *words
    )
    check_everywhere(root, lists=everywhere, entries=everywhere, old=old)
    if everywhere and job in REFUSED:
        assert ran.code == ExitCode.REFUSED, ran.err
        assert FIELD in ran.json["error"]["message"]
        return
    if job in {"restore_orphan_files", "purge_orphan_files"}:
        assert ran.code == ExitCode.USAGE, ran.err
        return
    assert ran.code in {ExitCode.SUCCESS, ExitCode.NOTHING_TO_DO}, ran.err
    if rows_stay:
        assert _rows(tmp_path / "lake", name) == rows
    assert caretaker("verify", f"db.{name}", "-w", tmp_path / "lake").code == 0


def _rows(warehouse: Path, name: str) -> list[list[Any]]:
    if name == "t":
        return read_rows(warehouse)
    return in_order(caretaker("read", f"db.{name}", "-w", warehouse).rows)


def test_statistics_and_changelogs_are_among_the_structures(made: Path, tmp_path: Path) -> None:
    assert any(p.parent.name == "statistics" for p in json_files(made / "db.db" / "t"))
    lake = Lake(tmp_path / "lake")
    lake.create("db.c", options=CHANGELOGS)
    for number in range(5):
        lake.append({"k": [1, 2], "v": [f"a{number}", "b"]}, "db.c")
    root = tmp_path / "lake" / "db.db" / "c"
    add_everywhere(root)
    old = names_in_metadata(root)
    rows = _rows(tmp_path / "lake", "c")
    for words, left in (
        (("expire_snapshots", "--retain-max", 2, "--retain-min", 2), [1, 2, 3]),
        (("expire_changelogs", "--retain-max", 4, "--retain-min", 4), [2, 3]),
    ):
        older = ("--older-than", "2100-01-01", "--force")
        ran = caretaker("run", words[0], "db.c", "-w", tmp_path / "lake", *words[1:], *older)
        assert ran.code == ExitCode.SUCCESS, ran.err
        found = [p.name for p in json_files(root) if p.parent.name == "changelog"]
        assert sorted(found) == [f"changelog-{n}" for n in left]
        check_everywhere(root, lists=True, entries=True, old=old)
        assert _rows(tmp_path / "lake", "c") == rows


def test_rows_of_writers_are_refused_by_the_snapshots_field(made: Path, tmp_path: Path) -> None:
    from paimon_core.errors import UnsupportedFeature

    shutil.copytree(made, tmp_path / "lake")
    root = tmp_path / "lake" / "db.db" / "log"
    lake = Lake(tmp_path / "lake")
    add_everywhere(root, lists=False, entries=False)
    before = sorted(p.name for p in root.rglob("snapshot-*"))
    with pytest.raises(UnsupportedFeature, match=JSON_FIELD):
        lake.append({"k": [9], "v": ["x"]}, "db.log")
    assert sorted(p.name for p in root.rglob("snapshot-*")) == before


def test_fields_of_one_commit_are_neither_carried_nor_refused(made: Path, tmp_path: Path) -> None:
    import json

    shutil.copytree(made, tmp_path / "lake")
    root = tmp_path / "lake" / "db.db" / "log"
    path = root / "snapshot" / "snapshot-2"
    content = json.loads(path.read_text())
    old = {"uuid": "u", "operation": "WRITE", "writerVersion": "2.1", "logOffsets": {}}
    path.write_text(json.dumps(content | old))
    Lake(tmp_path / "lake").append({"k": [9], "v": ["x"]}, "db.log")
    new = json.loads((root / "snapshot" / "snapshot-3").read_text())
    assert new.keys() - content.keys() == {"uuid"}
    assert new["uuid"] != "u"


def test_schema_changes_keep_unknown_fields(made: Path, tmp_path: Path) -> None:
    import json

    from paimon_core.catalog.filesystem import FileSystemCatalog
    from paimon_core.ddl.schema_change import AddColumn, SetOption
    from paimon_core.types.sql import parse_type

    shutil.copytree(made, tmp_path / "lake")
    root = tmp_path / "lake" / "db.db" / "t"
    add_everywhere(root)
    catalog = FileSystemCatalog(str(tmp_path / "lake"))
    catalog.alter_table(
        "db.t",
        [AddColumn(("extra",), parse_type("INT")), SetOption("num-levels", "6")],
        now_millis=1,
    )
    new = max((p for p in json_files(root) if p.parent == root / "schema"), key=lambda p: p.name)
    content = json.loads(new.read_text())
    assert content["id"] == 1
    assert content[JSON_FIELD] == JSON_VALUE
    assert [f.get(JSON_FIELD) for f in content["fields"]] == [JSON_VALUE] * 4 + [None]
