"""Partition expiry that drops half of many partitions: ours beside Java's.

python benchmarks/partitions.py                 500 partitions
python benchmarks/partitions.py --long          5,000 partitions, three times each
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from beside_java import Work, compare, ratios
from processes import machine, run_step

MAKER = str(Path(__file__).with_name("lived_table.py"))


def main() -> int:
    """0 if both left the same number of files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument(
        "--folder", help="where to make tables (a folder in memory spares the disk)"
    )
    arguments = parser.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    count, times = (5_000, 3) if arguments.long else (500, 1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        made = Path(folder) / "made"
        life = {"snapshots": 100, "days": count, "days_a_commit": count // 50, "compact_every": 0}
        run_step(MAKER, "make", warehouse=str(made), life=life)
        # Days begin with 2000 and have 336 a year.
        middle = datetime(2000 + count // 2 // 336, count // 2 // 28 % 12 + 1, 1, tzinfo=UTC)
        age = f"{(datetime.now(UTC) - middle).days} d"
        options = {"partition.expiration-max-num": str(count)}
        work = Work(
            job="expire_partitions",
            arguments={"expiration_time": age, "max_expires": count},
            step={"op": "expire_partitions", "expiration_time": age, "options": options},
        )
        print(f"{count:,} partitions, {2 * count:,} files")
        ways = compare(made, work, times)
        ratios(ways)
    return 0


if __name__ == "__main__":
    sys.exit(main())
