"""A simulated quarter: our scheduler against two other ways to spend compute on the same lake.

    ./caretaker python benchmarks/simulated_quarter.py --days 10 --tables 40
    ./caretaker python benchmarks/simulated_quarter.py --picture docs/images/quarter.svg   # all
    ./caretaker python benchmarks/simulated_quarter.py --ways ours ranked --more-for-ranked 3

(a) every table every 30 minutes, without a budget; (b) ranking by 0.7 of normalised benefit less
0.3 of normalised cost, with the budget of ours.  Ours may end with rounds that it has borrowed, so
`--more-for-ranked` gives (b) more, until it has spent no less.  The clock is simulated, tables are
metadata models (`simulated_lake.py`), the same seed gives the same lake to each way, and costs have
noise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parent))
from plots import Panel, lines
from simulated_ways import Ours, Ranking, Totals, Way, every_table, simulate

SECONDS_OF_TABLE = 0.95
"""The budget of a round for each table: about half of what (a) spends on the lake of the docs."""
NAMES = {
    "ours": "ours",
    "ranked": "(b) 0.7 benefit - 0.3 cost",
    "backs off": "(b) with back-off after failures",
    "all": "(a) every table, no budget",
}


def way_named(name: str) -> Way:
    """A new way of this name."""
    if name == "ours":
        return Ours()
    return every_table if name == "all" else Ranking(backs_off=name == "backs off")


def totals_of(name: str, seed: int, tables: int, days: int, budget: float) -> tuple[str, Totals]:
    """What the way comes to."""
    return name, simulate(way_named(name), seed=seed, tables=tables, days=days, budget=budget)


def quarter(
    names: Sequence[str],
    *,
    seed: int,
    tables: int,
    days: int,
    budget: float,
    ranked_budget: float | None = None,
    processes: int = 2,
) -> dict[str, Totals]:
    """The totals of each way over the same lake."""
    budgets = dict.fromkeys(names, budget) | ({"ranked": ranked_budget} if ranked_budget else {})
    with ProcessPoolExecutor(processes) as pool:
        jobs = [pool.submit(totals_of, n, seed, tables, days, budgets[n]) for n in names]
        return dict(job.result() for job in jobs)


def table_of(found: Mapping[str, Totals], days: int) -> list[str]:
    """The result as a Markdown table."""
    rows = [
        (
            "| way | read amplification | excess over 1 | bytes held | could be freed | compute | runs "
            "| failed | red | longest red |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, t in found.items():
        red = max(t.red_hours.values(), default=0.0)
        rows.append(
            f"| {NAMES[name]} | {t.amplification / t.table_hours:.2f} | "
            f"{t.excess / t.table_hours:.2f} | {t.held / days / 24:,.0f} GB | "
            f"{t.late / days / 24:,.0f} GB | "
            f"{t.seconds / 3600:,.1f} h | {t.runs:,} | {t.failed:,} | "
            f"{t.red / t.table_hours:.1%} | {red:.0f} h |"
        )
    return rows


def prediction_line(found: Totals) -> str:
    """How far the predicted seconds were off, after the first 20 runs."""
    errors = found.errors[20:]
    return (
        f"seconds predicted by ours: median error {median(errors):.0%}, "
        f"90th percentile {quantiles(errors, n=10)[-1]:.0%}"
    )


def picture(days: Mapping[str, Sequence[float]]) -> str:
    """Read amplification day by day, as SVG."""
    curves = {NAMES[name]: list(enumerate(values, 1)) for name, values in days.items()}
    panel = Panel(title="read amplification", curves=curves, x_label="day")
    return lines("Read amplification of a simulated lake", [panel])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--budget-seconds", type=float, help="compute seconds of a round")
    parser.add_argument("--more-for-ranked", type=float, metavar="PERCENT", default=0)
    parser.add_argument("--ways", nargs="+", choices=NAMES, default=["ours", "ranked", "all"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--picture", metavar="FILE", help="write an SVG")
    parser.add_argument("--json", metavar="FILE", help="write all totals")
    args = parser.parse_args()
    budget = args.budget_seconds or SECONDS_OF_TABLE * args.tables
    found = quarter(
        args.ways,
        seed=args.seed,
        tables=args.tables,
        days=args.days,
        budget=budget,
        ranked_budget=budget * (1 + args.more_for_ranked / 100),
        processes=args.processes,
    )
    print(f"{args.tables} tables, {args.days} days, {budget:.0f} s a round, seed {args.seed}\n")
    print("\n".join(table_of(found, args.days)))
    if "ours" in found:
        print("\n" + prediction_line(found["ours"]))
    if args.picture:
        drawn = picture({name: totals.days for name, totals in found.items()})
        Path(args.picture).write_text(drawn, encoding="utf-8")
    if args.json:
        Path(args.json).write_text(json.dumps({n: asdict(t) for n, t in found.items()}), "utf-8")


if __name__ == "__main__":
    main()
