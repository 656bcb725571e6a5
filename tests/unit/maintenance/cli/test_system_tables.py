"""`caretaker read 'db.t$snapshots'`: names, columns, conditions."""

from __future__ import annotations

import pytest
from command_line import caretaker
from lakes import Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.ddl.schema_change import change_from_object
from paimon_core.refs.tags import Tag
from paimon_core.table.system.read import SYSTEM_TABLES, VIEWS


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.primary_key("db.t", partitioned=True)
    lake.fill(3)
    lake.table().branches.create("b")
    return lake


@pytest.mark.parametrize("name", sorted({*SYSTEM_TABLES, *VIEWS} - {"row_tracking"}))
def test_every_system_table_can_be_read(lake: Lake, name: str) -> None:
    ran = caretaker("read", f"db.t${name}", "-w", lake.warehouse)
    assert ran.code == 0, ran.err
    assert bool(ran.rows) == (
        name not in ("tags", "consumers", "statistics", "table_indexes", "ro")
    )
    assert caretaker("read", f"db.t$branch_b${name}", "-w", lake.warehouse).code == 0


@pytest.mark.parametrize("name", ["files", "file_key_ranges", "statistics"])
def test_values_are_not_shown_where_rows_may_be_hidden(lake: Lake, name: str) -> None:
    ran = caretaker(
        "read", f"db.t${name}", "-w", lake.warehouse, "--option", "query-auth.enabled=true"
    )
    assert (ran.code, ran.out) == (4, "")
    assert "query-auth.enabled" in ran.err


def test_views_show_sequence_numbers_on_request(lake: Lake) -> None:
    def read(view: str, *words: object) -> list[list[object]]:
        number = ("--option", "table-read.sequence-number.enabled=true")
        ran = caretaker("read", f"db.t${view}", "-w", lake.warehouse, *number, *words)
        assert ran.code == 0, ran.err
        return [row[1:4] for row in ran.rows if row[3] in (1, [1])]

    writes = [["+I", number, 1] for number in (0, 5, 10)]
    assert read("audit_log") == writes[2:]
    assert read("audit_log", "--incremental", "1,3") == writes[1:]
    diff = ("--option", "incremental-between-scan-mode=diff")
    assert read("audit_log", "--incremental", "1,3", *diff) == writes[2:]
    assert read("binlog", "--incremental", "0,3") == [[kind, n, [k]] for kind, n, k in writes]


def test_columns_conditions_and_limits(lake: Lake) -> None:
    def read(*words: object) -> list[list[object]]:
        ran = caretaker("read", *words, "-w", lake.warehouse)
        assert ran.code == 0, ran.err
        return ran.rows

    kinds = ("--columns", "commit_kind,snapshot_id")
    assert read("db.t$snapshots", *kinds, "--where", "snapshot_id >= 2", "--limit", 1) == [
        ["+I", "APPEND", 2]
    ]
    assert read("db.t$partitions", "--columns", "partition,file_count", "--snapshot", 1) == [
        ["+I", "dt=day0", 1],
        ["+I", "dt=day1", 1],
    ]
    assert len(read("db.t$audit_log", "--where", "k = 1")) == 1
    assert read("db.t$branch_b") == []
    assert read("db.t$branch_b$snapshots") == []


@pytest.mark.parametrize(
    "words",
    [
        ("db.t$nope",),
        ("db.t$",),
        ("db.t$files$more",),
        ("db.t$branch_",),
        ("db.t$branch_b$files", "--branch", "c"),
        ("db.t$files", "--columns", "nope"),
        ("db.t$branch_no$files",),
    ],
)
def test_wrong_names_are_refused(lake: Lake, words: tuple[str, ...]) -> None:
    ran = caretaker("read", *words, "-w", lake.warehouse)
    assert ran.code == 2
    assert ran.out == ""


def test_what_changed_between_versions(lake: Lake) -> None:
    def read(*words: object) -> list[list[object]]:
        ran = caretaker("read", *words, "-w", lake.warehouse, "--where", "k = 1")
        assert ran.code == 0, ran.err
        return ran.rows

    lake.table().tags.create(Tag("one", lake.table().snapshots.get(1)))
    lake.table().tags.create(Tag("three", lake.table().snapshots.get(3)))
    first, second, third = (read("db.t", "--snapshot", n)[0][2] for n in (1, 2, 3))
    assert read("db.t", "--incremental", "1,3") == [
        ["+I", 1, second, "day1"],
        ["+I", 1, third, "day1"],
    ]
    assert read("db.t", "--incremental", "1,3", "--incremental-mode", "diff") == [
        ["+I", 1, third, "day1"]
    ]
    assert read("db.t", "--incremental", "one,three") == [["+I", 1, third, "day1"]]
    assert read("db.t$audit_log", "--incremental", "0,1") == [["+I", "+I", 1, first, "day1"]]
    assert read("db.t", "--option", "scan.snapshot-id=2") == [["+I", 1, second, "day1"]]
    told = change_from_object({"change": "set_option", "key": "scan.snapshot-id", "value": "1"})
    FileSystemCatalog(str(lake.warehouse)).alter_table("db.t", [told], now_millis=0)
    assert read("db.t") == [["+I", 1, first, "day1"]]
    assert read("db.t", "--snapshot", 3) == [["+I", 1, third, "day1"]]
    for wrong in (
        ("--incremental", "1"),
        ("--incremental", "1,9"),
        ("--watermark", "1"),
        ("--option", "x"),
    ):
        assert caretaker("read", "db.t", "-w", lake.warehouse, *wrong).code == 2
    assert caretaker("read", "db.t$files", "-w", lake.warehouse, "--incremental", "1,2").code == 2
