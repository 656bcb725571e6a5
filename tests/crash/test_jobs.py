"""Every job of the registry, with every single file operation failing once, and killed at each.

The cases are in cases_*.py, what has to hold in harness.py.  A quarter of the cases meets the failures,
another quarter is killed (CARETAKER_LONG=1: each case both).  Covered are:

- changes (FileIO calls that write, delete or rename) fail before or after they took effect, the process
  alive: the first of each kind both ways, every other one of the others in turns, and a sample of the
  reads (CARETAKER_LONG=1: each change both ways, and each read);
- the disk is full from a write on, for a sample of the writes (CARETAKER_LONG=1: each);
- a process of its own is killed with SIGKILL before each change, which is also after the one before,
  and after the last; and midway in those that write: half of a file is there, or a temporary one
  (of files that nothing names yet the first of a kind; CARETAKER_LONG=1: each).
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import cases_metadata
import cases_repair
import cases_rewrites
import pytest
from fork_server import ForkServer
from harness import Origin, failures, kills, origin, run_failing

from paimon_core.io import read_retry
from paimon_maintenance.registry import JOBS

pytestmark = pytest.mark.crash
CASES = cases_metadata.CASES | cases_rewrites.CASES | cases_repair.CASES


def test_every_job_is_covered() -> None:
    # There is no job that changes nothing.
    assert {case.job for case in CASES.values()} == set(JOBS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Origin]:
    """The table of a case and its clean run, made once."""
    made: dict[str, Origin] = {}

    def get(name: str) -> Origin:
        if name not in made:
            made[name] = origin(CASES[name], tmp_path_factory.mktemp("origin"))
        return made[name]

    return get


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing what cannot be read, so it is not tried again."""
    monkeypatch.setattr(read_retry, "WAITS_MILLIS", ())


@pytest.mark.sampled(one_of=20)
@pytest.mark.parametrize("name", CASES)
def test_a_failing_store_leaves_a_table_that_a_second_run_finishes(
    name: str, prepared: Callable[[str], Origin], tmp_path: Path
) -> None:
    of = prepared(name)
    case, failed = of.case, tmp_path / "failed"
    for trigger in failures(of, tmp_path / "reads"):
        of.copy(failed)
        report = run_failing(failed, case.job, case.arguments, trigger)
        assert trigger.fired, trigger
        case.after_failure(failed, report)
        of.run_again(failed, trigger)
        shutil.rmtree(failed)


@pytest.mark.sampled(one_of=20, first=2)
@pytest.mark.parametrize("name", CASES)
def test_a_killed_process_leaves_a_table_that_a_second_run_finishes(
    name: str, prepared: Callable[[str], Origin], forks: ForkServer, tmp_path: Path
) -> None:
    of = prepared(name)
    case, failed = of.case, tmp_path / "failed"
    for trigger in kills(of.calls, copies=case.copies):
        of.copy(failed)
        ended = forks.call("harness", "run_to_death", failed, case.job, case.arguments, trigger)
        assert ended.signal == signal.SIGKILL, (trigger, ended)
        of.run_again(failed, trigger)
        shutil.rmtree(failed)
