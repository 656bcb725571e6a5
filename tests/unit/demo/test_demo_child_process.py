"""Nothing outlives whoever started it: children that hide, ignore signals, or lost their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paimon_maintenance.demo.child_process import ChildProcess
from paimon_maintenance.demo.supervisor import descendants

ROOT = Path(__file__).resolve().parents[3]
SLEEPS = "31557600"
PATIENCE_SECONDS = 120
# A grandchild in a session of its own whose parent is gone, and a child that ignores TERM.
NASTY = f"""\
import os, signal, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execlp("sleep", "sleep", "{SLEEPS}")
    os._exit(0)
os.wait()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep({SLEEPS})
"""
# Its first thread has ended, so it looks like a zombie, but another one lives and has a child.
HEADLESS = f"""\
import ctypes, platform, subprocess, threading, time
from pathlib import Path
def go_on():
    subprocess.Popen(["sleep", "{SLEEPS}"])
    while ") Z " not in Path("/proc/self/stat").read_text():
        time.sleep(0.05)
    print("up", flush=True)
    time.sleep({SLEEPS})
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall({{"x86_64": 60, "aarch64": 93}}[platform.machine()], 0)
"""
OWNER = """\
import os, sys, time
from pathlib import Path
from paimon_maintenance.demo.child_process import ChildProcess
child = ChildProcess([sys.executable, "-c", sys.argv[1]], env=dict(os.environ), log=Path(sys.argv[2]))
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")


def wait_for(text: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not log.exists() or text not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stopping_ends_every_descendant(tmp_path, monkeypatch):
    log = tmp_path / "log"
    with ChildProcess([sys.executable, "-c", NASTY], env=dict(os.environ), log=log) as child:
        wait_for("up", log)
        alive = descendants(child._supervisor.pid)
        assert len(alive) == 2
        assert child.exit_code is None
    assert child.exit_code == 128 + signal.SIGTERM
    assert not [pid for pid in alive if Path(f"/proc/{pid}").exists()]


def test_a_process_without_its_first_thread_is_ended_with_its_children(tmp_path):
    log = tmp_path / "log"
    with ChildProcess([sys.executable, "-c", HEADLESS], env=dict(os.environ), log=log) as child:
        wait_for("up", log)
        alive = descendants(child._supervisor.pid)
        assert len(alive) == 2
    assert not [pid for pid in alive if Path(f"/proc/{pid}").exists()]


def test_the_death_of_the_owner_ends_everything_too(tmp_path):
    log = tmp_path / "log"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, NASTY, str(log)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'maintenance'}"},
    )
    wait_for("up", log)
    alive = descendants(owner.pid)
    assert len(alive) == 3
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while [pid for pid in alive if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_command_that_ends_by_itself_tells_its_exit_code(tmp_path):
    log = tmp_path / "log"
    child = ChildProcess(
        [sys.executable, "-c", "print('so'); exit(7)"], env=dict(os.environ), log=log
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while child.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert child.exit_code == 7
    assert child.tail() == "so"
    child.stop()
