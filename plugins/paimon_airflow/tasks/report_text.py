"""The results of many tables as text: the report of a run, its totals, why tables failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from paimon_airflow.tasks.batches import names
from paimon_airflow.tasks.results import OUTCOME_WORDS, Outcome, TableResult, change, pair_text

_ORDER: dict[Outcome, int] = {
    "failed": 0,
    "refused": 1,
    "done": 2,
    "planned": 3,
    "skipped": 4,
    "nothing": 5,
}
_IDLE: frozenset[Outcome] = frozenset({"nothing", "skipped"})
# Airflow cuts what it shows of a task's fields at 4096 characters, [core]
# max_templated_field_length.
LONGEST_REPORT = 3900
_REASON_WIDTH = 90
"""Characters of a line that Airflow's page shows without scrolling sideways."""


def count(results: Iterable[TableResult]) -> dict[Outcome, int]:
    """The number of tables by outcome, failures first; outcomes without a table are left out."""
    counts = dict.fromkeys(_ORDER, 0)
    for result in results:
        counts[result.outcome] += 1
    return {outcome: number for outcome, number in counts.items() if number}


def count_text(results: Iterable[TableResult]) -> str:
    """The counts for people: "1 FAILED, 3 done, 12 nothing to do"."""
    return ", ".join(f"{number} {OUTCOME_WORDS[what]}" for what, number in count(results).items())


def ordered(results: Iterable[TableResult]) -> list[TableResult]:
    """Failures first, then tables that changed; by name within."""
    return sorted(results, key=lambda result: (_ORDER[result.outcome], result.table))


def table_lines(results: Sequence[TableResult]) -> list[str]:
    """One aligned line per table, under a line of headings; empty columns are left out."""
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    rows: list[tuple[str, ...]] = [("table", "", *names, "snapshot", "seconds", "engine", "")]
    for result in results:
        figures = [pair_text(name, result.figures.get(name)) for name in names]
        snapshot = "" if result.snapshot is None else str(result.snapshot)
        seconds = f"{result.seconds:.1f}" if result.seconds else ""
        # Why a table failed is too long for a cell: `detail_lines` has it.
        summary = "" if result.error or result.outcome in _IDLE else result.summary
        engine = result.engine.partition(":")[0] if result.figures else ""
        cells = (*figures, snapshot, seconds, engine, summary)
        rows.append((result.table, OUTCOME_WORDS[result.outcome], *cells))
    columns = list(zip(*rows, strict=True))
    rows = list(zip(*(c for i, c in enumerate(columns) if i < 2 or any(c[1:])), strict=True))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    # Without figures of its own, a line has room for why nothing was done.
    whys = ["", *(r.summary if r.outcome in _IDLE else "" for r in results)]
    return [f"{line}  {why}".rstrip() for line, why in zip(lines, whys, strict=True)]


def detail_lines(result: TableResult) -> list[str]:
    """The lines below the table's line: why it failed and what to do, what its steps did."""
    reason = f"{result.error}: {result.summary}" if result.error else ""
    wrapped = [
        line
        for number, part in enumerate(reason.split(" -> "))
        for line in wrap(
            part if number == 0 else f"-> {part}",
            _REASON_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return [*wrapped, *result.lines]


def report_text(results: Sequence[TableResult]) -> str:
    """The whole report for people, cut to its most important lines."""
    heading, *lines = table_lines(results)
    head = f"{count_text(results)}\n{change_text(totals(results))}".strip()
    shown = [head, "", heading]
    left = LONGEST_REPORT - sum(len(line) + 1 for line in shown)
    for number, (result, line) in enumerate(zip(results, lines, strict=True)):
        block = "\n".join([line, *(f"    {detail}" for detail in detail_lines(result))])
        left -= len(block) + 1
        if left < 0 and number:
            shown.append(f"... and {len(lines) - number} more: see the log")
            break
        # The first one is shown in any case: it says why the run failed.
        shown.append(block if left >= 0 else f"{block[:left]}\n    ... see the log")
    return "\n".join(shown)


def engine_text(results: Iterable[TableResult]) -> str:
    """Where the tables ran and why, one line per reason, with the first tables of each."""
    tables: dict[str, list[str]] = {}
    for result in results:
        if result.engine:
            tables.setdefault(result.engine, []).append(result.table)
    return "\n".join(f"{names(ran)}: {engine}" for engine, ran in tables.items())[:LONGEST_REPORT]


def failure_text(failures: Sequence[TableResult]) -> str:
    """Why the run failed: one line per table with its reason."""
    return _reasons(failures, "failed")


def refusal_text(refused: Sequence[TableResult]) -> str:
    """Why tables were refused: one line per table with its reason."""
    return _reasons(refused, "refused")


def _reasons(results: Sequence[TableResult], what: str) -> str:
    head = f"1 table {what}" if len(results) == 1 else f"{len(results)} tables {what}"
    reasons = (f"  {r.table}: {r.error}: {r.summary}{_how_to_skip(r)}" for r in results)
    return "\n".join([f"{head}:", *reasons])


def _how_to_skip(result: TableResult) -> str:
    if result.outcome != "refused" or not result.fails:
        return ""
    return " (a refusal fails the run until the history knows it; see on_refused of the policy)"


def totals(results: Iterable[TableResult]) -> dict[str, list[int]]:
    """The figures of all tables added up, before and after."""
    sums: dict[str, list[int]] = {}
    for result in results:
        for name, pair in result.figures.items():
            before, after = sums.get(name, [0, 0])
            sums[name] = [before + pair[0], after + pair[1]]
    return sums


def summary_of_changes(results: Sequence[TableResult]) -> str:
    """What changed, in figures if there are any; "nothing was changed" only if that is certain."""
    figures = change_text(totals(results))
    if figures:
        return figures
    if any(result.changed for result in results):
        return "tables that failed may have been changed: see each of them"
    done = any(result.outcome == "done" for result in results)
    return "no data was rewritten" if done else "nothing was changed"


def change_text(figures: Mapping[str, Sequence[int]]) -> str:
    """Figures for people: "files 480 -> 12, bytes 12.3 MB -> 9.8 MB"."""
    return ", ".join(change(name, pair) for name, pair in figures.items())
