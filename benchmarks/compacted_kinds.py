"""A full compaction of newer kinds of primary-key tables: ours beside Java's.

    ./caretaker python benchmarks/compacted_kinds.py --rows 600000

The table has the columns of `compaction.py` and one bucket.  Three commits fill it, and 30 % of the
keys of a commit exist already.  The first two commits are compacted before the measurement.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from beside_java import Work, compare, ratios
from compaction import STEPS
from processes import run_step

OPTIONS = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "deletion vectors": {},
    "sorted by another column": {"pk-clustering-override": "true", "clustering.columns": "s1"},
    "B-trees of a text and a number": {"pk-btree.index.columns": "s1,l1"},
    "bitmap of a unique number": {"pk-bitmap.index.columns": "l2"},
}
FULL = Work(
    job="compact",
    arguments={"strategy": "full"},
    step={"op": "compact", "full": True, "dynamic": {"write-only": "false"}},
)


def make(warehouse: Path, rows: int, options: Mapping[str, str]) -> None:
    """The table: two commits, a compaction, and a commit."""
    request = {
        "warehouse": str(warehouse),
        "primary_key": True,
        "rows": rows,
        "commits": 3,
        "overlap": 0.3,
        "seed": 1,
        "options": {**OPTIONS, **options},
    }
    run_step(STEPS, "generate", **request, until=2)
    run_step(STEPS, "ours", warehouse=str(warehouse))
    run_step(STEPS, "generate", **request, first=2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--times", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["PAIMON_ORACLE_VERSION"] = "2.0.0"  # 1.4.2 has not all of these kinds
    for name, options in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="kinds-") as folder:
            made = Path(folder) / "made"
            make(made, arguments.rows, options)
            print(f"{name}, {arguments.rows:,} rows")
            ratios(compare(made, FULL, arguments.times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
