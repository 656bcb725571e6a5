"""A driver ends with its supervisor: real processes, one of which is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_until

from paimon_maintenance.engines.lifeline import (
    ENDED_WITH_SUPERVISOR,
    Supervised,
    driver_has_ended,
    held_lifeline,
)

DRIVER = """\
import sys, time
from paimon_maintenance.engines.lifeline import Supervised

supervised = Supervised(sys.argv[1])
if sys.argv[2] == "watch":
    supervised.watch()
print("ready", flush=True)
sys.stdin.readline()
supervised.check()
print("committed", flush=True)
time.sleep(60)
"""
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def driver(lifeline: Path, how: str = "watch") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(lifeline), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENV,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_it_works_while_the_lifeline_is_held_and_ends_when_it_is_let_go(tmp_path):
    with held_lifeline(tmp_path) as lifeline:
        process = driver(lifeline)
        assert line(process) == "ready"
        go_on(process)
        assert line(process) == "committed"
        assert process.poll() is None
    assert process.wait(30) == ENDED_WITH_SUPERVISOR


def test_it_does_not_commit_after_its_supervisor_even_if_it_has_not_noticed(tmp_path):
    with held_lifeline(tmp_path) as lifeline:
        process = driver(lifeline, "asks only")
        assert line(process) == "ready"
    go_on(process)
    assert line(process) == ""
    assert process.wait(30) == ENDED_WITH_SUPERVISOR


def test_a_supervisor_that_is_gone_before_the_driver_starts_is_noticed(tmp_path):
    with held_lifeline(tmp_path) as lifeline:
        pass
    assert driver(lifeline).wait(30) == ENDED_WITH_SUPERVISOR
    lifeline.unlink()
    assert driver(lifeline).wait(30) == ENDED_WITH_SUPERVISOR


def test_a_driver_that_has_not_ended_is_waited_for(tmp_path, monkeypatch):
    with held_lifeline(tmp_path) as lifeline:
        process = driver(lifeline, "asks only")
        assert line(process) == "ready"
    monkeypatch.setattr("paimon_maintenance.engines.lifeline._DRIVER_SECONDS", 0.2)
    assert not driver_has_ended(lifeline)
    process.kill()
    process.wait()
    assert driver_has_ended(lifeline)


@pytest.mark.parametrize("killed", ["supervisor", "its parent"])
def test_a_killed_supervisor_lets_go(tmp_path, killed):
    supervisor = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from paimon_maintenance.engines.lifeline import held_lifeline\n"
        "with held_lifeline(Path(sys.argv[1])):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = (
        "import subprocess, sys\n"
        f"subprocess.call([sys.executable, '-c', {supervisor!r}, sys.argv[1]])\n"
    )
    command = [sys.executable, "-c", parent, str(tmp_path)]
    outer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV)
    inner = int(line(outer))
    process = driver(tmp_path / "lifeline")
    assert line(process) == "ready"
    try:
        os.kill(inner if killed == "supervisor" else outer.pid, 9)
        assert process.wait(30) == ENDED_WITH_SUPERVISOR
    finally:
        outer.kill()
        outer.wait()
        if killed != "supervisor":
            os.kill(inner, 9)


def test_a_driver_ends_with_its_parent_too(tmp_path):
    parent = (
        "import subprocess, sys\n"
        f"driver = subprocess.Popen([sys.executable, '-c', {DRIVER!r}, sys.argv[1], 'watch'],"
        " stdin=subprocess.PIPE)\n"
        "print(driver.pid, flush=True)\n"
        "driver.wait()\n"
    )
    with held_lifeline(tmp_path) as lifeline:
        command = [sys.executable, "-c", parent, str(lifeline)]
        outer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV)
        pid = int(line(outer))
        assert line(outer) == "ready"
        outer.kill()
        outer.wait()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), lambda: f"{pid} still runs")


def test_checking_costs_next_to_nothing(tmp_path):
    with held_lifeline(tmp_path) as lifeline:
        supervised = Supervised(lifeline)
        for _ in range(10_000):
            supervised.check()


def test_work_in_a_task_runner_ends_with_the_runners_supervisor(tmp_path):
    work = (
        "import sys\n"
        "from paimon_maintenance.engines.lifeline import ends_with_parent\n"
        "check = ends_with_parent()\n"
        "check()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "check()\n"
        "print('committed', flush=True)\n"
    )
    parent = f"import subprocess, sys\nsubprocess.call([sys.executable, '-c', {work!r}])\n"
    reading, writing = os.pipe()
    command = [sys.executable, "-c", parent]
    outer = subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE, text=True, env=ENV)
    assert line(outer) == "ready"
    outer.kill()
    outer.wait()
    os.write(writing, b"\n")
    os.close(writing)
    os.close(reading)
    assert line(outer) == ""
