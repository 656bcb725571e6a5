"""Bar charts as SVG, without a plotting library: they follow the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from figures import Figure

_WIDTH: Final = 760
_LABELS: Final = 380
_LINE: Final = 26
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.ours{fill:#2f81f7}.missed{fill:#d29922}"
    ".target{stroke:#24292f;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.target{stroke:#e6edf3}}"
)


def bars(title: str, figures: Sequence[Figure]) -> str:
    """A bar for each figure, in proportion to its target; a line marks the target.

    Figures of different units share the chart, so each bar is drawn in proportion to its own
    target, or to the largest value of its unit if it has none.
    """
    height = _LINE * (len(figures) + 1) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
    ]
    for number, figure in enumerate(figures):
        top = _LINE * number + 8
        alike = max(f.value for f in figures if f.unit == figure.unit)
        full = max(alike, *(f.target or 0 for f in figures if f.unit == figure.unit)) or 1
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
    return "\n".join([*parts, "</svg>", ""])
