"""Settings of the process, in the command line and in executors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paimon_maintenance.engines.process import SETTINGS, executor_settings, prepare_libraries

LOOK = """
import gc, os, sys
import paimon_maintenance.engines.process
assert not {"pyarrow", "numpy"} & set(sys.modules), "they read their settings when they are loaded"
import paimon_maintenance.cli.__main__
print(*(os.environ[name] for name in paimon_maintenance.engines.process.SETTINGS))
assert gc.get_threshold()[0] > 100_000
"""


def test_the_command_line_sets_them_before_the_libraries_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == list(SETTINGS.values())


def test_what_the_environment_sets_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMALLOC_PURGE_DELAY", "0")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    prepare_libraries()
    assert executor_settings() == {
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "0",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
