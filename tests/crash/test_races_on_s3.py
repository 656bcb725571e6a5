"""Races on a slow S3 store: jobs beside jobs, jobs beside writers, writers beside writers.

Two jobs wait for each other before the change that endangers the other; from there on, each request
takes 30 ms more, and they interleave as they come.  Nobody takes the lease: the proofs alone have to
hold, as against Java.  Longer: `natural_races.py --s3`.
"""

from __future__ import annotations

import multiprocessing
import re
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
from harness import do, run_job
from natural_stores import DAY, SlowS3, at, broken, misplaced, missing, slow_s3
from race_tables import TABLES
from races import OURS
from replay import run_step
from slow_store import CONDITIONAL_PUT, DELETE, DELETE_MANY, PUT, Fault, SlowStore, slow_store
from without_lease import without_lease

from paimon_core.catalog.filesystem import FileSystemCatalog
from paimon_core.commit.committer import commit
from paimon_core.ddl.create import Column, create_schema
from paimon_core.environment import system_environment
from paimon_core.errors import PaimonError
from paimon_core.table.open import open_table
from paimon_core.write.row_writer import RowWriter
from paimon_maintenance.job.report import Report
from paimon_maintenance.jobs.versions import inflight_commits

pytestmark = [pytest.mark.crash, pytest.mark.s3, pytest.mark.slow]
ENV = system_environment()
HEAD_STARTS = (0.0, 0.3, -0.8)
"""So many seconds after they met does B go on later than A."""
MEETING_SECONDS = 10.0


@pytest.fixture(scope="module")
def s3() -> Iterator[SlowS3]:
    with slow_s3() as store:
        yield store


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("races-on-s3") / "pristine"
    TABLES["primary key"](place)
    return place


Job = tuple[str, Mapping[str, object]]
Change = tuple[str, str]
"""The kind of a request, and what its key must match."""
REMOVES_SNAPSHOT: Change = (DELETE, r"/t/snapshot/snapshot-\d+$")
EXPIRES: Change = (DELETE, r"/t/snapshot/snapshot-3$")
ROLLS_BACK: Change = (DELETE, r"/t/snapshot/snapshot-5$")
COMMITS: Change = (CONDITIONAL_PUT, r"/t/snapshot/snapshot-\d+$")
COMMITS_TO_BRANCH: Change = (CONDITIONAL_PUT, r"/branch-b/snapshot/snapshot-\d+$")
WRITES_DATA: Change = (PUT, r"/bucket-0/data-")
DELETES_FOLDER: Change = (DELETE_MANY, "")
DELETES_TAG: Change = (DELETE, r"/tag/tag-bare$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A job, and beside it another or a writer; the changes before which they meet.

    `drops`: whether A was asked to drop commits.  `compacted`: whether the table was compacted, so
    that only the tag "bare" holds what it was before.
    """

    a: Job
    a_at: Change
    b_at: Change
    b: Job | None = None
    writes_to: str | None = None
    drops: bool = False
    compacted: bool = False


PAIRS = {
    "rollback beside expire_snapshots": Pair(
        a=OURS["rollback"], a_at=ROLLS_BACK, b=OURS["expire_snapshots"], b_at=EXPIRES
    ),
    "rollback beside a writer": Pair(
        a=OURS["rollback"], a_at=ROLLS_BACK, writes_to="main", b_at=COMMITS, drops=True
    ),
    "fast_forward beside a writer to the branch": Pair(
        a=OURS["fast_forward"], a_at=REMOVES_SNAPSHOT, writes_to="b", b_at=COMMITS_TO_BRANCH
    ),
    "rollback_to_as_latest beside delete_tag": Pair(
        a=("rollback_to_as_latest", {"tag": "bare"}),
        a_at=COMMITS,
        b=("delete_tag", {"tag": ["bare"]}),
        b_at=DELETES_TAG,
        compacted=True,
    ),
    "delete_branch beside a writer to it": Pair(
        a=OURS["delete_branch"], a_at=DELETES_FOLDER, writes_to="b", b_at=WRITES_DATA, drops=True
    ),
}


class Meeting:
    """A and B wait for each other, once, before their changes; or until one of them has ended."""

    def __init__(self, pair: Pair, bucket: str, head_start: float) -> None:
        self.bucket = bucket
        self.ended = threading.Event()
        self.took_place = False
        self._changes = (pair.a_at, pair.b_at)
        self._waits = (max(0.0, -head_start), max(0.0, head_start))
        self._come = (threading.Event(), threading.Event())

    def before(self, kind: str, key: str) -> None:
        """For `SlowStore.before`."""
        for i, (wanted, pattern) in enumerate(self._changes):
            if kind != wanted or not re.search(pattern, key) or self._come[i].is_set():
                continue
            self._come[i].set()
            until = time.monotonic() + MEETING_SECONDS
            other = self._come[1 - i]
            while not other.wait(0.02) and not self.ended.is_set() and time.monotonic() < until:
                pass
            self.took_place = self.took_place or other.is_set()
            time.sleep(self._waits[i])


@pytest.mark.sampled(one_of=6)
@pytest.mark.parametrize("name", PAIRS)
def test_nothing_is_lost(
    name: str, s3: SlowS3, pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight_commits, "REMOTE_MILLIS", 500)
    meetings: list[Meeting] = []

    def before(kind: str, key: str) -> None:
        for meeting in meetings:
            if key.startswith(meeting.bucket):
                meeting.before(kind, key)

    monkeypatch.setattr(s3.store, "before", before)
    race = partial(_race, PAIRS[name], s3, pristine, tmp_path, meetings)
    with without_lease(), ThreadPoolExecutor(len(HEAD_STARTS)) as pool:
        assert list(pool.map(race, HEAD_STARTS)) == [[] for _ in HEAD_STARTS]
    assert any(meeting.took_place for meeting in meetings), "they never met"


def _race(
    pair: Pair,
    s3: SlowS3,
    pristine: Path,
    tmp_path: Path,
    meetings: list[Meeting],
    head_start: float,
) -> list[str]:
    """What does not hold after one round."""
    folder = tmp_path / f"round {head_start}"
    shutil.copytree(pristine, folder)
    if pair.compacted:
        do(folder, "create_tag", name="bare")
        do(folder, "compact", full=True)
        do(folder, "expire_snapshots", retain_max=1, retain_min=1)
    warehouse = s3.place(folder)
    meeting = Meeting(pair, warehouse.split("/")[2], head_start)
    meetings.append(meeting)
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(_beside, pair, s3, warehouse, meeting)
        try:
            report = run_job(warehouse, *pair.a, storage=s3.store.options)
        finally:
            meeting.ended.set()
        reports, acknowledged = other.result()
    problems = [
        f"{r.job}: {r.error!r}"
        for r in (report, *reports)
        if r.error is not None and not isinstance(r.error, PaimonError)
    ]
    local = s3.fetch(warehouse, folder)
    problems += broken(local)
    problems += missing(acknowledged, _keys(local, pair.writes_to), dropped=pair.drops)
    return problems or misplaced(local, leased=False)


def _beside(
    pair: Pair, s3: SlowS3, warehouse: str, meeting: Meeting
) -> tuple[list[Report], list[int]]:
    """The other job's report, or the keys of the writer's commits."""
    if pair.b is not None:
        report = run_job(warehouse, *pair.b, storage=s3.store.options)
        meeting.ended.set()
        return [report], []
    acknowledged = []
    for key in range(1000, 1100):
        step = {"rows": [[key, "beside", DAY]], "branch": pair.writes_to}
        if "error" not in s3.write(warehouse, step):
            acknowledged.append(key)
        if meeting.ended.is_set():
            break
    return [], acknowledged


def _keys(warehouse: Path, branch: str | None) -> set[int]:
    """The keys that are there, none if the branch is gone."""
    answer = run_step({"op": "read", **at(str(warehouse)), "branch": branch})
    return {row[1] for row in answer.get("rows", ())}


# --- writers ------------------------------------------------------------------------------------

WRITERS, ROWS = 8, 50
"""So 100 commits in all, without faults and with them."""


@pytest.fixture(scope="module")
def writers() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["replay"])
    with ProcessPoolExecutor(WRITERS, mp_context=context) as pool:
        yield pool


@pytest.mark.long
@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.long), 0.05])
def test_the_rows_of_the_winners_are_there_once(
    share: float, s3: SlowS3, writers: ProcessPoolExecutor, tmp_path: Path
) -> None:
    with slow_store(s3.store.server) as store:
        warehouse = _log(store)
        store.add(Fault("answer", share=share))
        store.add(Fault("lose reply", share=share))
        keys = [range(n, ROWS, WRITERS) for n in range(WRITERS)]
        answers: dict[int, str] = {}
        for part in writers.map(_append, [warehouse] * WRITERS, [store.options] * WRITERS, keys):
            answers |= part
        hit = sum(f.hits for f in store.faults)
    assert (hit > 0) == (share > 0)
    won = {key for key, error in answers.items() if not error}
    unknown = {key for key, error in answers.items() if error == "CommitStateUnknown"}
    assert len(won) > ROWS * 0.9, answers
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
        writer = RowWriter(table, env=ENV)
        writer.write(pa.table({"k": pa.array([key], pa.int32())}))
        try:
            commit(table, writer.prepare_commit(), user=ENV.new_uuid(), env=ENV)
            answers[key] = ""
        except PaimonError as e:
            answers[key] = type(e).__name__
    return answers
