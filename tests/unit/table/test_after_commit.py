"""What follows a commit never fails it, never deletes what is needed, and says what it did."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from paimon_core import Catalog, Schema, SchemaChange, Table, open_catalog
from paimon_core.environment import system_environment
from paimon_core.errors import ClockSkew, CorruptTable, InvalidArgument
from paimon_core.reachability.files import data_files
from paimon_core.reachability.garbage import Garbage
from paimon_core.reachability.stored_files import StoredFiles
from paimon_core.retention import snapshots
from paimon_core.scan.scan import scan_files
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_core.table.sink import after_commit
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.compact_table import compact_table

DAY = 86_400_000
ONE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = open_catalog(str(tmp_path))
    opened.create_database("db")
    return opened


def made(catalog: Catalog, **options: str) -> Table:
    told = ONE | {k.replace("_", "-"): v for k, v in options.items()}
    return catalog.create_table("db.t", Schema.of({"k": "INT"}, options=told))


def ids(table: Table) -> list[int]:
    return [s.id for s in table.snapshots()]


def test_a_commit_says_what_expired(catalog: Catalog) -> None:
    table = made(catalog)
    table.append([{"k": 1}])
    result = table.append([{"k": 2}])
    assert [s.id for s in result.snapshots] == [2]
    assert result.maintained is not None
    assert result.maintained.expired_snapshots == [1]
    assert ids(table) == [2]
    assert table.delete("k = 1").rows == 1
    assert ids(table) == [3]
    table.overwrite([{"k": 5}])
    assert ids(table) == [4]


@pytest.mark.parametrize("option", ["snapshot.num-retained.max", "write-only"])
def test_a_writer_that_began_before_goes_by_the_options_of_now(
    catalog: Catalog, option: str
) -> None:
    old, value = made(catalog), "true" if option == "write-only" else "5"
    old.append([{"k": 1}])
    catalog.alter_table("db.t", [SchemaChange.set_option(option, value)])
    old.append([{"k": 2}])
    assert ids(old) == [1, 2]


def test_maintain_on_demand(catalog: Catalog) -> None:
    table = made(catalog, write_only="true")
    for k in range(3):
        assert table.append([{"k": k}]).maintained is None
    assert table.maintain().expired_snapshots == [1, 2]
    assert ids(table) == [3]


def test_a_failure_is_said_and_the_commit_stays(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(catalog)
    table.append([{"k": 1}])
    tag = Path(table.location) / "tag" / "tag-broken"
    tag.parent.mkdir()
    tag.write_text("{")
    with caplog.at_level(logging.WARNING):
        result = table.append([{"k": 2}])
    assert result.maintained is not None
    assert isinstance(result.maintained.failure, CorruptTable)
    assert "the commit succeeded, the maintenance after it failed" in caplog.text
    assert ids(table) == [1, 2]
    assert table.to_arrow().num_rows == 2
    tag.unlink()
    assert table.append([{"k": 3}]).maintained.expired_snapshots == [1, 2]  # type: ignore[union-attr]


def test_what_the_newest_snapshot_needs_is_never_deleted(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the search for garbage were wrong."""
    table = made(catalog)
    table.append([{"k": 1}])
    entry = scan_files(table.core, table.core.latest_or_not_found())[0]
    wrong = Garbage(StoredFiles.of(data_files(table.core, entry)))
    monkeypatch.setattr(snapshots, "find_garbage", lambda *_: wrong)
    result = table.append([{"k": 2}])
    assert result.maintained is not None
    assert isinstance(result.maintained.failure, CorruptTable)
    assert ids(table) == [1, 2]
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize("ahead", [2 * DAY, -2 * DAY])
def test_a_writer_with_a_wrong_clock_expires_nothing(catalog: Catalog, ahead: int) -> None:
    options = {"write-only": "true", "consumer.expiration-time": "1 d"}
    table = catalog.create_table("db.t", Schema.of({"k": "INT"}, options=ONE | options))
    table.append([{"k": 1}])
    consumers = table.core.consumers
    consumers.set("live", 1)
    old = Path(consumers.paths.consumer("live"))
    if ahead < 0:
        os.utime(old, (time.time() - 10 * 86_400,) * 2)
    table.append([{"k": 2}])
    catalog.alter_table("db.t", [SchemaChange.set_option("write-only", "false")])
    env = system_environment(clock=lambda: time.time_ns() // 1_000_000 + ahead)
    after = AfterCommit(catalog.get_table("db.t").core, env=env)
    after.run(user="u", identifier=BATCH_COMMIT_IDENTIFIER)
    assert after.last is not None
    assert isinstance(after.last.failure, ClockSkew)
    assert (after.last.expired_consumers, after.last.expired_snapshots) == ([], [])
    assert old.exists()
    assert ids(table) == [1, 2]


def test_streams_may_expire_in_the_background(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(
        "db.t",
        Schema.of({"k": "INT"}, options=ONE | {"snapshot.expire.execution-mode": "async"}),
    )
    gate, plan_expiry = threading.Event(), after_commit.plan_expiry

    def slowly(*args: Any, **kw: Any) -> Any:
        assert gate.wait(30)
        return plan_expiry(*args, **kw)

    monkeypatch.setattr(after_commit, "plan_expiry", slowly)
    builder = table.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for number in range(1, 4):
            write.write_dicts([{"k": number}])
            assert commit.commit(write.prepare_commit(), number).maintained is None
        assert ids(table) == [1, 2, 3]
        gate.set()
    assert ids(table) == [3]


def test_an_unknown_execution_mode_is_refused_before_the_commit(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", Schema.of({"k": "INT"}))
    wrong = table.copy({"snapshot.expire.execution-mode": "sometimes"})
    with pytest.raises(InvalidArgument):
        wrong.append([{"k": 1}])


@pytest.mark.parametrize("ahead", [2 * DAY, 0])
def test_rows_do_not_expire_by_a_wrong_clock(
    catalog: Catalog, ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"bucket": "1", "record-level.expire-time": "1 d", "record-level.time-field": "t"}
    schema = Schema.of({"k": "INT NOT NULL", "t": "INT"}, primary_keys=["k"], options=options)
    table = catalog.create_table("db.t", schema)
    now = int(time.time())
    table.append([{"k": 1, "t": now}])
    table.append([{"k": 2, "t": now - 2 * 86_400}])
    env = system_environment(clock=lambda: time.time_ns() // 1_000_000 + ahead)
    compact_table(table.core, full=True, env=env)
    assert sorted(table.to_arrow()["k"].to_pylist()) == ([1, 2] if ahead else [1])
    assert ("rows do not expire in this compaction" in caplog.text) == bool(ahead)
