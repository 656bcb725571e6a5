"""Draws how jobs grow with the number of files, from figures that `million_files.py --keep` wrote.

    ./caretaker python benchmarks/million_plot.py FIGURES.jsonl docs/images/million-files.svg

Two panels with logarithmic axes: CPU seconds and peak memory of each command.  A dashed line shows linear growth,
a red one the target.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Final

from million_files import MOST_MB, MOST_SECONDS

WIDTH, HEIGHT, LEFT, TOP, GAP = 360, 300, 60, 40, 60
SVG: Final = "http://www.w3.org/2000/svg"
COLORS: Final = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b"),
    *("#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#393b79"),
)
Points = dict[str, list[tuple[float, float]]]


def main() -> None:
    """Draw the newest figure of each command and number of files."""
    source, target = sys.argv[1:]
    newest: dict[tuple[str, int], dict[str, float]] = {}
    for line in Path(source).read_text().splitlines():
        figure = json.loads(line)
        newest[figure["command"], figure["files"]] = figure
    cpu: Points = defaultdict(list)
    peak: Points = defaultdict(list)
    for (command, files), figure in sorted(newest.items()):
        cpu[command].append((files, figure["cpu"]))
        peak[command].append((files, figure["peak_mb"]))
    names = sorted(cpu)
    width = 2 * (LEFT + WIDTH) + GAP
    height = TOP + HEIGHT + 50 + 18 * math.ceil(len(names) / 3)
    parts = [
        f'<svg xmlns="{SVG}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_panel("CPU seconds", cpu, names, LEFT, (1, 1000), MOST_SECONDS),
        *_panel("peak memory, MB", peak, names, 2 * LEFT + WIDTH + GAP, (100, 2000), MOST_MB),
    ]
    for i, name in enumerate(names):
        x, y = LEFT + (i % 3) * 270, TOP + HEIGHT + 55 + 18 * (i // 3)
        parts.append(f'<rect x="{x}" y="{y - 9}" width="14" height="4" fill="{_color(i)}"/>')
        parts.append(f'<text x="{x + 20}" y="{y - 3}">{escape(name)}</text>')
    Path(target).write_text("\n".join([*parts, "</svg>\n"]))


def _color(i: int) -> str:
    return COLORS[i % len(COLORS)]


def _panel(
    title: str,
    points: Points,
    names: list[str],
    left: int,
    values: tuple[float, float],
    target: float,
) -> list[str]:
    low, high = map(math.log10, values)

    def x(files: float) -> float:
        return left + (math.log10(files) - 4) / 2 * WIDTH

    def y(value: float) -> float:
        share = (math.log10(max(value, values[0])) - low) / (high - low)
        return TOP + HEIGHT * (1 - share)

    def line(a: tuple[float, float], b: tuple[float, float], style: str) -> str:
        return f'<line x1="{x(a[0]):.0f}" y1="{y(a[1]):.0f}" x2="{x(b[0]):.0f}" y2="{y(b[1]):.0f}" {style}/>'

    parts = [
        f'<text x="{left + WIDTH / 2:.0f}" y="{TOP - 14}" text-anchor="middle">{title}</text>',
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for files in (10_000, 100_000, 1_000_000):
        label = f"{files:,} files"
        parts.append(
            f'<text x="{x(files):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{label}</text>'
        )
    for value in (1, 10, 100, 200, 500, 1000, 2000):
        if values[0] <= value <= values[1]:
            parts.append(
                f'<text x="{left - 6}" y="{y(value) + 4:.0f}" text-anchor="end">{value:,}</text>'
            )
            parts.append(line((1e4, value), (1e6, value), 'stroke="#ddd"'))
    parts.append(line((1e4, target), (1e6, target), 'stroke="#d62728" stroke-width="1.5"'))
    start = values[0] * 2
    end = min(values[1], start * 100)
    dashed = 'stroke="#999" stroke-dasharray="4 4"'
    parts.append(line((1e4, start), (1e4 * end / start, end), dashed))
    for i, name in enumerate(names):
        found = points[name]
        path = " ".join(f"{x(files):.1f},{y(value):.1f}" for files, value in found)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_color(i)}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x(files):.1f}" cy="{y(value):.1f}" r="3" fill="{_color(i)}"/>'
            for files, value in found
        ]
    return parts


if __name__ == "__main__":
    main()
