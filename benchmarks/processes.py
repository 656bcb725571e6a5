"""Measures steps in processes of their own: what they answer, seconds, and peak memory.

Imports nothing large: Linux counts the memory of the parent at the time of the fork as the child's.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_maintenance.engines.process import SETTINGS

_FLOORS = ("floor", "copy")
_MEGABYTE_IN_KB = 1024 if sys.platform != "darwin" else 1024 * 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """A process that has ended well; `answers` are its lines of JSON."""

    answers: list[dict[str, Any]]
    wall_seconds: float
    cpu_seconds: float
    peak_mb: float
    lines: list[str]
    """Everything that it printed."""
    memory: list[tuple[float, float]]
    """(seconds since the start, resident megabytes), if samples were wanted."""

    @property
    def answer(self) -> dict[str, Any]:
        """The last line."""
        return self.answers[-1]


def with_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, in which Python keeps what it compiles, as an installation does."""
    return {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(
    command: Sequence[str],
    *,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    sample_seconds: float | None = None,
) -> Measured:
    """The measured process, which was given `text`; SystemExit if it failed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**with_bytecode(os.environ), **(environment or {})},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    memory: list[tuple[float, float]] = []
    ended = threading.Event()
    watcher = threading.Thread(
        target=_sample, args=(process.pid, sample_seconds or 0, started, memory, ended)
    )
    if sample_seconds:
        watcher.start()
    try:
        process.stdin.write(text)
        process.stdin.close()
        lines = process.stdout.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        ended.set()
        if sample_seconds:
            watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed: {lines[-1] if lines else process.returncode}")
    return Measured(
        answers=[json.loads(line) for line in lines if line.startswith("{")],
        wall_seconds=time.perf_counter() - started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / _MEGABYTE_IN_KB,
        lines=lines,
        memory=memory,
    )


def run_step(
    script: str, step: str, *, sample_seconds: float | None = None, **arguments: object
) -> Measured:
    """A step of a benchmark script, in a Python of its own.

    Floors run with the defaults of their libraries, all others with the settings of the command
    line.
    """
    request = json.dumps({"step": step, **arguments})
    settings = {} if step in _FLOORS else SETTINGS
    command = [sys.executable, script, request]
    return run(command, environment=settings, sample_seconds=sample_seconds)


def _sample(
    pid: int,
    every: float,
    started: float,
    memory: list[tuple[float, float]],
    ended: threading.Event,
) -> None:
    while not ended.wait(every):
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1024**2
        memory.append((time.perf_counter() - started, megabytes))


def machine() -> dict[str, object]:
    """What figures depend on: processors, memory, load, versions."""
    return {
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3),
        "load": [round(x, 1) for x in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pyarrow": importlib.metadata.version("pyarrow"),
        "numpy": importlib.metadata.version("numpy"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "")
