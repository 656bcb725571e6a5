"""What follows a batch write of DataFrames and SQL: tags and marks (Java: Spark's `WriteHelper`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from lakes import Lake
from sql_sessions import Sql

from paimon_core.file_store_table import FileStoreTable
from paimon_core.refs.tags import Tag

pytestmark = pytest.mark.spark

BATCH = "'tag.automatic-creation' = 'batch'"
MARKED = "'partition.end-input-to-done' = 'true'"


@pytest.fixture
def sql(tmp_path: Path, session: Any) -> Sql:
    return Sql(tmp_path, session)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return lambda: Lake(tmp_path).table("default.t")


def tags(table: FileStoreTable) -> dict[str, int]:
    return {t.name: t.snapshot.id for t in table.tags.all()}


def today() -> str:
    return f"batch-write-{datetime.now(UTC):%Y-%m-%d}"


CHANGES = {
    "append": (
        "'bucket' = '-1'",
        (
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "UPDATE t SET v = 'c' WHERE k = 1",
            "DELETE FROM t WHERE k = 1 AND v = 'c'",
            "MERGE INTO t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE",
            "INSERT OVERWRITE t VALUES (3, 'd')",
        ),
    ),
    "primary key": (
        "'primary-key' = 'k', 'bucket' = '1', 'write-only' = 'true'",
        (
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "UPDATE t SET v = 'c' WHERE k = 1",
            "DELETE FROM t WHERE k = 1 AND v = 'c'",
            "INSERT OVERWRITE t VALUES (3, 'd')",
        ),
    ),
    "data evolution": (
        "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
        (
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "MERGE INTO t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'x'",
        ),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_each_batch_moves_the_tag_of_the_day(kind: str, sql: Sql, table: Any) -> None:
    options, statements = CHANGES[kind]
    sql(f"CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ({BATCH}, {options})")
    day = today()
    for statement in statements:
        sql(statement)
        newest = table().snapshots.latest_id()
        assert tags(table()) in (
            {day: newest},
            {today(): newest},
            {day: newest - 1, today(): newest},
        )
    sql("UPDATE t SET v = 'e' WHERE k = 77")  # commits nothing
    assert max(tags(table()).values()) == table().snapshots.latest_id()


def test_the_files_of_the_old_tag_are_deleted(sql: Sql, table: Any, tmp_path: Path) -> None:
    sql(f"""
        CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ({BATCH},
            'tag.batch.customized-name' = 'newest', 'snapshot.num-retained.min' = '1',
            'snapshot.num-retained.max' = '1', 'tag.create-success-file' = 'true');
        INSERT INTO t VALUES (1, 'a');
        INSERT OVERWRITE t VALUES (2, 'b');
        INSERT OVERWRITE t VALUES (3, 'c')
    """)
    assert tags(table()) == {"newest": 3}
    assert table().snapshots.ids() == [3]
    assert len(list((table_folder := tmp_path / "default.db" / "t").glob("bucket-0/data-*"))) == 1
    assert [p.name for p in (table_folder / "tag" / "tag-success-file").iterdir()] == [
        "newest_SUCCESS"
    ]
    assert sql("SELECT * FROM t VERSION AS OF 'newest'") == [[3, "c"]]


def test_only_tags_of_batches_count(sql: Sql, table: Any) -> None:
    sql(f"""
        CREATE TABLE t (k INT) TBLPROPERTIES ({BATCH}, 'tag.num-retained-max' = '2');
        INSERT INTO t VALUES (1)
    """)
    first = table().snapshots.latest()
    for name in ("a", "batch-write-2024-01-01", "batch-write-2024-01-02"):
        table().tags.create(Tag(name, first))
    sql("INSERT INTO t VALUES (2)")
    assert set(tags(table())) == {"a", "batch-write-2024-01-02", today()}


def test_dataframes(sql: Sql, table: Any, session: Any) -> None:
    sql(f"CREATE TABLE t (k INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({BATCH}, {MARKED})")
    rows = session.createDataFrame([(1, "a/b"), (2, None)], "k INT, p STRING")
    for mode in ("append", "overwrite"):
        rows.write.format("paimon").mode(mode).save(table().root)
        assert max(tags(table()).values()) == table().snapshots.latest_id()
    marked = sorted(str(p.relative_to(table().root)) for p in Path(table().root).rglob("_SUCCESS"))
    assert marked == ["p=__DEFAULT_PARTITION__/_SUCCESS", "p=a%2Fb/_SUCCESS"]


def test_micro_batches(sql: Sql, table: Any, session: Any, tmp_path: Path) -> None:
    sql(f"""
        CREATE TABLE s (k INT, p STRING) PARTITIONED BY (p);
        INSERT INTO s VALUES (1, 'a');
        CREATE TABLE t (k INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({BATCH}, {MARKED})
    """)
    rows = session.readStream.format("paimon").load(str(tmp_path / "default.db" / "s"))
    written = rows.writeStream.format("paimon").option("checkpointLocation", str(tmp_path / "c"))
    written.trigger(availableNow=True).start(table().root).awaitTermination()
    assert tags(table())[today()] == table().snapshots.latest_id()
    assert [m.parent.name for m in Path(table().root).rglob("_SUCCESS")] == ["p=a"]


def test_only_what_was_written_is_marked(sql: Sql, table: Any) -> None:
    sql(f"""
        CREATE TABLE t (k INT, day DATE) PARTITIONED BY (day)
        TBLPROPERTIES ('primary-key' = 'k,day', 'bucket' = '1', {MARKED});
        INSERT INTO t VALUES (1, date'2024-01-01'), (2, date'2024-01-02')
    """)
    marks = sorted(Path(table().root).rglob("_SUCCESS"))
    assert [m.parent.name for m in marks] == ["day=19723", "day=19724"]
    first = [json.loads(m.read_text()) for m in marks]
    sql("INSERT INTO t VALUES (1, date'2024-01-02')")
    again = [json.loads(m.read_text()) for m in marks]
    assert again[0] == first[0]
    assert again[1]["creationTime"] == first[1]["creationTime"]
    assert again[1]["modificationTime"] > first[1]["modificationTime"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    monkeypatch.setenv("no_proxy", "*")
    reported: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reported.append(body["partition"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"result": "SUCCESS"}')

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", reported
    running.shutdown()
    running.server_close()


def test_reports(sql: Sql, server: tuple[str, list[str]]) -> None:
    url, reported = server
    sql(f"""
        CREATE TABLE t (k INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({MARKED},
            'partition.mark-done-action' = 'http-report',
            'partition.mark-done-action.http.url' = '{url}');
        INSERT INTO t VALUES (1, 1), (2, 2)
    """)
    assert reported == ["p=1/", "p=2/"]


def test_a_failure_keeps_the_commit(sql: Sql, caplog: pytest.LogCaptureFixture) -> None:
    sql(f"""
        CREATE TABLE t (k INT, p INT) PARTITIONED BY (p)
        TBLPROPERTIES ({MARKED}, 'partition.mark-done-action' = 'custom');
        INSERT INTO t VALUES (1, 1)
    """)
    assert sql("SELECT * FROM t") == [[1, 1]]
    assert "the maintenance after it failed: " in caplog.text
    assert "partition.mark-done-action=custom" in caplog.text
