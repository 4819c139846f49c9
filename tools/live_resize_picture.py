"""The picture of a live resize, drawn from its record: slots over time, and the loss below them.

Everything is there from the start, faintly; the animation uncovers it from left to right. A reader
whose viewer shows no animation sees the whole run.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape

Told = dict[str, Any]

WIDTH, LEFT, RIGHT = 800, 66, 16
TOP, LANE, GAP = 64, 26, 5
CURVE = 96
SECONDS_SHOWN, SECONDS_HELD = 11, 4
COLOURS = ("#3f6fb5", "#d9822b", "#3a9d6e")
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 15px; } .small { font-size: 11.5px; fill: #656d76; }
.in { fill: #fff; font-size: 12px; } .lane { fill: #8882; } .axis { stroke: #8886; }
.loss { fill: none; stroke: #3f6fb5; stroke-width: 2; } .cursor { stroke: #cf222e; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .small { fill: #9198a1; } }
"""


def drawn(told: Told) -> str:
    """The SVG."""
    end = max(at for events in told["events"].values() for at, *_ in events)
    scale = (WIDTH - LEFT - RIGHT) / end
    lanes = TOP + told["slots"] * (LANE + GAP)
    height = lanes + 34 + CURVE + 30
    body = "".join([*_blocks(told, scale), _loss(told, scale, lanes + 34)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">'
        f"<title>{escape(_alternative(told))}</title><style>{STYLE}</style>"
        f"{''.join(_frame(told, scale, lanes, height))}"
        f'<g opacity="0.22">{body}</g>'
        f'<clipPath id="past"><rect x="0" y="0" width="{WIDTH}" height="{height}">'
        f"{_animation('width', LEFT, WIDTH)}</rect></clipPath>"
        f'<g clip-path="url(#past)">{body}</g>'
        f'<line class="cursor" x1="{WIDTH - RIGHT}" x2="{WIDTH - RIGHT}" y1="{TOP - 6}" '
        f'y2="{height - 26}">{_animation("x1", LEFT, WIDTH - RIGHT)}'
        f"{_animation('x2', LEFT, WIDTH - RIGHT)}</line></svg>\n"
    )


def held(events: list[list[Any]]) -> Iterator[tuple[float, float, list[int]]]:
    """From when to when a job held which slots."""
    changes = [(at, slots) for at, reason, slots in events if reason in ("Starting", "Resized")]
    end = next(at for at, reason, _ in events if reason == "Ended")
    for (at, slots), (until, _) in pairwise([*changes, (end, [])]):
        yield at, until, slots


def _alternative(told: Told) -> str:
    widths = [len(slots) for *_, slots in held(next(iter(told["events"].values())))]
    return (
        f"A job of {' then '.join(map(str, widths))} slots trains on while others come and go; "
        f"recorded on {told['date']}"
    )


def _frame(told: Told, scale: float, lanes: int, height: int) -> Iterator[str]:
    first, *others = told["events"]
    yield _text(LEFT, 24, "A job is resized while it trains", "title")
    yield _text(
        LEFT,
        44,
        f"{first} asks for {told['asked'][first]} slots; {' and '.join(others)} come and go. "
        f"Nothing is restarted. Recorded on {told['date']}, commit {told['commit']}.",
        "small",
    )
    for slot in range(told["slots"]):
        top = TOP + slot * (LANE + GAP)
        yield _text(8, top + 17, f"slot {slot}", "small")
        width = WIDTH - LEFT - RIGHT
        yield f'<rect class="lane" x="{LEFT}" y="{top}" width="{width}" height="{LANE}" rx="3"/>'
    yield _text(8, lanes + 48, "loss", "small")
    base = lanes + 34 + CURVE
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    for second in range(0, int((WIDTH - LEFT - RIGHT) / scale) + 1, 20):
        yield _text(LEFT + second * scale, height - 12, f"{second} s", "small")


def _blocks(told: Told, scale: float) -> Iterator[str]:
    for (name, events), colour in zip(told["events"].items(), COLOURS, strict=False):
        for begin, end, slots in held(events):
            for slot in slots:
                x, width = LEFT + begin * scale, (end - begin) * scale
                y = TOP + slot * (LANE + GAP)
                yield (
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE}" rx="3" '
                    f'fill="{colour}"/>'
                )
                yield _text(x + 7, y + 17, name, "in")


def _loss(told: Told, scale: float, top: int) -> str:
    points = [(at, loss) for at, _, loss in told["steps"] if loss is not None]
    highest = max(loss for _, loss in points)
    path = " ".join(
        f"{LEFT + at * scale:.1f},{top + CURVE - loss / highest * CURVE:.1f}" for at, loss in points
    )
    return f'<polyline class="loss" points="{path}"/>'


def _animation(attribute: str, begin: float, end: float) -> str:
    """From begin to end, then held, again and again."""
    whole = SECONDS_SHOWN + SECONDS_HELD
    return (
        f'<animate attributeName="{attribute}" values="{begin};{end};{end}" '
        f'keyTimes="0;{SECONDS_SHOWN / whole:.3f};1" dur="{whole}s" repeatCount="indefinite"/>'
    )


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}">{escape(words)}</text>'
