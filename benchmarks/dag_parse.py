"""How long Airflow needs for the DAG file, beyond importing Airflow itself.

    ./caretaker python benchmarks/dag_parse.py [--times N]

Each time in a process of its own, as the DAG processor does it, once after Airflow's task SDK was
imported (what a DAG file must import anyway) and once after all that a DAG processor has imported
before it reads a file.  The first run of each may compile; the median is what counts.
To reach: under 0.2 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET_SECONDS = 0.2
CASES = {
    "after airflow.sdk": "import airflow.sdk",
    "in a DAG processor": "import airflow.sdk, airflow.dag_processing.processor",
}
PARSE = """\
{before}
import runpy, sys, time
started = time.perf_counter()
runpy.run_path(sys.argv[1])
print(time.perf_counter() - started)
"""


def main() -> int:
    """0 if the median is within the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    worst = 0.0
    with tempfile.TemporaryDirectory() as home:
        for name, before in CASES.items():
            seconds = sorted(_parse(before, home) for _ in range(times))
            median = statistics.median(seconds)
            worst = max(worst, median)
            print(
                f"{name:20} median {median:.3f} s, min {seconds[0]:.3f}, max {seconds[-1]:.3f} "
                f"({times} times)"
            )
    print(f"target {TARGET_SECONDS} s: {'reached' if worst < TARGET_SECONDS else 'MISSED'}")
    return int(worst >= TARGET_SECONDS)


def _parse(before: str, home: str) -> float:
    paths = [str(ROOT), *(str(ROOT / p) for p in ("maintenance", "plugins", "dags"))]
    done = subprocess.run(
        [sys.executable, "-c", PARSE.format(before=before), str(ROOT / "dags" / "caretaker.py")],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "AIRFLOW_HOME": home, "PYTHONPATH": os.pathsep.join(paths)},
    )
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
