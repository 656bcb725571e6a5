"""Races on a slow S3 store: jobs beside jobs, jobs beside writers, writers beside writers.

Each request takes 30 ms more, so what two jobs do at once is interleaved without any gate.  Nobody
takes the lease: the proofs alone have to hold, as against Java.  Longer: `natural_races.py --s3`.
"""

from __future__ import annotations

import multiprocessing
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from harness import run_job
from natural_stores import DAY, SlowS3, at, broken, misplaced, missing, slow_s3
from races import OURS, TABLES
from replay import run_step
from slow_store import Fault, SlowStore, slow_store
from without_lease import without_lease

from maintenance.environment import system_environment
from maintenance.jobs.versions import settle
from maintenance.report import Report
from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.errors import PaimonError
from paimon_core.schema.create import Column, create_schema
from paimon_core.table.open import open_table
from paimon_core.write.table_write import TableWriter

pytestmark = [pytest.mark.crash, pytest.mark.s3, pytest.mark.slow]
ENV = system_environment()
LATER_SECONDS = (0.0, 0.6)
"""So much later than A does B begin."""


@pytest.fixture(scope="module")
def s3() -> Iterator[SlowS3]:
    with slow_s3() as store:
        yield store


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("races-on-s3") / "pristine"
    TABLES["primary key"](place)
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A job, and beside it another or a writer; which commits the job was asked to drop."""

    a: str
    b: str | None = None
    writes_to: str | None = None
    drops: bool = False


PAIRS = {
    "rollback beside expire_snapshots": Pair(a="rollback", b="expire_snapshots"),
    "rollback beside a writer": Pair(a="rollback", writes_to="main", drops=True),
    "fast_forward beside a writer to the branch": Pair(a="fast_forward", writes_to="b"),
    "rollback_to_as_latest beside delete_tag": Pair(
        a="rollback_to_as_latest of a tag", b="delete_tag"
    ),
    "delete_branch beside a writer to it": Pair(a="delete_branch", writes_to="b", drops=True),
}


@pytest.mark.parametrize("name", PAIRS)
def test_nothing_is_lost(
    name: str, s3: SlowS3, pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "REMOTE_MILLIS", 500)
    race = partial(_race, PAIRS[name], s3, pristine, tmp_path)
    with without_lease(), ThreadPoolExecutor(len(LATER_SECONDS)) as pool:
        assert list(pool.map(race, LATER_SECONDS)) == [[] for _ in LATER_SECONDS]


def _race(pair: Pair, s3: SlowS3, pristine: Path, tmp_path: Path, later: float) -> list[str]:
    """What does not hold after one round."""
    folder = tmp_path / f"round-{later}"
    warehouse = s3.place(Path(shutil.copytree(pristine, folder)))
    ended = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(_beside, pair, s3, warehouse, later, ended)
        try:
            report = run_job(warehouse, *OURS[pair.a], storage=s3.store.options)
        finally:
            ended.set()
        reports, acknowledged = other.result()
    problems = [
        f"{r.job}: {r.error!r}"
        for r in (report, *reports)
        if r.error is not None and not isinstance(r.error, PaimonError)
    ]
    local = s3.fetch(warehouse, folder)
    problems += broken(local)
    problems += missing(acknowledged, _keys(local, pair.writes_to), dropped=pair.drops)
    return problems or misplaced(local)


def _beside(
    pair: Pair, s3: SlowS3, warehouse: str, later: float, ended: threading.Event
) -> tuple[list[Report], list[int]]:
    """The other job's report, or the keys of the writer's commits."""
    time.sleep(later)
    if pair.b is not None:
        return [run_job(warehouse, *OURS[pair.b], storage=s3.store.options)], []
    acknowledged = []
    for key in range(1000, 1100):
        step = {"rows": [[key, "beside", DAY]], "branch": pair.writes_to}
        if "error" not in s3.write(warehouse, step):
            acknowledged.append(key)
        if ended.is_set():
            break
    return [], acknowledged


def _keys(warehouse: Path, branch: str | None) -> set[int]:
    """The keys that are there, none if the branch is gone."""
    answer = run_step({"op": "read", **at(str(warehouse)), "branch": branch})
    return {row[1] for row in answer.get("rows", ())}


# --- writers ------------------------------------------------------------------------------------

WRITERS, COMMITS = 8, 50
"""So 100 commits in all, without faults and with them."""


@pytest.fixture(scope="module")
def writers() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["replay"])
    with ProcessPoolExecutor(WRITERS, mp_context=context) as pool:
        yield pool


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_the_rows_of_the_winners_are_there_once(
    share: float, s3: SlowS3, writers: ProcessPoolExecutor, tmp_path: Path
) -> None:
    with slow_store(s3.store.server) as store:
        warehouse = _log(store)
        store.add(Fault("answer", share=share))
        store.add(Fault("lose reply", share=share))
        keys = [range(n, COMMITS, WRITERS) for n in range(WRITERS)]
        answers: dict[int, str] = {}
        for part in writers.map(_append, [warehouse] * WRITERS, [store.options] * WRITERS, keys):
            answers |= part
        hit = sum(f.hits for f in store.faults)
    assert (hit > 0) == (share > 0)
    won = {key for key, error in answers.items() if not error}
    unknown = {key for key, error in answers.items() if error == "CommitStateUnknown"}
    assert len(won) > COMMITS * 0.9, answers
    local = s3.fetch(warehouse, tmp_path)
    assert broken(local) == []
    found = [row[1] for row in run_step({"op": "read", **at(str(local))})["rows"]]
    assert len(found) == len(set(found)), "a commit was made twice"
    assert won <= set(found) <= won | unknown


def _log(store: SlowStore) -> str:
    """The warehouse of a new append table, in which a commit that is made twice shows."""
    warehouse = store.new_root()
    catalog = FileSystemCatalog(warehouse, store.server.options)
    catalog.create_database("db")
    options = {
        "bucket": "-1",
        "write-only": "true",
        "commit.max-retries": "1000",
        # So long that a commit is mostly done before the next is tried.
        "commit.min-retry-wait": "100 ms",
        "commit.max-retry-wait": "1 s",
    }
    schema = create_schema([Column("k", "INT")], now_millis=1, options=options)
    catalog.create_table("db.t", schema)
    return warehouse


def _append(warehouse: str, storage: Mapping[str, str], keys: range) -> dict[int, str]:
    """What each commit of one row ended with: a type of error, or nothing."""
    table = open_table(warehouse, "db.t", file_io_options=storage)
    answers: dict[int, str] = {}
    for key in keys:
        writer = TableWriter(table, env=ENV)
        writer.write(pa.table({"k": pa.array([key], pa.int32())}))
        try:
            commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)
            answers[key] = ""
        except PaimonError as e:
            answers[key] = type(e).__name__
    return answers
