"""The duration of one round of the scheduler over many tables with few changes.

    ./caretaker python benchmarks/scheduling_round.py --tables 2000 --changed 0.02
    ./caretaker python benchmarks/scheduling_round.py --tables 2000 10000 --without-jobs

The tables are copies of one small table on a local disk.  The first round measures all of them;
then some get a commit, and a round an hour later looks at all, measures those, and decides; another
one also runs their jobs.  (A round right after the first would leave out tables that were quiet for
a while.)
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from figures import Figure, exit_code, record
from lakes import Lake

from paimon_core.environment import system_environment
from paimon_maintenance.history.need_store import NeedStore
from paimon_maintenance.history.store import SqlHistory
from paimon_maintenance.policy.model import Policy
from paimon_maintenance.policy.needs import Budget
from paimon_maintenance.run.runner import RunServices
from paimon_maintenance.schedule.round import run_round
from paimon_maintenance.schedule.scope import Scope
from paimon_maintenance.schedule.state import HOUR

MOST_SECONDS = {2000: 60.0, 10_000: 120.0}
"""The goals for a round over so many tables, without its jobs; the smaller one with them, too."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, nargs="+", default=[2000])
    parser.add_argument("--changed", type=float, default=0.02)
    parser.add_argument("--without-jobs", action="store_true", help="only look, measure and decide")
    args = parser.parse_args()
    reached = True
    for number in args.tables:
        with tempfile.TemporaryDirectory() as folder:
            reached &= measure(Path(folder), number, args.changed, with_jobs=not args.without_jobs)
    return exit_code(missed=not reached)


def measure(folder: Path, number: int, share: float, *, with_jobs: bool) -> bool:
    """Print the seconds of each round; whether those with a goal reach it."""
    reached = True
    lake = Lake(folder / "lake")
    lake.primary_key("db.t00000")
    lake.fill(1, rows=20, name="db.t00000")
    names = [f"db.t{i:05}" for i in range(number)]
    database = lake.warehouse / "db.db"
    for name in names[1:]:
        shutil.copytree(database / "t00000", database / name.removeprefix("db."))
    history = SqlHistory(f"sqlite:///{folder}/history.db")
    scope = Scope(warehouse=str(lake.warehouse), tables=tuple(names))
    store = NeedStore(history, str(lake.warehouse))
    hours = 0

    def clock() -> int:
        return int(time.time() * 1000) + hours * HOUR

    services = RunServices(env=system_environment(clock=clock), history=history)

    def round_of(what: str, *, dry_run: bool, target: float | None = None) -> None:
        nonlocal reached, hours
        begin, begin_cpu = time.monotonic(), time.process_time()
        found = run_round(
            scope, Policy(file=""), services, store, budget=Budget(seconds=None), dry_run=dry_run
        )
        print(
            f"{what}: {time.monotonic() - begin:.1f} s, {time.process_time() - begin_cpu:.1f} CPU s, "
            f"{found.looked} looked at, {found.measured} measured, {len(found.results)} jobs, "
            f"peak {getrusage(RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
            flush=True,
        )
        seconds = round(time.monotonic() - begin, 1)
        record([Figure(name=f"{number:,} tables: {what}", value=seconds, unit="s", target=target)])
        reached &= target is None or seconds <= target
        hours += 1

    round_of("for the first time", dry_run=True)
    round_of("nothing changed", dry_run=True)
    changed = names[:: max(1, round(1 / share))]
    for name in changed:
        lake.fill(1, rows=20, name=name)
    decided = f"{len(changed)} of them changed, without their jobs"
    round_of(decided, dry_run=True, target=MOST_SECONDS.get(number))
    if not with_jobs:
        return reached
    for name in changed:
        lake.fill(1, rows=20, name=name)
    target = MOST_SECONDS[number] if number == min(MOST_SECONDS) else None
    round_of(f"{len(changed)} of them changed, with their jobs", dry_run=False, target=target)
    return reached


if __name__ == "__main__":
    sys.exit(main())
