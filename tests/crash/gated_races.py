"""Many rounds of races.py, which go on after a round that fails.

    ./caretaker python tests/crash/gated_races.py [--rounds 2500] [--seed 1] [--java 2.0.0] TABLE ...

For each table a sample of all rounds: every job of ours as A, every job of ours and every operation
of Java as B, every k.  Prints a line for each failed round and a summary for each table; exit code 1
if a round failed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER), str(FOLDER.parent / "conformance")]

from race_tables import ALL_TABLES  # noqa: E402 - after the path
from races import HISTORY, JAVA, OURS, Pristine, pristine, rounds_of, run_round, sampled  # noqa: E402 - after the path

from oracle import VERSIONS, Oracle, OracleProcess  # noqa: E402
from paimon_core.retention import store_clock  # noqa: E402
from paimon_maintenance.jobs.versions import inflight_commits  # noqa: E402


def race(of: Pristine, rounds: int, seed: int, oracle: Oracle, place: Path) -> tuple[int, int]:
    """How many rounds were run on a table, and how many of them failed."""
    # Java's core takes the row ids from what it compacts, also alone: only its engines, which the
    # oracle has not, compact tables with data evolution.
    java = [b for b in JAVA if of.name != "data evolution" or b != "java compact"]
    pairs = list(itertools.product(OURS, [*java, *OURS]))
    chosen = sampled(list(rounds_of(of, pairs, place / "count")), rounds, seed)
    failed = 0
    for what in chosen:
        try:
            run_round(of, what, oracle, place / "round")
        except Exception as e:  # noqa: BLE001 - each failure is counted and printed
            failed += 1
            print(f"FAILED {what}: {type(e).__name__}: {e}", flush=True)
        shutil.rmtree(place / "round", ignore_errors=True)
    kinds = Counter(
        f"{'history' if what.a in HISTORY else 'other'} against {'Java' if what.b in JAVA else 'ours'}"
        for what in chosen
    )
    print(f"{of.name}: {dict(kinds)}", flush=True)
    return len(chosen), failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(ALL_TABLES), metavar="TABLE")
    parser.add_argument("--rounds", type=int, default=2500, help="of each table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--java", choices=VERSIONS, default="2.0.0")
    arguments = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    inflight_commits.LOCAL_MILLIS = (
        0  # nothing else moves while A is stopped, so there is nothing to wait for
    )
    store_clock.VALID_MILLIS = 0  # so that each run of a job makes the same changes
    bad = 0
    with tempfile.TemporaryDirectory(prefix="gated-races-") as folder:
        process = OracleProcess(arguments.java)
        try:
            for name in arguments.tables:
                started, place = time.monotonic(), Path(folder) / name.replace(" ", "-")
                of = pristine(name, place / "pristine")
                count, failed = race(of, arguments.rounds, arguments.seed, Oracle(process), place)
                bad += failed if count else 1
                seconds = time.monotonic() - started
                print(f"{name}: {count} rounds, {failed} failed, {seconds:.0f} s", flush=True)
        finally:
            process.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
