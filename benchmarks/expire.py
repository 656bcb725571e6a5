"""Expiry of many snapshots: ours beside Java's, and the plans on a table with a very long life.

    python benchmarks/expire.py                     200 snapshots to 10, ours and Java's
    python benchmarks/expire.py --long              1,000 snapshots to 10, three times each
    python benchmarks/expire.py --plans             plans over 10,000 snapshots, 100,000 files

To reach: a fifth of Java's time; each plan in 10 s and 1 GiB (by CPU seconds, as planning on
local files is one thread and the machine may be shared).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from beside_java import Work, compare, ours, ratios
from processes import machine, run_step

MAKER = str(Path(__file__).with_name("lived_table.py"))
RETAIN = {"retain_max": 10, "retain_min": 1, "max_deletes": 100_000}
FIFTH = 0.2
PLAN_SECONDS, PLAN_MB = 10.0, 1024
PLANS: dict[str, dict[str, object]] = {
    "expire_snapshots": dict(RETAIN),
    "expire_snapshots, 50 a run": {"retain_max": 10, "retain_min": 1},
    "compact": {},
    "expire_partitions": {"expiration_time": "5000 d"},
    "rollback": {"snapshot": 9_000},
}


def main() -> int:
    """0 if what was to reach is reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument(
        "--folder", help="where to make tables (a folder in memory spares the disk)"
    )
    parser.add_argument(
        "--made", help="plans: the warehouse of an earlier call, or where to keep it"
    )
    arguments = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.plans:
            return plans(Path(arguments.made or folder))
        count, times = (1000, 3) if arguments.long else (200, 1)
        return expiry(Path(folder), count, times)


def expiry(folder: Path, count: int, times: int) -> int:
    """Ours and Java's in turns, each on a copy of its own."""
    made = folder / "made"
    run_step(MAKER, "make", warehouse=str(made), life={"snapshots": count, "days": 10})
    step = {"op": "expire_snapshots", **RETAIN}
    print(f"{count} snapshots to 10")
    ways = compare(made, Work(job="expire_snapshots", arguments=RETAIN, step=step), times)
    clock, _ = ratios(ways)
    return 0 if clock <= FIFTH and ways["ours"].files == ways["java"].files else 1


def plans(made: Path) -> int:
    """The plans of jobs over one very old table, each in a process of its own."""
    if not (made / "db.db").exists():
        life = {
            "snapshots": 10_000,
            "files_a_commit": 10,
            "days": 100,
            "compact_every": 0,
            "data_files": False,
        }
        done = run_step(MAKER, "make", warehouse=str(made), life=life)
        print(f"made in {done.wall_seconds:.0f} s: {done.answer}")
    failed = False
    for name, arguments in PLANS.items():
        job = name.split(",", maxsplit=1)[0]
        done = ours(made, Work(job=job, arguments=arguments, step={}, changes=False))
        seconds, cpu = float(done.answer["seconds"]), float(done.answer["cpu"])
        good = cpu <= PLAN_SECONDS and done.peak_mb <= PLAN_MB
        failed |= not good
        print(
            f"{name:28} {seconds:6.2f} s, CPU {cpu:6.2f} s, {done.peak_mb:5.0f} MB"
            f"{'' if good else '  MISSED'}   {' '.join(done.answer['lines'][1:2]).strip()}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
