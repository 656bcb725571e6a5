"""Fixtures that all tests share: golden tables, the live oracle, Flink."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import scratch
from hypothesis import HealthCheck, settings
from lakes import Lake
from long_run import LONG, examples
from metastore_process import HiveMetastore
from postgres import postgres_server

from oracle import VERSIONS, FlinkSql, Oracle, OracleProcess, RestServer, skip_without
from paimon_core.retention import store_clock
from paimon_maintenance.engines.spark.class_archive import (
    SUBMIT_OPTIONS,
    ArchiveFailed,
    archive_in,
    make_archive,
)
from paimon_maintenance.jobs.versions import inflight_commits

GOLDEN = Path(__file__).parent / "golden"

# Seconds say nothing on a busy machine, failing examples are printed and not kept in a folder, and
# every run tries the same ones.  HYPOTHESIS_PROFILE=thorough tries many others.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
    max_examples=examples(60),
)
settings.register_profile(
    "thorough", parent=settings.get_profile("default"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Fixtures that need something which not every machine has, and the marker their tests get.
MARKED_FIXTURES = {
    "oracle": "oracle",
    "oracle_1_4_2": "oracle",
    "oracle_2_0_0": "oracle",
    "flink_sql": "flink",
    "rest_server": "oracle",
    "start_rest_server": "oracle",
    "hive_metastore": "oracle",
}
_airflow_home = pytest.StashKey[str]()
_scratch = pytest.StashKey[Path | None]()

DATABASES = ("sqlite", "postgres")

# With Airflow, Spark or both, which take several cores and much memory: one at a time, or one of each
# where there is room for both.
HEAVY = {"tests/airflow/": "airflow", "tests/e2e/": "airflow", "tests/spark/": "spark"}
MOST_WORKERS = 4
# What a worker and its JVMs may take.
WORKER_BYTES = 3 * 1024**3
ROOM_FOR_BOTH = 5 * WORKER_BYTES


def pytest_configure(config: pytest.Config) -> None:
    """Keeps tests away from the caller's Airflow: a home of their own, before anything imports it."""
    config.stash[_scratch] = scratch.make()
    config.stash[_airflow_home] = os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
    for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_"))]:
        del os.environ[name]
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    # Files carry the wall clock of whoever wrote them: ours, Java and Spark must go by the same.
    os.environ["TZ"] = "UTC"
    time.tzset()
    # Nor does a test write into the caller's history.
    os.environ["CARETAKER_HISTORY_URL"] = "none"
    # No JVM of a test lives long enough to earn back what the better compiler costs: with the quick
    # one alone, JVMs take a third less of CPU.
    options, quick = os.environ.get("JDK_JAVA_OPTIONS", ""), "-XX:TieredStopAtLevel=1"
    if "TieredStopAtLevel" not in options:
        place = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
        os.environ["JDK_JAVA_OPTIONS"] = f"{options} {quick} {place}".strip()
    if config.getoption("numprocesses", 0) and not hasattr(config, "workerinput"):
        # Before the workers start, which inherit it.
        _use_archive(config.cache.mkdir("classes"))


def _use_archive(folder: Path) -> None:
    """Have drivers start with the archive in this folder, which is made if it is not there."""
    with suppress(ArchiveFailed):
        archive = archive_in(folder)
        if not archive.exists():
            make_archive(folder)
        # This collector takes the least of a processor where little memory is used.
        os.environ[SUBMIT_OPTIONS] = (
            f"-XX:+UseSerialGC -XX:SharedArchiveFile={archive} -Xlog:disable"
        )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty warehouse; a test file that needs tables in it overrides this fixture with its own."""
    return Lake(tmp_path)


@pytest.fixture(autouse=True)
def no_wait_for_inflight_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that remove history have no Java writer in flight, unless they say so."""
    monkeypatch.setattr(inflight_commits, "LOCAL_MILLIS", 0)


@pytest.fixture(autouse=True)
def no_memory_of_the_clock_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that count the changes of a run need the same ones in each run."""
    monkeypatch.setattr(store_clock, "VALID_MILLIS", 0)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The SQLAlchemy URL of a PostgreSQL server that lives as long as the tests."""
    yield from postgres_server()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _airflow_home in config.stash:
        shutil.rmtree(config.stash[_airflow_home], ignore_errors=True)
    if (folder := config.stash.get(_scratch, None)) is not None:
        scratch.remove(folder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in MARKED_FIXTURES:
                item.add_marker(MARKED_FIXTURES[fixture])
    if not LONG:
        left_out = {item for item in items if item.get_closest_marker("long")}
        left_out |= set(_with_the_other_java(items))
        left_out |= set(_with_the_other_database(items))
        left_out |= set(_not_sampled([item for item in items if item not in left_out]))
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    # Of two workers, one starts with what is heavy, the other with what asks the oracle, so that only
    # one has its JVMs.  The many short files come last: they end both at about the same time.
    asking = {item.path for item in items if item.get_closest_marker("oracle")}
    items.sort(key=lambda item: (not _is_heavy(item.nodeid), item.path not in asking))


def _with_the_other_java(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of cases that differ only in the version of Java, all but one: versions take turns.

    With live Java, and in tests marked `one_java`, whose tables were written by both.
    """
    asked = (i for i in items if i.get_closest_marker("oracle") or i.get_closest_marker("one_java"))
    return _alike(asked, VERSIONS)


def _with_the_other_database(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of tests marked `one_database`, all but one of the databases that hold the history."""
    return _alike((i for i in items if i.get_closest_marker("one_database")), DATABASES)


def _alike(items: Iterable[pytest.Item], values: Sequence[str]) -> Iterator[pytest.Item]:
    """Of cases that differ only in one of these values, all but one: the values take turns."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        value = next((v for v in values if v in item.nodeid.rpartition("[")[2]), None)
        if value is not None:
            cases.setdefault(item.nodeid.replace(value, "*"), []).append(item)
    for case, several in cases.items():
        kept = zlib.crc32(case.encode()) % len(several)
        yield from (item for i, item in enumerate(several) if i != kept)


def _not_sampled(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test marked `sampled`, all but one of three cases, or of as many as the marker's `one_of` says.

    In the order of a hash, from the case with the number `first` on: the order of the parameters would
    leave out all cases with some value of the last one.  A case that is named alone runs.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for several in cases.values():
        several.sort(key=lambda item: zlib.crc32(item.nodeid.partition("[")[2].encode()))
        marker = several[0].get_closest_marker("sampled")
        asked = {} if marker is None else marker.kwargs
        one_of = min(asked.get("one_of", 3), len(several))
        first = asked.get("first", 0) % one_of
        yield from (item for i, item in enumerate(several) if i % one_of != first)


def _is_heavy(nodeid: str) -> bool:
    return nodeid.startswith(tuple(HEAVY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes `-n auto` means; 0, which is this one alone, for files that are named.

    Two more than there are cores: many tests wait for a JVM, a store or the clock.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS or config.option.capture == "no":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = min((cores or 1) + 2, _memory_bytes() // WORKER_BYTES, MOST_WORKERS)
    return workers if workers > 1 else 0


def _heavy_scope(nodeid: str, workers: int) -> str:
    """What runs in one worker: one of the two kinds of heavy tests, or both."""
    both = workers == MOST_WORKERS and _memory_bytes() >= ROOM_FOR_BOTH
    return next(kind for top, kind in HEAVY.items() if nodeid.startswith(top)) if both else "heavy"


def _memory_bytes() -> int:
    """What the machine has, or the container may take."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    container = limit.read_text().strip() if limit.exists() else "max"
    return min(machine, int(container)) if container.isdecimal() else machine


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole files, in our order, and what is heavy together."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if _is_heavy(nodeid):
                return _heavy_scope(nodeid, self.numnodes)
            file = nodeid.split("::", 1)[0]
            return "hive" if file.startswith("tests/conformance/test_hive_") else file

    config.option.loadscopereorder = False  # it would begin with the files of most tests
    return ByFile(config, log)


@dataclass(frozen=True)
class GoldenCopy:
    """A table that Java Paimon wrote, in place (never to be changed) or as a copy for one test."""

    warehouse: Path
    expected_file: Path

    @property
    def table(self) -> str:
        return "db.t"

    @property
    def root(self) -> Path:
        """The table's own folder."""
        return self.warehouse / "db.db" / "t"

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What Java says about the table (tests/golden/README.md)."""
        expected: dict[str, Any] = json.loads(self.expected_file.read_text(encoding="utf-8"))
        return expected


@pytest.fixture
def golden(tmp_path: Path) -> Callable[..., GoldenCopy]:
    """``golden("dedup", "1.4.2")``: the table in place; with ``copy=True`` one to change."""

    def get(name: str, version: str = "1.4.2", *, copy: bool = False) -> GoldenCopy:
        folder = GOLDEN / version / name
        warehouse = folder / "warehouse"
        if copy:
            warehouse = tmp_path / f"golden-{version}-{name}"
            shutil.copytree(folder / "warehouse", warehouse)
        return GoldenCopy(warehouse, folder / "expected.json")

    return get


class _Oracles:
    """The open processes of this session, started at first use; a dead one is replaced."""

    def __init__(self, *, hive: bool = False) -> None:
        self._open: dict[str, OracleProcess] = {}
        self._hive = hive

    def of(self, version: str) -> Oracle:
        skip_without()
        process = self._open.get(version)
        if process is None or not process.alive:
            process = self._open[version] = OracleProcess(version, hive=self._hive)
        return Oracle(process)

    def close(self) -> None:
        for process in self._open.values():
            process.close()


@pytest.fixture(scope="session")
def oracles() -> Iterator[_Oracles]:
    open_ones = _Oracles()
    yield open_ones
    open_ones.close()


@pytest.fixture(params=VERSIONS)
def oracle(request: pytest.FixtureRequest, oracles: _Oracles) -> Oracle:
    """The live oracle; the test runs once with each version of Java Paimon."""
    return oracles.of(request.param)


@pytest.fixture
def oracle_1_4_2(oracles: _Oracles) -> Oracle:
    return oracles.of("1.4.2")


@pytest.fixture
def oracle_2_0_0(oracles: _Oracles) -> Oracle:
    return oracles.of("2.0.0")


@pytest.fixture
def flink_sql(tmp_path: Path) -> FlinkSql:
    """Runs SQL in a local Flink with the official connector."""
    skip_without()
    return FlinkSql(tmp_path)


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A Hive metastore that all tests share: each works in databases of its own."""
    skip_without()
    metastore = HiveMetastore(tmp_path_factory.mktemp("hive"))
    yield metastore
    metastore.end()


@pytest.fixture(scope="session")
def hive_oracles() -> Iterator[_Oracles]:
    """Oracles with Hive's client, which those of other tests do without."""
    open_ones = _Oracles(hive=True)
    yield open_ones
    open_ones.close()


@pytest.fixture(scope="session")
def start_rest_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., RestServer]]:
    """Starts REST catalog servers, which end with the tests; a start costs about two seconds."""
    skip_without()
    started: list[RestServer] = []

    def start(*arguments: str) -> RestServer:
        started.append(RestServer(tmp_path_factory.mktemp("rest"), *arguments))
        return started[-1]

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="session")
def rest_server(start_rest_server: Callable[..., RestServer]) -> RestServer:
    """A REST catalog server that many tests share: each works in databases of its own."""
    return start_rest_server()
