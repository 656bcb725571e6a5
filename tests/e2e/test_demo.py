"""`./caretaker demo` as a person runs it, and that nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port

from paimon_maintenance.demo import lake, people
from paimon_maintenance.demo.problems import problem_tables
from paimon_maintenance.history.approval_store import ApprovalStore
from paimon_maintenance.history.lake_view import LakeQuery, lake_page
from paimon_maintenance.history.store import SqlHistory

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
MARK = "CARETAKER_TEST_MARK"
# For a machine much slower than ours: it is only waited for so long when something hangs.
LONGEST_SECONDS = 1500
CLEAN_UP_SECONDS = 120


class Demo:
    """A demo in a session of its own; everything it starts inherits a mark in its environment."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.mark = f"{MARK}={home}"
        self.output = home / "output.txt"
        self.scratch = home / "tmp"
        self.scratch.mkdir(parents=True)
        paths = [str(ROOT), *(str(ROOT / p) for p in ("maintenance", "plugins", "dags"))]
        env = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
        env |= {
            # An empty home, as on a machine that has never seen any of this.
            "HOME": str(home / "home"),
            "TMPDIR": str(self.scratch),
            "PYTHONPATH": os.pathsep.join(paths),
            MARK: str(home),
        }
        (home / "home").mkdir()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "paimon_maintenance.cli", "demo", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=env,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.output.read_text()

    def wait(self) -> int:
        return self.process.wait(LONGEST_SECONDS)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while text not in self.text:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.2)

    def left_behind(self) -> list[str]:
        """What still runs with our mark."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark in (entry / "environ").read_text("latin-1"):
                    found.append((entry / "cmdline").read_text("latin-1").replace("\0", " "))
            except OSError:
                continue
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc to see what is left behind")
    started: list[Demo] = []

    def demo(*arguments: str) -> Demo:
        started.append(Demo(tmp_path / f"demo-{len(started)}", *arguments))
        return started[-1]

    yield demo
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_every_table_gets_well_on_a_lake_made_for_it(start):
    port = free_port()
    demo = start("--exit", "--keep", "--port", str(port))
    assert demo.wait() == 0, demo.text
    assert "Created a lake of 720 files in 160 commits" in demo.text
    assert "DAG caretaker_compact ended with success" in demo.text
    assert "The same rows, in fewer files." in demo.text
    figures = [line.split() for line in demo.text.splitlines()]
    assert ["tags", "none", "end-of-week"] in figures
    assert ["partitions", "3", "2"] in figures
    assert ["snapshots", "42", "(1", "to", "42)", "23", "(20", "to", "42)"] in figures
    assert ["consumers", "nightly-report", "none"] in figures
    assert ["snapshots", "23", "(20", "to", "42)", "1", "(42", "to", "42)"] in figures
    assert ["buckets", "of", "2026-03-03", "5", "10"] in figures
    assert ["files", "of", "no", "snapshot", "10", "0"] in figures
    assert "caretaker verify: clean." in demo.text
    tables = {*lake.TABLES, *(one.table for one in problem_tables())}
    assert f"{len(tables)} tables: 4 red, 21 yellow, 2 green" in demo.text
    assert "1 red, 8 yellow, 18 green" in demo.text
    assert f"{len(tables)} tables: 0 red, 0 yellow, {len(tables)} green" in demo.text
    (folder,) = demo.scratch.glob("caretaker-demo-*")
    history, warehouse = SqlHistory(f"sqlite:///{folder}/airflow/history.db"), str(folder / "lake")
    # What the page shows.
    page = lake_page(history, LakeQuery(warehouse=warehouse))
    assert {row.table: row.color for row in page.rows} == dict.fromkeys(tables, "green")
    # The scheduler's proposal waited in Airflow until the demo's user approved it.
    (asked,) = ApprovalStore(history, warehouse).all(only_waiting=False)
    assert (asked.table, asked.job, asked.reason) == (people.PROPOSED, "rescale", "rescale")
    assert (asked.state, asked.origin, asked.answered_by) == ("used", "airflow", "admin")
    (rescale,) = history.newest(table=people.PROPOSED, job="rescale", status="success")
    assert rescale.actor.startswith("caretaker_rescale proposed__")
    assert demo.left_behind() == []
    assert is_free(port)


@pytest.mark.long
def test_a_table_that_java_wrote_and_ctrl_c(start, golden):
    table = golden("dedup_write_only", copy=True)
    demo = start("--warehouse", str(table.warehouse), "--table", table.table)
    demo.wait_for("Press Ctrl-C to stop everything.")
    assert "Login:    admin /" in demo.text
    assert len(demo.left_behind()) > 4  # it is up
    # As a terminal does it: to the whole foreground group.
    os.killpg(demo.process.pid, signal.SIGINT)
    assert demo.wait() == 0, demo.text
    assert demo.left_behind() == []
    assert list(demo.scratch.glob("caretaker-demo-*")) == []
    assert table.warehouse.exists()


@pytest.mark.parametrize(
    ("when", "how"),
    [
        ("Creating a lake", signal.SIGTERM),
        pytest.param("Created a lake", signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("Creating a lake", signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("Created a lake", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_ended_early_nothing_stays_behind(start, how, when):
    demo = start()
    demo.wait_for(when)
    time.sleep(3)
    demo.process.send_signal(how)
    code = demo.wait()
    assert code == (130 if how == signal.SIGTERM else -signal.SIGKILL)
    # Whoever is killed cannot clean up; what it started notices by itself.
    deadline = time.monotonic() + CLEAN_UP_SECONDS
    while demo.left_behind() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert demo.left_behind() == []


def test_a_port_in_use_is_refused_before_anything_starts(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        demo = start("--exit", "--port", str(taken.getsockname()[1]))
        assert demo.wait() == 2
    assert "is in use" in demo.text
    assert demo.left_behind() == []


def test_half_a_table_is_refused(start):
    demo = start("--warehouse", "/somewhere")
    assert demo.wait() == 2
    assert "must be set together" in demo.text
