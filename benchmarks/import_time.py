"""What importing paimon_core costs a process beyond pyarrow: least seconds and CPU seconds.

    python benchmarks/import_time.py
    python benchmarks/import_time.py --times 20

To reach: 0.5 s beyond pyarrow.  `caretaker read` of a small table is there for comparison: start to
end.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
GOLDEN = CHECKOUT / "tests/golden/1.4.2/dedup_write_only/warehouse"
TARGET = 0.5
MODULES = (
    "paimon_core.table.open",
    "paimon_core.read.table_read",
    "paimon_core.write.row_writer",
    "paimon_core.commit.committer",
    "paimon_core.compaction.rewrite",
)


def main() -> int:
    """0 if every import stays within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    base, base_cpu = _least(["-c", "import pyarrow"], times)
    print(f"{'pyarrow':38} {base:6.2f} s  {base_cpu:5.2f} CPU s")
    worst = 0.0
    for module in MODULES:
        seconds, cpu = _least(["-c", f"import {module}"], times)
        worst = max(worst, cpu - base_cpu)
        print(
            f"{module:38} {seconds:6.2f} s  {cpu:5.2f} CPU s, beyond pyarrow {cpu - base_cpu:5.2f}"
        )
    read = ["-m", "paimon_maintenance.cli", "read", "db.t", "-w", str(GOLDEN)]
    seconds, cpu = _least(read, times)
    print(f"{'caretaker read, a small table':38} {seconds:6.2f} s  {cpu:5.2f} CPU s")
    return 0 if worst <= TARGET else 1


def _least(arguments: list[str], times: int) -> tuple[float, float]:
    """(seconds, CPU seconds) of the fastest of this many processes; files are cached after one."""
    paths = os.pathsep.join(str(CHECKOUT / p) for p in ("", "maintenance", "plugins", "dags"))
    environment = {**os.environ, "PYTHONPATH": paths}
    best, best_cpu = float("inf"), float("inf")
    for _ in range(times + 1):
        before = _children_cpu()
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
        )
        best = min(best, time.perf_counter() - started)
        best_cpu = min(best_cpu, _children_cpu() - before)
    return best, best_cpu


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
