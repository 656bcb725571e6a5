"""The history: every plan, run and skip, in SQLite and in PostgreSQL, also from many processes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from command_line import caretaker
from lakes import Lake

from paimon_core.errors import InvalidArgument, MaintenanceError, NotFound
from paimon_core.scan.scan import scan_files
from paimon_maintenance.history import migrate
from paimon_maintenance.history.entry import Actor, Entry, entries_of_report
from paimon_maintenance.history.store import SqlHistory, open_history, state_folder
from paimon_maintenance.job.report import Status
from paimon_maintenance.registry import job_named
from paimon_maintenance.run.metrics import Metrics
from paimon_maintenance.run.request import RunRequest
from paimon_maintenance.run.runner import RunServices, plan_table, run_table

ROOT = Path(__file__).resolve().parents[4]
ENTRY = Entry(
    at_millis=1_700_000_000_000,
    event="run",
    job="compact",
    table="db.t",
    warehouse="/lake",
    status="success",
    run_id="r1",
    branch="b",
    part_of="maintain",
    exit_code=0,
    origin="cli",
    actor="me",
    engine="local",
    snapshot_before=2**40,
    snapshots=(2**40 + 1,),
    attempts=2,
    seconds=1.5,
    files_before=10,
    files_after=1,
    bytes_before=2**45,
    bytes_after=7,
    rows_before=3,
    rows_after=3,
    arguments={"strategy": "full", "partitions": [{"dt": "ü"}]},
    details={"a": [1, 2]},
    error_type="X",
    error="what % happened\n'twice'",
    next_step="again",
)


def request(lake: Lake, job_name: str, **arguments: object) -> RunRequest:
    job = job_named(job_name)
    return RunRequest(
        job=job,
        warehouse=str(lake.warehouse),
        table="db.t",
        arguments=job.read_arguments(arguments),
    )


def test_an_entry_comes_back_as_it_was(url):
    history = SqlHistory(url)
    history.add([ENTRY, replace(ENTRY, table="db.u", error=None, seconds=None)])
    assert history.newest(table="db.t") == [ENTRY]
    assert [e.table for e in history.newest()] == ["db.u", "db.t"]
    assert history.newest(table="db.u")[0].error is None


def test_questions(url):
    history = SqlHistory(url)
    names = ["db.a", "db.b", "dbx.a", "d_.a", "db.a%"]
    history.add([replace(ENTRY, table=n, run_id=n, job=j) for n in names for j in ("x", "y")])
    assert {e.table for e in history.newest(table="db.*")} == {"db.a", "db.b", "db.a%"}
    assert {e.table for e in history.newest(table="d_.*")} == {"d_.a"}
    assert {e.table for e in history.newest(table="db.a")} == {"db.a"}
    assert [e.job for e in history.newest(table="db.a", job="y")] == ["y"]
    assert {e.table for e in history.newest(run_id="db.b")} == {"db.b"}
    assert history.newest(status="failed") == []
    assert len(history.newest(limit=3)) == 3


def test_a_database_of_an_older_version_is_brought_up(url):
    history = SqlHistory(url)
    if "sqlite" in url:
        Path(sa.make_url(url).database or "").parent.mkdir()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        assert migrate.migrate(connection, to=1) == 1
    history.add([ENTRY])
    with engine.connect() as connection:
        assert migrate.version_of(connection) == migrate.LATEST
        indexes = sa.inspect(connection).get_indexes("caretaker_history")
    assert {i["name"] for i in indexes} == {
        "caretaker_history_by_table",
        "caretaker_history_by_job",
        "caretaker_history_by_run",
        "caretaker_history_by_time",
        "caretaker_history_by_age",
        "caretaker_history_by_outcome",
    }
    assert SqlHistory(url).newest() == [ENTRY]


def test_a_failing_migration_leaves_the_version_before(url, monkeypatch, tmp_path):
    SqlHistory(url).add([ENTRY])
    folder = shutil.copytree(migrate.FOLDER, tmp_path / "100 % migrations")
    failing = folder / "versions" / "fails.py"
    failing.write_text(
        f'revision, down_revision = "{migrate.LATEST + 1}", "{migrate.LATEST}"\n'
        "from alembic import op\n"
        "def upgrade():\n"
        "    op.execute('CREATE TABLE half (a INTEGER)')\n"
        "    raise RuntimeError('half way')\n"
    )
    monkeypatch.setattr(migrate, "FOLDER", folder)
    engine = sa.create_engine(url)
    with pytest.raises(RuntimeError, match="half way"), engine.begin() as connection:
        migrate.migrate(connection, to=migrate.LATEST + 1)
    with engine.connect() as connection:
        assert migrate.version_of(connection) == migrate.LATEST


def test_the_version_is_that_of_the_last_migration():
    config = Config()
    config.set_main_option("script_location", str(migrate.FOLDER))
    assert ScriptDirectory.from_config(config).get_heads() == [str(migrate.LATEST)]


@pytest.mark.parametrize("version", [1, 6, 7])
def test_a_database_from_before_alembic_is_migrated(url, version):
    history = SqlHistory(url)
    if "sqlite" in url:
        Path(sa.make_url(url).database or "").parent.mkdir()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        migrate.migrate(connection, to=version)
        connection.execute(sa.text(f"DROP TABLE {migrate.VERSION_TABLE}"))
        connection.execute(sa.text("CREATE TABLE caretaker_history_version (version INTEGER)"))
        connection.execute(sa.text(f"INSERT INTO caretaker_history_version VALUES ({version})"))
    history.add([ENTRY])
    assert SqlHistory(url).newest() == [ENTRY]
    with engine.connect() as connection:
        assert migrate.version_of(connection) == migrate.LATEST


def test_a_database_of_a_newer_version_is_used_as_it_is(url):
    SqlHistory(url).add([ENTRY])
    engine = sa.create_engine(url)
    newer = sa.text(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '{migrate.LATEST + 1}'")
    with engine.begin() as connection:
        connection.execute(newer)
    assert SqlHistory(url).newest() == [ENTRY]
    with engine.begin() as connection:
        assert migrate.migrate(connection) == migrate.LATEST + 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rows", [["abc"], [""], ["7.0"], ["0"], ["-3"], ["9" * 20], [], ["6", "7"]]
)
def test_a_version_that_is_none_is_named_and_nothing_is_migrated(url, rows):
    SqlHistory(url).add([ENTRY])
    table = migrate.VERSION_TABLE
    engine = sa.create_engine(url)

    def set_rows(values: list[str]) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP TABLE {table}"))
            connection.execute(sa.text(f"CREATE TABLE {table} (version_num VARCHAR(32))"))
            for value in values:
                connection.execute(sa.text(f"INSERT INTO {table} VALUES ('{value}')"))

    set_rows(rows)
    history = SqlHistory(url)
    with pytest.raises(MaintenanceError, match="version of the history is unknown"):
        history.newest()
    assert "version of the history is unknown" in str(history.record([ENTRY]))
    set_rows([str(migrate.LATEST)])
    assert SqlHistory(url).newest() == [ENTRY]


WRITER = """\
import sys
from dataclasses import replace
from paimon_maintenance.history.entry import Entry
from paimon_maintenance.history.store import SqlHistory

history = SqlHistory(sys.argv[1])
for i in range(10):
    history.add([Entry(at_millis=i, event="run", job="j", table=f"db.t{sys.argv[2]}",
                       warehouse="w", status="success", run_id=str(i))])
"""


def test_a_version_is_known_although_another_process_migrates_meanwhile(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/h.db"
    has_table = sa.Inspector.has_table

    def and_then_another_migrates(self, name, *args, **kwargs):
        found = has_table(self, name, *args, **kwargs)
        with sa.create_engine(url).begin() as other:
            monkeypatch.setattr(sa.Inspector, "has_table", has_table)
            migrate.migrate(other)
        return found

    monkeypatch.setattr(sa.Inspector, "has_table", and_then_another_migrates)
    with sa.create_engine(url).connect() as connection:
        assert migrate.version_of(connection) in (0, migrate.LATEST)


def test_many_processes_write_at_once_into_a_new_database(url):
    def write(number: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", WRITER, url, str(number)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr

    with ThreadPoolExecutor(4) as pool:
        errors = [e for e in pool.map(write, range(4)) if e]
    assert errors == []
    found = SqlHistory(url).newest(limit=1000)
    assert len(found) == 40
    assert {e.table for e in found} == {f"db.t{n}" for n in range(4)}


def test_plans_runs_and_skips_are_remembered(url, tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key()
    lake.fill(3)
    history = SqlHistory(url)
    services = RunServices(history=history)
    plan_table(request(lake, "compact"), services)
    report = run_table(request(lake, "compact"), services)
    run_table(request(lake, "compact"), services)
    skipped, ran, planned = history.newest(table="db.t")
    assert [e.event for e in (planned, ran, skipped)] == ["plan", "run", "skip"]
    assert [e.status for e in (planned, ran, skipped)] == ["planned", "success", "nothing_to_do"]
    assert ran.run_id == report.run_id
    assert ran.snapshots == report.snapshots
    assert (ran.snapshot_before, planned.snapshot_before) == (3, 3)
    assert (ran.files_before, ran.files_after) == (3, 1)
    assert ran.seconds is not None
    assert ran.details["seconds"]
    assert ran.actor


def test_a_run_counts_the_files_that_it_rewrote_and_no_others_of_the_bucket(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key()
    lake.append(
        {"k": list(range(50_000)), "v": [f"value {k * 7919 % 50_021}" for k in range(50_000)]}
    )
    history = SqlHistory(f"sqlite:///{tmp_path}/h.db")
    services = RunServices(history=history)
    run_table(request(lake, "compact", strategy="full"), services)
    lake.fill(6, rows=1)
    small = [
        e.file
        for e in scan_files(lake.table(), lake.table().snapshots.latest())
        if not e.file.level
    ]
    metrics = Metrics()
    services = RunServices(history=history, metrics=metrics)
    report = run_table(request(lake, "compact", strategy="minor"), services)
    assert (report.before.files, report.untouched.files, report.after.files) == (7, 1, 2)
    ran = history.newest(table="db.t")[0]
    assert (ran.files_before, ran.files_after) == (6, 1)
    assert ran.bytes_before == sum(f.file_size for f in small)
    assert ran.bytes_after < 10_000 < report.untouched.bytes
    of_run = '{job="compact",table="db.t"}'
    assert f"bytes_read_total{of_run} {ran.bytes_before}\n" in metrics.to_text()
    assert f"bytes_written_total{of_run} {ran.bytes_after}\n" in metrics.to_text()
    assert f"files_written_total{of_run} 1\n" in metrics.to_text()


def test_steps_of_a_job_have_their_own_lines(url, tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    lake.fill(3)
    history = SqlHistory(url)
    report = run_table(request(lake, "maintain"), RunServices(history=history))
    (expired,) = history.newest(table="db.t", job="expire_snapshots")
    assert expired.part_of == "maintain"
    assert expired.run_id == report.run_id
    assert expired.details["expired_snapshots"] == [1, 2]
    (consumers,) = history.newest(job="expire_consumers")
    assert consumers.event == "skip"
    assert consumers.details == {"why": "consumer.expiration-time is not set"}


def test_failures_are_remembered(url, tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.from_the_future("db.t")
    history = SqlHistory(url)
    services = RunServices(history=history)
    with pytest.raises(Exception, match="telepathy"):
        plan_table(request(lake, "compact"), services)
    run_table(request(lake, "compact"), services)
    ran, planned = history.newest(status="refused")
    assert (planned.event, ran.event) == ("plan", "run")
    assert planned.exit_code == ran.exit_code == 4
    assert "telepathy" in str(ran.error)
    assert ran.error_type == "UnsupportedFeature"


@pytest.mark.parametrize(
    "broken",
    [
        "sqlite:////proc/nowhere/history.db",
        "postgresql+psycopg://nobody@127.0.0.1:1/none",
        "nonsense://x",
        "no url",
    ],
)
def test_a_history_that_cannot_be_written_fails_no_job(broken, tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(2)
    report = run_table(request(lake, "compact"), RunServices(history=SqlHistory(broken)))
    assert report.status is Status.SUCCESS
    (warning,) = report.warnings
    assert warning.startswith("cannot write the history: ")
    assert report.to_json()["warnings"] == [warning]
    plan_table(request(lake, "compact"), RunServices(history=SqlHistory(broken)))


def test_a_database_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(MaintenanceError, match="cannot read the history") as caught:
        SqlHistory("postgresql+psycopg://me:secret@127.0.0.1:1/none").newest()
    assert "secret" not in str(caught.value)
    (tmp_path / "history.db").write_text("no database, but long enough to be taken for one " * 50)
    ran = caretaker("history", "--url", f"sqlite:///{tmp_path}/history.db", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (1, "MaintenanceError")


def test_passwords_stay_out_of_messages():
    with pytest.raises(InvalidArgument) as caught:
        SqlHistory("nonsense://me:secret@host/db").newest()
    assert "secret" not in str(caught.value)


def test_where_the_history_is(monkeypatch, tmp_path):
    monkeypatch.setenv("CARETAKER_HISTORY_URL", "none")
    assert open_history() is None
    monkeypatch.delenv("CARETAKER_HISTORY_URL")
    monkeypatch.setenv("CARETAKER_STATE", str(tmp_path))
    history = open_history()
    assert history is not None
    assert history.url == f"sqlite:///{tmp_path}/history.db"
    assert state_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/caretaker")


def test_airflow_is_named_as_the_actor():
    environ = {"AIRFLOW_CTX_DAG_ID": "caretaker_compact", "AIRFLOW_CTX_DAG_RUN_ID": "manual__1"}
    assert Actor.here(environ) == Actor(origin="airflow", name="caretaker_compact manual__1")
    assert Actor.here({"CARETAKER_ACTOR": "ci"}) == Actor(origin="cli", name="ci")


def test_long_details_are_cut(tmp_path):
    lake = Lake(tmp_path)
    lake.primary_key()
    lake.fill(2)
    report = run_table(request(lake, "compact")).to_json()
    report["details"] = {"many": list(range(1000)), "long": "x" * 100_000, "short": 1}
    (entry,) = entries_of_report(report, at_millis=1, actor=Actor(origin="o", name="n"))
    assert len(json.dumps(entry.to_json())) < 3000
    assert entry.details["short"] == 1
    assert entry.details["many"][-1] == "... 900 more"


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def state(monkeypatch, tmp_path):
    monkeypatch.delenv("CARETAKER_HISTORY_URL")
    monkeypatch.setenv("CARETAKER_STATE", str(tmp_path / "state"))


@pytest.mark.usefixtures("state")
def test_the_command_line_writes_and_shows_it(tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.primary_key()
    lake.fill(3)
    none = caretaker("history")
    assert none.code == 2
    assert "there is no history" in none.err
    caretaker("plan", "compact", "db.t", "-w", lake.warehouse)
    caretaker("run", "compact", "db.t", "-w", lake.warehouse, "--engine", "local")
    caretaker(
        "run", "rollback", "db.t", "-w", lake.warehouse, "--snapshot", 99, "--engine", "local"
    )
    shown = caretaker("history", "db.t")
    assert shown.code == 0
    assert "compact" in shown.out
    assert "3 -> 1 file" in shown.out
    entries = caretaker("history", "db.t", "--json").json["entries"]
    assert [e["event"] for e in entries] == ["run", "run", "plan"]
    assert caretaker("history", "--failed", "--json").json["entries"][0]["job"] == "rollback"
    assert caretaker("history", "--job", "compact", "--limit", 1).out.count("\n") == 1
    misspelled = caretaker("history", "--job", "compct")
    assert (misspelled.code, "did you mean compact?" in misspelled.err) == (2, True)
    here = caretaker("history", "db.t", "-w", lake.warehouse, "--json")
    assert here.json["entries"] == entries
    assert caretaker("history", "-w", f"{lake.warehouse}-2", "--json").json["entries"] == []
    caretaker("run", "create_tag", "db.t", "-w", lake.warehouse, "--tag", "v1")
    assert "success  tag v1, tagged snapshot 4  " in caretaker("history", "--limit", 1).out


@pytest.mark.usefixtures("state")
def test_nothing_is_written_by_asking(tmp_path):
    with pytest.raises(NotFound):
        SqlHistory(f"sqlite:///{tmp_path}/x/history.db").newest()
    assert not (tmp_path / "x").exists()


def test_many_threads_write_together_and_each_learns_of_a_failure(tmp_path):
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    names = [f"db.t{number}" for number in range(40)]
    ready = threading.Barrier(8, timeout=30)

    def write(name: str) -> str | None:
        if name in names[:8]:
            ready.wait()
        return history.record([replace(ENTRY, table=name), replace(ENTRY, table=name)])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, names)) == [None] * 40
    assert sorted(e.table for e in history.newest(limit=100)) == sorted([*names, *names])

    # A row that the database refuses harms no other one that was written with it.
    wrong = replace(ENTRY, table="db.wrong", seconds=object())  # type: ignore[arg-type]
    together = [[replace(ENTRY, table="db.right")], [wrong], [replace(ENTRY, table="db.right")]]
    ready = threading.Barrier(3, timeout=30)

    def write_at_once(entries: list[Entry]) -> bool:
        ready.wait()
        return history.record(entries) is None

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(write_at_once, together)) == [True, False, True]
    assert len(history.newest(table="db.right")) == 2

    broken = SqlHistory(f"sqlite:///{tmp_path}")  # a folder
    with ThreadPoolExecutor(4) as pool:
        reasons = list(
            pool.map(lambda name: broken.record([replace(ENTRY, table=name)]), names[:4])
        )
    assert all(reason is not None and "cannot write the history" in reason for reason in reasons)


def test_readers_do_not_wait_for_a_writer(tmp_path):
    history = SqlHistory(f"sqlite:///{tmp_path}/history.db")
    assert history.record([replace(ENTRY, table="db.t")]) is None
    writer = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        started = time.monotonic()
        assert [e.table for e in history.newest()] == ["db.t"]
        assert history.open_runs(table="db.t", warehouse="/lake") == []
        assert time.monotonic() - started < 10  # a writer would wait for 20 seconds
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def test_only_databases_that_are_tested_are_used():
    with pytest.raises(InvalidArgument, match="SQLite or PostgreSQL, not mysql"):
        SqlHistory("mysql+pymysql://caretaker@localhost/caretaker").newest(limit=1)
