"""docs/performance.md and its plots, from the results of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from figures import Figure, Point, shown
from parts import Part
from plots import bars, lines_plot

_MINUTE: Final = 60
_GROWTH: Final = "million-files.svg"


class Result(Protocol):
    """The result of one benchmark; `failure` is empty if it recorded its figures."""

    part: Part
    command: Sequence[str]
    facts: dict[str, Any]
    day: str
    seconds: float
    failure: str
    figures: list[Figure]
    points: list[Point]


def page(results: Sequence[Result]) -> str:
    """The page as Markdown."""
    figures = [figure for each in results for figure in each.figures]
    missed = sum(figure.met is False for figure in figures)
    aimed = sum(figure.met is not None for figure in figures)
    failed = [each.part.name for each in results if each.failure]
    lines = [
        "# Performance",
        "",
        "`./caretaker python benchmarks/run_all.py --write` measures these figures and writes this page.",
        "[benchmarks/README.md](../benchmarks/README.md) describes each benchmark and has more figures.",
        "",
        f"{aimed - missed} of {aimed} targets are reached."
        + (f" These benchmarks failed: {', '.join(failed)}." if failed else ""),
    ]
    for each in results:
        lines += ["", *_part_lines(each)]
    return "\n".join(lines) + "\n"


def plots(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield the names and the content of the plots of the page."""
    for each in results:
        if each.figures:
            yield _plot_of(each.part), bars(each.part.title, each.figures)
        if each.points:
            yield _GROWTH, lines_plot("Growth with the number of files", each.points)


def _plot_of(part: Part) -> str:
    return f"performance-{part.name.replace('_', '-')}.svg"


def _part_lines(result: Result) -> list[str]:
    part, facts = result.part, result.facts
    lines = [
        f"## {part.title}",
        "",
        part.about,
        "",
        f"    ./caretaker python {' '.join(result.command)}",
        "",
        (
            f"{result.day}, {facts['processors']} processors ({facts['processor']}), "
            f"{facts['memory_gb']} GB, Python {facts['python']}, pyarrow {facts['pyarrow']}; "
            f"load before: {facts['load'][0]:.1f}; {result.seconds / _MINUTE:.1f} minutes."
        ),
    ]
    if result.failure:
        lines += ["", f"**The benchmark {result.failure}.**"]
    if not result.figures:
        return lines
    lines += ["", f"![{part.title}](images/{_plot_of(part)})"]
    if result.points:
        lines += ["", f"![Growth with the number of files](images/{_GROWTH})"]
    lines += ["", "| | measured | to reach | |", "|---|---|---|---|"]
    lines += [
        f"| {figure.name} | {figure.text} | {_target(figure)} | "
        f"{'' if figure.met is None else 'reached' if figure.met else 'missed'} |"
        for figure in result.figures
    ]
    return lines


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    limit = "at least" if figure.at_least else "at most"
    return f"{limit} {shown(figure.target, figure.unit)}"
