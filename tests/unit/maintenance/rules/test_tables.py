from __future__ import annotations

import pytest
from lakes import Lake

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.errors import InvalidArgument
from paimon_maintenance.rules.tables import is_pattern, select_tables


@pytest.fixture
def lake(lake: Lake) -> Lake:
    for name in ("db.orders", "db.tmp_a", "db.tmp_b", "dw.orders"):
        lake.primary_key(name)
    return lake


@pytest.mark.parametrize(
    ("name", "rest", "tables"),
    [
        ("db.orders", {}, ["db.orders"]),
        ("db.missing", {}, ["db.missing"]),
        ("db.*", {}, ["db.orders", "db.tmp_a", "db.tmp_b"]),
        ("*.*", {}, ["db.orders", "db.tmp_a", "db.tmp_b", "dw.orders"]),
        ("d?.orders", {}, ["db.orders", "dw.orders"]),
        ("db.*", {"excluding": ["db\\.tmp_.*"]}, ["db.orders"]),
        ("*.*", {"including": ["dw\\..*", ".*_a"]}, ["db.tmp_a", "dw.orders"]),
        # Regular expressions are held against the whole name, as in Paimon.
        ("db.*", {"excluding": ["tmp"]}, ["db.orders", "db.tmp_a", "db.tmp_b"]),
    ],
)
def test_names_and_patterns(lake, name, rest, tables):
    assert (
        select_tables(lambda: FileSystemCatalog(str(lake.warehouse)), name, where="/w", **rest)
        == tables
    )


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("orders", {}),
        ("nothing.*", {}),
        ("db.*", {"including": ["x"]}),
        ("db.*", {"including": ["("]}),
        ("db.orders", {"excluding": ["db.orders"]}),
    ],
)
def test_what_means_no_table_is_a_usage_error(lake, name, rest):
    with pytest.raises(InvalidArgument):
        select_tables(lambda: FileSystemCatalog(str(lake.warehouse)), name, where="/w", **rest)


def test_patterns_are_told_from_names():
    assert is_pattern("db.*")
    assert not is_pattern("db.orders")
