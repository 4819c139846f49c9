"""Pieces of HTML for notebooks: headline numbers, tables, and a line over time.

A notebook may be light or dark and brings its own style, so nothing here sets a ground or an ink:
text and lines take the colour around them. Everything that a user may have written is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from weft.lab.time_words import number

WIDTH, HEIGHT = 640, 90
COLOURS = ("#3a8fd0", "#e69f00")
SMALL = "opacity:.7;font-size:.85em"


def card(title: str, below: str, *parts: str) -> str:
    """A heading, a line under it, and what follows."""
    head = f"<b>{escape(title)}</b><br><span style='{SMALL}'>{escape(below)}</span>"
    return f"<div class='weft'>{head}{''.join(parts)}</div>"


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values side by side."""
    cells = "".join(
        f"<div style='margin:.3em 1.6em .3em 0'><span style='{SMALL}'>{escape(name)}</span><br>"
        f"<span style='font-size:1.15em'>{escape(value)}</span></div>"
        for name, value in facts
    )
    return f"<div style='display:flex;flex-wrap:wrap;margin:.4em 0'>{cells}</div>"


def table_html(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, of: int | None = None
) -> str:
    """A table; `of` is how many rows there are where not all are shown."""
    sides = [_side(row) for row in zip(*rows, strict=True)] or ["left"] * len(columns)
    head = "".join(
        f"<th style='text-align:{side}'>{escape(name)}</th>"
        for name, side in zip(columns, sides, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    left = 0 if of is None else of - len(rows)
    more = f"<span style='{SMALL}'>{left:,} more rows: frame() or dicts()</span>" if left else ""
    name = f"<b>{escape(title)}</b>" if title else ""
    return (
        f"<div class='weft'>{name}<table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


def lines_html(series: Sequence[tuple[str, Sequence[float]]], times: Sequence[float]) -> str:
    """A few lines over the same times, each on its own scale, whose top is told."""
    if len(times) <= 1 or times[-1] <= times[0]:
        return ""
    drawn, told = "", ""
    for (name, values), colour in zip(series, COLOURS, strict=False):
        top = max(*values, 1)
        stairs = "".join(
            f"H{WIDTH * (at - times[0]) / (times[-1] - times[0]):.1f}"
            f"V{HEIGHT - (HEIGHT - 4) * value / top:.1f}"
            for at, value in zip(times, values, strict=True)
        )
        drawn += f"<path fill='none' stroke='{colour}' stroke-width='1.5' d='M0 {HEIGHT}{stairs}'/>"
        told += (
            f"<span style='margin-right:1.2em'><span style='color:{colour}'>■</span> "
            f"{escape(name)}, at most {number(top)}</span>"
        )
    base = f"<path d='M0 {HEIGHT}H{WIDTH}' stroke='currentColor' stroke-opacity='.4'/>"
    return (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT + 2}' style='width:100%;max-width:{WIDTH}px' "
        f"role='img'>{base}{drawn}</svg><div style='{SMALL}'>{told}</div>"
    )


def _side(values: Sequence[object]) -> str:
    """Numbers stand at the right, texts at the left."""
    return "right" if all(isinstance(one, int | float | None) for one in values) else "left"


def _cell(value: object) -> str:
    if value is None:
        return "<td style='text-align:right'>–</td>"
    if isinstance(value, float):
        return f"<td style='text-align:right'>{escape(number(value))}</td>"
    if isinstance(value, int):
        return f"<td style='text-align:right'>{value:,}</td>"
    return f"<td style='text-align:left'>{escape(str(value))}</td>"
