"""For real: four torch jobs of different scaling on four slots, resized while they train.

They come one after the other, so that widths have to follow both arrivals and ends, and nobody
tells the brain how they scale. Beside it, in the same run: the same jobs at fixed widths. What the
brain's rule said and what the workers did are laid side by side, step by step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Final

from benchmarks.elastic.lived import SLOTS, Lived, Planned, Played, play
from benchmarks.row import Row, at_least, at_most, below_peer, broken, exactly, told
from weft.model.errors import WeftError

RECIPE: Final = "afs-l(hold=3, spacing=1, min_run=60)"
FIXED: Final = "backfill(spacing=1)"
PAUSE_SECONDS: Final = 1.0
SAMPLE_SECONDS: Final = 0.25
AGREEMENT: Final = 0.7

JOBS: Final = (
    Planned("linear", 0.01, 0.02, 0.0, at_seconds=0.0, steps=440),
    Planned("flat", 0.22, 0.0015, 0.003, at_seconds=14.0, steps=140),
    Planned("moderate", 0.06, 0.015, 0.002, at_seconds=26.0, steps=260),
    Planned("poor", 0.14, 0.008, 0.002, at_seconds=36.0, steps=140),
)


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """The short form has half of the steps, and one fixed width beside it."""
    try:
        yield from _rows(short=short)
    except (WeftError, OSError, AssertionError) as error:
        yield broken("real training", str(error).splitlines()[0])


def _rows(*, short: bool) -> Iterator[Row]:
    jobs = [_halved(job) for job in JOBS] if short else list(JOBS)
    elastic = play(jobs, RECIPE, f"1..{SLOTS}")
    yield from _resized(elastic)
    yield from _foretold(jobs, elastic)
    fixed = {width: play(jobs, FIXED, width) for width in ((1,) if short else (1, 2))}
    yield from _finished(jobs, elastic, fixed)


def _resized(played: Played) -> Iterator[Row]:
    """Widths change without anybody's end, and hardly anybody's rest."""
    pauses = [pause for life in played.lives.values() for pause in life.pauses]
    starts = sum(life.starts for life in played.lives.values())
    yield exactly("starts of four real jobs", starts, "starts", len(played.lives))
    yield told("their resizes", len(pauses), "resizes")
    undone, said = played.foretold.undone, played.foretold.pauses
    yield exactly("resizes ordered and not carried out", undone, "resizes", 0)
    yield told(
        "pause of training at a resize, median",
        median(pauses or [0.0]),
        "s",
        peer="as agents say",
        peer_value=median(said or [0.0]),
    )
    yield at_most(
        "longest pause at a resize",
        max(pauses, default=0.0),
        "s",
        PAUSE_SECONDS,
        peer="as agents say",
        peer_value=max(said, default=0.0),
    )


def _foretold(jobs: Sequence[Planned], played: Played) -> Iterator[Row]:
    """What the rule said, and what the workers did."""
    found = played.foretold
    yield exactly("records that a second brain decides otherwise", found.differences, "records", 0)
    agreed = [_agreement(job.name, played) for job in jobs]
    yield at_least(
        "time that workers trained as wide as the rule says", fmean(agreed), "share", AGREEMENT
    )
    for job in jobs:
        life = played.lives[job.name]
        yield told(
            f"mean width of {job.name}, by the rule",
            _mean_width(life, partial(found.width, job.name)),
            "GPUs",
            peer="trained",
            peer_value=_mean_width(life, life.width),
        )
    yield from _learnt(jobs, played)


def _learnt(jobs: Sequence[Planned], played: Played) -> Iterator[Row]:
    """What is believed of all widths, of the jobs that were measured at two or more.

    Of the others it is believed that they scale without loss, whatever they do.
    """
    shown = [job for job in jobs if len(played.lives[job.name].measured_widths) > 1]
    curves = played.foretold.curves
    errors = [
        abs(curves[job.name][width] / job.rate(width) - 1.0)
        for job in shown
        for width in range(1, SLOTS + 1)
    ]
    yield told("jobs that trained long enough at two widths or more", len(shown), "jobs")
    if not shown:
        return
    yield told("error of their learnt speeds over all widths, median", median(errors), "ratio")
    yield told("the largest", max(errors), "ratio")


def _finished(jobs: Sequence[Planned], elastic: Played, fixed: dict[int, Played]) -> Iterator[Row]:
    """An aim and no bar: where starting takes long, the first to come keeps others waiting.

    A job holds all slots until it has said that it can be resized, which is when it has imported
    torch; with fixed widths the others start beside it.
    """
    for width, played in fixed.items():
        for job in jobs:
            yield told(
                f"finishing time of {job.name}",
                elastic.lives[job.name].jct_seconds,
                "s",
                peer=f"fixed at {width}",
                peer_value=played.lives[job.name].jct_seconds,
            )
        mean = below_peer(
            f"mean finishing time, beside width {width}",
            elastic.mean_jct_seconds,
            "s",
            peer=f"fixed at {width}",
            peer_value=played.mean_jct_seconds,
        )
        yield replace(mean, aim=True)


def _agreement(name: str, played: Played) -> float:
    """The part of its training in which a job was as wide as the rule said."""
    life = played.lives[name]
    times = list(_times(life))
    return fmean(life.width(at) == played.foretold.width(name, at) for at in times)


def _mean_width(life: Lived, width: Callable[[float], int]) -> float:
    return fmean(width(at) for at in _times(life))


def _times(life: Lived) -> Iterator[float]:
    at, last = life.steps[0].at, life.steps[-1].at
    while at <= last:
        yield at
        at += SAMPLE_SECONDS


def _halved(job: Planned) -> Planned:
    return replace(job, at_seconds=job.at_seconds / 2, steps=job.steps // 2)
