"""Orphan files: the scan of a table with many files, ours (a plan) beside Java's (a dry run).

    python benchmarks/orphans.py                    20,000 data files
    python benchmarks/orphans.py --long             200,000 data files, three times each

One file in a hundred is an orphan; the rest is live, in a hundred partitions.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from beside_java import Work, compare, ratios
from processes import machine, run_step

MAKER = str(Path(__file__).with_name("lived_table.py"))
SHARE = 100


def main() -> int:
    """0 if both found the same number of orphans."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument(
        "--folder", help="where to make tables (a folder in memory spares the disk)"
    )
    arguments = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    count, times = (200_000, 3) if arguments.long else (20_000, 1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        made = Path(folder) / "made"
        life = {"snapshots": 200, "files_a_commit": count // 200, "days": 100, "compact_every": 0}
        done = run_step(MAKER, "make", warehouse=str(made), life=life)
        folders = sorted((made / "db.db" / "t").glob("dt=*/bucket-0"))
        for number in range(count // SHARE):
            name = f"data-{os.urandom(16).hex()}-0.parquet"
            (folders[number % len(folders)] / name).write_bytes(b"orphan")
        print(f"{count:,} files made in {done.wall_seconds:.0f} s")
        time.sleep(0.01)
        now = time.time_ns() // 1_000_000
        work = Work(
            job="remove_orphan_files",
            arguments={"older_than": str(now), "allow_young": True},
            step={"op": "remove_orphan_files", "older_than_millis": now, "dry_run": True},
            changes=False,
        )
        ways = compare(made, work, times)
        ratios(ways)
    found = {name: way.answer["deleted_files"] for name, way in ways.items()}
    print(f"orphans found: {found}")
    return 0 if set(found.values()) == {count // SHARE} else 1


if __name__ == "__main__":
    sys.exit(main())
