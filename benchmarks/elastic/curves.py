"""Curves: how well a width is foretold from at most four others, over the tables of five systems.

Leave-one-out: each width of each measured curve (`curve_tables`) is left out in turn, and the speed
there, on the nodes where it was measured, is foretold from the four nearest of the other widths of
that curve (by their ratio; of two equally near ones the narrower), or from all if there are fewer.
The nearest, because a job that is resized has been at the widths next to the one in question. Gavel
has four widths, so three foretell one. Leaving out the first or the last makes an extrapolation;
these count like all others and are also told apart. The error is |foretold − measured| / measured.

The figures held to a bar are over all predictions of all sources together; each source alone is an
aim. Gavel's tables do not allow it: V100 speeds jump by factors from one width to the next (LM at
batch 10: 82, 163, 121, 615), and of jobs spread over nodes the one GPU that is left out is the only
width that was not spread. Beside it stand harder questions that no bar is set for: only widths that
divide or fill a node, four widths spread over the whole range, and Pollux's and Sia's measurements
at a fixed global batch; and easier ones, with the points of up to four other batches of the same
model on the same GPUs as history.

Nothing is fitted here. The amounts in `perf.smooth` were fitted to these tables once, so each
source's coverage is also given with intervals stretched to cover 80 % of the other sources.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.elastic.curve_tables import (
    FEWEST_WIDTHS,
    MeasuredCurve,
    at_global_batch,
    is_packed,
    measured_curves,
)
from benchmarks.row import Row, aims_at, at_most, told
from weft.perf.point import Point
from weft.perf.predict import predict, predict_by_belief, predict_by_fit, predict_by_table
from weft.perf.prediction import Estimate, Predictor
from weft.perf.recalled import LATEST, Recalled

MEASURED = 4
MEDIAN_BAR_PERCENT, P90_BAR_PERCENT = 8.0, 20.0
NOMINAL_PERCENT, SLACK_PERCENT = 80.0, 5.0
PREDICTION_AIM_MS = 1.0
TIMED_WIDEST, TIMED_TIMES, TIMED_BATCHES = 64, 20, 20
SHORT_STRIDE = 7
ALONE = {"table": predict_by_table, "fit": predict_by_fit, "smooth line": predict_by_belief}

Choice = Callable[[list[Point], Point], list[Point]]


@dataclass(frozen=True, slots=True)
class Score:
    """One prediction; `reach` is how far off the truth was, in halves of the interval."""

    source: str
    kind: str
    error: float
    reach: float


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """The bar, each source, and what is harder or easier."""
    if traces is None:
        yield told("skipped: curves needs WEFT_TRACES", None, "")
        return
    curves = _some(measured_curves(traces), short=short)
    scores = [score for curve in curves for score in left_out(curve)]
    yield told("curves", len(curves), "curves")
    yield told("widths left out", len(scores), "predictions")
    yield from _held(scores)
    for kind in ("between", "beyond the widest", "below the narrowest"):
        yield from _told(kind, [score for score in scores if score.kind == kind])
    for source in dict.fromkeys(score.source for score in scores):
        yield from _source(source, scores)
    yield from _beside(curves, _some(at_global_batch(traces), short=short))
    yield _timed()


def left_out(
    curve: MeasuredCurve,
    predictor: Predictor = predict,
    *,
    choose: "Choice | None" = None,
    packed: bool = False,
) -> Iterator[Score]:
    """Each width foretold from some of the others."""
    points = [p for p in curve.points if not packed or is_packed(p.gpus, curve.node_gpus)]
    for point in points if len(points) >= FEWEST_WIDTHS else ():
        others = (choose or nearest)([other for other in points if other is not point], point)
        foretold = predictor(others, widest=point.gpus, node_gpus=curve.node_gpus)
        estimate = foretold.at(point.gpus, nodes=point.nodes)
        yield _score(curve.source, _kind(others, point), estimate, point.units_per_second)


def nearest(others: list[Point], point: Point) -> list[Point]:
    """The four widths next to the one in question."""
    return sorted(others, key=lambda other: (_apart(other, point), other.gpus))[:MEASURED]


def spread(others: list[Point], _: Point) -> list[Point]:
    """Four widths over the whole range, by their ratio."""
    first, last = math.log(others[0].gpus), math.log(others[-1].gpus)
    chosen: list[Point] = []
    for at in np.linspace(first, last, min(MEASURED, len(others))):
        left = [other for other in others if other not in chosen]
        chosen.append(min(left, key=lambda other: abs(math.log(other.gpus) - at)))
    return chosen


# --- rows -------------------------------------------------------------------------------------


def _held(scores: list[Score]) -> Iterator[Row]:
    yield at_most("median error", _percentile(scores, 0.5), "%", MEDIAN_BAR_PERCENT)
    yield at_most("p90 error", _percentile(scores, 0.9), "%", P90_BAR_PERCENT)
    yield _covers("80 % intervals that hold", _coverage(scores), aim=False)


def _source(source: str, scores: list[Score]) -> Iterator[Row]:
    own = [score for score in scores if score.source == source]
    others = [score for score in scores if score.source != source]
    yield told(f"{source}: widths left out", len(own), "predictions")
    yield aims_at(f"{source}: median error", _percentile(own, 0.5), "%", MEDIAN_BAR_PERCENT)
    yield aims_at(f"{source}: p90 error", _percentile(own, 0.9), "%", P90_BAR_PERCENT)
    yield _covers(f"{source}: intervals that hold", _coverage(own), aim=True)
    stretched = _coverage(own, _stretch(others))
    yield told(f"{source}: the same, stretched on the other sources", stretched, "%")


def _beside(curves: list[MeasuredCurve], whole: list[MeasuredCurve]) -> Iterator[Row]:
    for name, predictor in ALONE.items():
        yield from _told(f"by the {name} alone", _all(curves, predictor))
    yield from _told("packed widths only", _all(curves, packed=True))
    yield from _told("four widths over the range", _all(curves, choose=spread))
    yield from _told("at a fixed global batch", _all(whole))
    yield from _told("with history", _with_history(curves))
    yield from _told("packed widths only, with history", _with_history(curves, packed=True))


def _told(name: str, scores: list[Score]) -> Iterator[Row]:
    yield told(f"{name}: median error", _percentile(scores, 0.5), "%")
    yield told(f"{name}: p90 error", _percentile(scores, 0.9), "%")
    yield told(f"{name}: intervals that hold", _coverage(scores), "%")


def _covers(name: str, percent: float, *, aim: bool) -> Row:
    holds = abs(percent - NOMINAL_PERCENT) <= SLACK_PERCENT
    bar = f"{NOMINAL_PERCENT:g} ± {SLACK_PERCENT:g}"
    return Row(name=name, value=percent, unit="%", bar=bar, holds=holds, aim=aim)


def _timed() -> Row:
    """The quickest of several batches, because other processes disturb the processor's caches."""
    points = [Point(width, 10.0 * width**0.8, nodes=1 + width // 9) for width in (1, 4, 8, 16)]
    each_ms = []
    for _ in range(TIMED_BATCHES):
        begin = process_time()
        for _ in range(TIMED_TIMES):
            predict(points, widest=TIMED_WIDEST, node_gpus=8)
        each_ms.append(1e3 * (process_time() - begin) / TIMED_TIMES)
    name = f"one prediction of {TIMED_WIDEST} widths (processor)"
    return aims_at(name, min(each_ms), "ms", PREDICTION_AIM_MS)


# --- scores -----------------------------------------------------------------------------------


def _all(
    curves: Iterable[MeasuredCurve],
    predictor: Predictor = predict,
    *,
    choose: Choice = nearest,
    packed: bool = False,
) -> list[Score]:
    return [
        score
        for curve in curves
        for score in left_out(curve, predictor, choose=choose, packed=packed)
    ]


def _with_history(curves: list[MeasuredCurve], *, packed: bool = False) -> list[Score]:
    """The other batches of the same model on the same GPUs have run before, at every width."""
    scores: list[Score] = []
    for place, curve in enumerate(curves):
        likes = [
            (abs(place - other), like.points)
            for other, like in enumerate(curves)
            if other != place and (like.source, like.program) == (curve.source, curve.program)
        ]
        earlier = tuple(points for _, points in sorted(likes, key=lambda like: like[0])[:LATEST])
        if earlier:
            scores.extend(left_out(curve, Recalled(earlier), packed=packed))
    return scores


def _score(source: str, kind: str, estimate: Estimate, actual: float) -> Score:
    off = math.log(actual / estimate.likely)
    half = math.log((estimate.high if off > 0 else estimate.low) / estimate.likely)
    reach = off / half if half else math.inf * abs(off)
    return Score(source, kind, abs(estimate.likely - actual) / actual, reach)


def _kind(others: Sequence[Point], point: Point) -> str:
    widths = [other.gpus for other in others]
    if point.gpus > max(widths):
        return "beyond the widest"
    return "below the narrowest" if point.gpus < min(widths) else "between"


def _apart(other: Point, point: Point) -> float:
    return round(abs(math.log(other.gpus / point.gpus)), 9)


def _percentile(scores: Sequence[Score], share: float) -> float:
    return 100.0 * float(np.quantile([score.error for score in scores] or [math.nan], share))


def _coverage(scores: Sequence[Score], stretch: float = 1.0) -> float:
    held = [float(score.reach <= stretch) for score in scores]
    return 100.0 * float(np.mean(held or [math.nan]))


def _stretch(scores: Sequence[Score]) -> float:
    """By how much intervals must be stretched to hold 80 %, each source counting alike."""
    sources = [score.source for score in scores]
    weight = np.array([1.0 / sources.count(source) for source in sources])
    reach = np.array([score.reach for score in scores])
    order = np.argsort(reach)
    passed = np.cumsum(weight[order]) / weight.sum()
    return float(reach[order][np.searchsorted(passed, NOMINAL_PERCENT / 100.0)])


def _some(curves: list[MeasuredCurve], *, short: bool) -> list[MeasuredCurve]:
    return curves[::SHORT_STRIDE] if short else curves
