"""Commits are seen, and just the partitions that they changed are compacted, once."""

from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from lakes import ENV, Lake

from paimon_maintenance.engines.local import LocalEngine
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.position_store import Position, PositionStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.job.engine_choice import EngineName
from paimon_maintenance.policy.load import read_policy
from paimon_maintenance.policy.model import EnginePolicy
from paimon_maintenance.policy.needs import OnCommit
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.schedule.commits import Watch, commits_since
from paimon_maintenance.schedule.on_commit import OnCommitRun, lines_of
from paimon_maintenance.schedule.scope import Scope


@pytest.fixture(scope="module")
def made_lake(tmp_path_factory) -> Path:
    lake = Lake(tmp_path_factory.mktemp("commits") / "lake")
    lake.primary_key("db.t", partitioned=True)
    lake.primary_key("db.u")
    lake.fill(2)
    lake.fill(2, name="db.u")
    return lake.warehouse


@pytest.fixture
def lake(made_lake, tmp_path):
    shutil.copytree(made_lake, tmp_path / "lake")
    return Lake(tmp_path / "lake")


class Watched:
    """A watch and runs over one lake and one history."""

    def __init__(self, lake: Lake, url: str, policy: str | None = None, **scope: object) -> None:
        self.lake = lake
        self.history = SqlHistory(url)
        warehouse = str(lake.warehouse)
        self.positions = PositionStore(self.history, warehouse)
        self.later = 0
        self.names = ["db.t", "db.u"]
        self.watch = Watch(
            store=self.positions,
            names=lambda: self.names,
            open_table=Scope(warehouse=warehouse, tables=()).open,
            now_millis=lambda: ENV.now_millis() + self.later,
            list_every=1,
        )
        self.runs = OnCommitRun(
            scope=Scope(warehouse=warehouse, tables=(), **scope),
            policy=None if policy is None else read_policy(policy, "p.yaml"),
            services=RunServices(env=ENV, history=self.history),
            needs=NeedStore(self.history, warehouse),
            positions=self.positions,
            holder="me",
            default=OnCommit.FULL,
        )


@pytest.fixture
def watched(lake, tmp_path):
    return Watched(lake, f"sqlite:///{tmp_path}/history.db")


def files_by_day(lake: Lake) -> dict[str, int]:
    table = lake.table()
    from paimon_core.scan.scan import scan_files

    found: dict[str, int] = {}
    for entry in scan_files(table, table.snapshots.latest()):
        day = table.paths.partition_values(entry.partition)["dt"]
        found[day] = found.get(day, 0) + 1
    return found


@pytest.mark.parametrize("spark", [None, LocalEngine()])
def test_a_table_that_opts_out_after_its_commit_was_seen_is_left_alone(
    lake, watched, monkeypatch, spark
):
    assert watched.watch.look() == {}
    lake.append({"k": [1], "v": ["new"]}, "db.u")
    runs = replace(watched.runs, services=replace(watched.runs.services, spark=spark))
    wanted = OnCommitRun.wanted

    def opt_out(self, table):
        found = wanted(self, table)
        lake.change_options("db.u", "caretaker.maintenance", "off")
        return found

    monkeypatch.setattr(OnCommitRun, "wanted", opt_out)
    (one,) = runs.run(watched.watch.look())
    assert (one.failed, one.report) == (False, None)
    assert "caretaker.maintenance is 'off'" in one.why
    assert lake.table("db.u").snapshots.latest_id() == 3
    assert watched.watch.look() == {}, "the commit counts as seen"


def test_a_commit_compacts_its_partition_and_no_other(lake, watched):
    assert watched.watch.look() == {}, "what is there already is the scheduler's"
    lake.append({"k": [1], "v": ["new"], "dt": ["day1"]})
    assert watched.watch.look() == {"db.t": 3}
    (one,) = watched.runs.run(watched.watch.look())
    assert (one.partitions, one.snapshot, one.failed) == (({"dt": "day1"},), 4, False)
    assert files_by_day(lake) == {"day0": 2, "day1": 1}
    assert next(iter(lines_of([one]))).startswith("db.t dt=day1: success, 3 -> 1 file, snapshot 4")
    # Its own commit is maintained, too.
    assert watched.watch.look() == {}
    (entry,) = watched.history.newest(job="compact")
    assert (entry.status, entry.snapshots) == ("success", (4,))


def test_tables_that_are_created_later_are_watched_from_their_first_commit(lake, watched):
    watched.watch.look()
    lake.primary_key("db.new")
    lake.fill(2, name="db.new")
    watched.names.append("db.new")
    assert watched.watch.look() == {"db.new": 2}
    assert lines_of(watched.runs.run(["db.new"]))
    assert watched.positions.all()["db.new"].snapshot == 3


def test_commits_since(lake):
    lake.append({"k": [1], "v": ["a"], "dt": ["day0"]})
    table = lake.table()
    found = commits_since(table, Position(snapshot=2))
    assert (found.partitions, found.snapshots) == (({"dt": "day0"},), (3,))
    both = commits_since(table, Position(snapshot=0)).partitions
    assert sorted(p["dt"] for p in both) == ["day0", "day1"]
    assert commits_since(table, Position(snapshot=3)).partitions == ()
    # After a rollback, and where snapshots have expired, the whole table is looked at.
    assert commits_since(table, Position(snapshot=9)).partitions is None
    table.snapshots.delete(1)
    assert commits_since(table, Position(snapshot=0)).partitions is None


def test_a_failure_leaves_the_position_and_waits_longer_each_time(lake, watched):
    watched.watch.look()
    lake.fill(1, name="db.u")
    for file in (lake.warehouse / "db.db" / "u").rglob("data-*"):
        file.write_bytes(b"broken")
    (one,) = watched.runs.run(watched.watch.look())
    assert one.failed
    assert watched.positions.get("db.u").snapshot == 2
    assert watched.watch.look() == {}
    watched.later = 61_000
    assert watched.watch.look() == {"db.u": 3}
    watched.runs.run(["db.u"])
    assert watched.watch.look() == {}
    assert watched.positions.get("db.u").failures == 2


def test_the_policy_decides_which_tables_are_maintained_on_commit(lake, tmp_path):
    policy = """
version: 1
rules:
  - { tables: "*.*", on_commit: minor }
  - { tables: "db.u", on_commit: off }
"""
    watched = Watched(lake, f"sqlite:///{tmp_path}/history.db", policy)
    watched.watch.look()
    lake.append({"k": [1], "v": ["a"], "dt": ["day0"]})
    lake.fill(1, name="db.u")
    found = {m.table: m.why for m in watched.runs.run(watched.watch.look())}
    assert found == {
        "db.t": "nothing to do",
        "db.u": "the policy does not maintain db.u on commit",
    }
    assert watched.watch.look() == {}


def test_incremental_clustering_is_left_to_the_scheduler(lake, tmp_path):
    """A compaction refuses such a table, and the scheduler sorts it."""
    options = {"clustering.incremental": "true", "clustering.columns": "k", "bucket": "-1"}
    lake.create("db.c", primary_key=False, options={**options, "write-only": "true"})
    watched = Watched(lake, f"sqlite:///{tmp_path}/history.db")
    watched.names = ["db.c"]
    lake.fill(1, name="db.c")
    watched.watch.look()
    lake.fill(6, name="db.c")
    (one,) = watched.runs.run(watched.watch.look())
    assert (one.why, one.report) == ("its clustering is left to the scheduler", None)
    assert not one.failed
    assert watched.watch.look() == {}


def test_a_large_plan_is_left_to_the_scheduler(lake, tmp_path):
    spark = EnginePolicy(engine=str(EngineName.SPARK))
    watched = Watched(lake, f"sqlite:///{tmp_path}/history.db", engine=spark)
    watched.watch.look()
    lake.fill(1, name="db.u")
    (one,) = watched.runs.run(watched.watch.look())
    assert one.why.endswith("to rewrite are left to the scheduler")
    assert watched.watch.look() == {}


def test_a_table_that_cannot_be_read_stops_no_other(lake, watched, caplog):
    watched.watch.look()
    lake.fill(1)
    lake.fill(1, name="db.u")
    shutil.rmtree(lake.warehouse / "db.db" / "t" / "schema")
    watched.watch._open.clear()
    assert watched.watch.look() == watched.watch.look() == {"db.u": 3}
    assert caplog.text.count("cannot look for commits to db.t") == 1


def _run_together(warehouse: str, url: str, barrier, queue) -> None:
    watched = Watched(Lake(Path(warehouse)), url)
    runs = replace(watched.runs, holder=str(multiprocessing.current_process().pid))
    barrier.wait()
    queue.put([(m.table, m.report is not None) for m in runs.run(["db.t", "db.u"])])


def test_two_processes_compact_each_commit_once(lake, tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    watched = Watched(lake, url)
    watched.watch.look()
    lake.fill(1)
    lake.fill(1, name="db.u")
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=_run_together, args=(str(lake.warehouse), url, barrier, queue))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    done = [one for _ in workers for one in queue.get(timeout=300)]
    for worker in workers:
        worker.join()
    assert sorted(table for table, ran in done if ran) == ["db.t", "db.u"]
    kinds = [str(s.commit_kind) for s in lake.table().snapshots.all()]
    assert kinds.count("COMPACT") == 1
