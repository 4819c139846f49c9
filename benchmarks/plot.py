"""Plots of a record as SVG, drawn from their numbers alone: equal numbers are equal files."""

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from benchmarks.records import Plot

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 60, 130, 44, 40
LINES_HEIGHT, BAR = 300, 30
COLOURS = ("#3f6fb5", "#d9822b", "#3a9d6e", "#8b5fbf")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}"
    ".small{font-size:11.5px;fill:#656d76}.grid{stroke:#8884}"
    "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}}"
)


def drawn(plot: Plot) -> str:
    """The SVG."""
    bars = plot.kind == "bars"
    height = TOP + (BAR + 8) * len(plot.series) + 12 if bars else LINES_HEIGHT
    body = _bars(plot) if bars else _lines(plot, height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img"><title>{escape(plot.title)}</title><style>{STYLE}</style>'
        f"{_text(12, 24, f'{plot.title}, {plot.unit}'.replace('`', ''), 'title')}"
        f"{''.join(body)}</svg>\n"
    )


def _bars(plot: Plot) -> Iterator[str]:
    longest = max(values[0] for values in plot.series.values())
    left = 150
    for place, (name, (value,)) in enumerate(plot.series.items()):
        y = TOP + place * (BAR + 8)
        width = max(2.0, value / longest * (WIDTH - left - 90))
        yield _text(12, y + 20, name, "")
        yield (
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" '
            f'fill="{COLOURS[0] if place == 0 else "#8c959f"}"/>'
        )
        yield _text(left + width + 8, y + 20, f"{value:g} {plot.unit}", "")


def _lines(plot: Plot, height: int) -> Iterator[str]:
    values = [value for series in plot.series.values() for value in series]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(plot.x[0]), math.log10(plot.x[-1])

    def x_of(x: float) -> float:
        return LEFT + (math.log10(x) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y_of(y: float) -> float:
        inside = height - TOP - BOTTOM
        return height - BOTTOM - (math.log10(y) - low) / (high - low) * inside

    for power in range(low, high + 1):
        y = y_of(10**power)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(12, y + 4, f"{10.0**power:,g}", "small")
    for x in plot.x:
        yield _text(x_of(x) - 14, height - 16, f"{x:,g}", "small")
    yield _text(WIDTH - RIGHT + 34, height - 16, plot.x_title, "small")
    for (name, series), colour in zip(plot.series.items(), COLOURS, strict=False):
        points = [(x_of(x), y_of(y)) for x, y in zip(plot.x, series, strict=False)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        yield _text(points[-1][0] + 8, points[-1][1] + 4, name, "")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
