"""Charts as SVG, without a plotting library: they follow the reader's light or dark theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Final

from figures import Figure, Point

_WIDTH: Final = 760
_LABELS: Final = 380
_LINE: Final = 26
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.ours{fill:#2f81f7}.missed{fill:#d29922}"
    ".target{stroke:#24292f;stroke-width:2}.limit{stroke:#d62728;stroke-width:1.5}"
    ".grid{stroke:#8884}.linear{stroke:#888;stroke-dasharray:4 4}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.target{stroke:#e6edf3}}"
)
_COLORS: Final = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"),
    *("#bcbd22", "#17becf", "#5f66b5", "#d62728", "#111111"),
)
_PANEL_WIDTH: Final = 360
_PANEL_HEIGHT: Final = 300
_LEFT, _TOP, _GAP, _LEGEND, _LEGEND_COLUMN = 60, 40, 40, 20, 250
_MOST_LABELS: Final = 8
_LEAST: Final = 0.01
"""Zero has no logarithm."""


def _svg(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
    about = f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    return "\n".join([head, about, *parts, "</svg>", ""])


def bars(title: str, figures: Sequence[Figure]) -> str:
    """A bar for each figure, in proportion to its target; a line marks the target.

    Figures of different units share the chart, so each bar is drawn in proportion to the largest
    value and target of its unit.
    """
    parts = []
    for number, figure in enumerate(figures):
        top = _LINE * number + 8
        alike = [f for f in figures if f.unit == figure.unit]
        full = max(max(f.value, f.target or 0) for f in alike) or 1
        room = _WIDTH - _LABELS - 90
        length = max(1.0, room * figure.value / full)
        kind = "missed" if figure.met is False else "ours"
        parts += [
            f'<text x="{_LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(figure.name)}</text>',
            f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{length:.1f}" height="18" rx="2"/>',
            f'<text x="{_LABELS + length + 6:.1f}" y="{top + 14}">{escape(figure.text)}</text>',
        ]
        if figure.target is not None:
            at = _LABELS + room * figure.target / full
            parts.append(
                f'<line class="target" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 3}" y2="{top + 21}"/>'
            )
    return _svg(title, _WIDTH, _LINE * (len(figures) + 1) + 12, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over the same axes, each a list of (x, y) with ascending x.

    `log`: both axes are logarithmic, all values are positive, and a dashed line shows linear
    growth.  `limit` is a value of y to stay below.
    """

    title: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    x_label: str = ""
    log: bool = False
    limit: float | None = None


def lines(title: str, panels: Sequence[Panel]) -> str:
    """Panels side by side, with one legend: curves of the same name have the same color."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(names)}
    width = len(panels) * (_LEFT + _PANEL_WIDTH + _GAP)
    parts = [
        part
        for i, panel in enumerate(panels)
        for part in _panel(panel, _LEFT + i * (_LEFT + _PANEL_WIDTH + _GAP), colors)
    ]
    below, columns = _TOP + _PANEL_HEIGHT + 56, max(1, (width - _LEFT) // _LEGEND_COLUMN)
    for i, name in enumerate(names):
        x, y = _LEFT + i % columns * _LEGEND_COLUMN, below + _LEGEND * (i // columns)
        parts.append(f'<rect x="{x}" y="{y - 7}" width="14" height="4" fill="{colors[name]}"/>')
        parts.append(f'<text x="{x + 20}" y="{y}">{escape(name)}</text>')
    return _svg(title, width, below + _LEGEND * math.ceil(len(names) / columns), parts)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from `low` to `high` over pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        """The pixel of a value."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        span = scale(self.high) - scale(self.low) or 1
        return self.start + (self.end - self.start) * (scale(value) - scale(self.low)) / span

    def labels(self) -> Iterator[float]:
        """Round values within the axis."""
        if self.log:
            steps = (m * 10.0**e for e in range(-3, 13) for m in (1, 2, 5))
            within = [v for v in steps if self.low <= v <= self.high]
            powers = [v for v in within if math.log10(v) % 1 in (0.0, 1.0)]
            yield from powers if len(powers) > 1 and self.start < self.end else within
        else:
            power = 10.0 ** math.floor(math.log10((self.high - self.low) or 1) - 1)
            step = next(s for k in count() for m in (1, 2, 5) if self._fits(s := m * power * 10**k))
            first = math.ceil(self.low / step)
            yield from (i * step for i in range(first, math.floor(self.high / step) + 1))

    def _fits(self, step: float) -> bool:
        return (self.high - self.low) / step <= _MOST_LABELS


def lines_plot(title: str, points: Sequence[Point], x_label: str = "files") -> str:
    """The curves of recorded points, with logarithmic axes."""
    panels = []
    for name in dict.fromkeys(p.panel for p in points):
        mine = sorted((p for p in points if p.panel == name), key=lambda p: p.x)
        curves = {
            line: [(p.x, max(p.y, _LEAST)) for p in mine if p.line == line]
            for line in dict.fromkeys(p.line for p in points)
        }
        limit = next((p.target for p in mine if p.target is not None), None)
        panels.append(Panel(title=name, curves=curves, x_label=x_label, log=True, limit=limit))
    return lines(title, panels)


def _panel(panel: Panel, left: float, colors: Mapping[str, str]) -> Iterator[str]:
    points = [point for curve in panel.curves.values() for point in curve]
    right, bottom = left + _PANEL_WIDTH, _TOP + _PANEL_HEIGHT
    ys = [y for _, y in points] + ([] if panel.limit is None else [panel.limit])
    low, high = (min(ys) / 1.2, max(ys) * 1.2) if panel.log else (min(0, *ys), max(ys) * 1.05)
    x = _Axis(min(p[0] for p in points), max(p[0] for p in points), left, right, panel.log)
    y = _Axis(low, high or 1, bottom, _TOP, panel.log)
    middle = left + _PANEL_WIDTH / 2
    yield f'<text x="{middle}" y="{_TOP - 14}" text-anchor="middle">{escape(panel.title)}</text>'
    for value in y.labels():
        at = y.at(value)
        yield f'<path class="grid" d="M{left} {at:.1f}H{right}"/>'
        yield f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>'
    for value in x.labels():
        at = x.at(value)
        yield f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{value:,.15g}</text>'
    if panel.x_label:
        label = escape(panel.x_label)
        yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{label}</text>'
    if panel.limit is not None:
        yield f'<path class="limit" d="M{left} {y.at(panel.limit):.1f}H{right}"/>'
    if panel.log:
        growth = min(x.high / x.low, y.high / y.low)
        end = f"{x.at(x.low * growth):.1f} {y.at(y.low * growth):.1f}"
        yield f'<path class="linear" d="M{left} {bottom}L{end}"/>'
    for name, curve in panel.curves.items():
        color = colors[name]
        path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in curve)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        if panel.log:
            for a, b in curve:
                yield f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{color}"/>'
