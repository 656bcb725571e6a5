"""Peak memory and speed of compacting wide tables: the same bytes in ever more columns.

    ./caretaker python benchmarks/wide.py                                    100 to 2,000 columns
    ./caretaker python benchmarks/wide.py --columns 1000 --values 80000000   four times the bytes

Ten overlapping runs in one bucket, which one process compacts uncut.  The columns are those of
`cases.py`: whole numbers, texts, floating-point numbers and times.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from cases import WIDE
from figures import Figure, record
from processes import machine, run_step

STEPS = str(Path(__file__).with_name("compaction_steps.py"))
RUNS = 10
MOST_MB = 1024.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 500, 1000, 2000])
    parser.add_argument("--values", type=int, default=20_000_000, help="rows times columns")
    parser.add_argument("--folder", type=Path, help="where the tables are made; they go in the end")
    arguments = parser.parse_args()
    print(machine())
    print(
        "| columns | rows | MB -> MB | CPU s | MB per CPU second | peak MB |\n|---|---|---|---|---|---|"
    )
    for count in arguments.columns:
        folder = Path(tempfile.mkdtemp(prefix="wide-", dir=arguments.folder))
        try:
            run_step(
                STEPS,
                "generate",
                warehouse=str(folder),
                primary_key=True,
                rows=arguments.values // count,
                commits=RUNS,
                overlap=0.3,
                seed=5,
                options={"bucket": "1", "write-only": "true"},
                columns=columns(count),
            )
            measured = run_step(STEPS, "ours", warehouse=str(folder))
        finally:
            shutil.rmtree(folder)
        answer = measured.answer
        size, cpu = answer["input_bytes"] / 1e6, answer["cpu_seconds"]
        print(
            f"| {count:,} | {answer['input_rows']:,} | {size:,.0f} -> "
            f"{answer['output_bytes'] / 1e6:,.0f} | {cpu:.1f} | {size / cpu:.0f} | "
            f"{measured.peak_mb:,.0f} |",
            flush=True,
        )
        name = f"{count:,} columns: peak memory"
        record([Figure(name=name, value=round(measured.peak_mb), unit="MB", target=MOST_MB)])


def columns(count: int) -> list[dict[str, str]]:
    """The key and columns of all types in turns."""
    key, *others = WIDE
    types = [c["type"] for c in others]
    step = max(1, len(types) // 20)
    mixed = types[::step]
    return [
        dict(key),
        *({"name": f"c{i}", "type": mixed[i % len(mixed)]} for i in range(count - 1)),
    ]


if __name__ == "__main__":
    main()
