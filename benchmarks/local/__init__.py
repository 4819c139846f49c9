"""The gap between worlds: ten jobs on this machine, and the same ten in the simulated world.

The brain is the same object in both, so what differs is the world: what starts and resizes cost,
how fast jobs train, how soon an end is noticed. A calibration measures these on this machine and
gives them to the simulator, which then foretells a workload that it has not seen. The jobs wait for
their data for nearly all of their time, so their speed is known even where two cores are shared by
eight processes; importing torch is real, and what it costs depends on who else imports it.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.local import calibration, simulated
from benchmarks.local.workload import FULL, SHORT, play
from benchmarks.row import Row, at_most, broken, exactly, told
from weft.model.errors import WeftError

GAP = 0.05


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """The short form plays four jobs and holds them to nothing."""
    try:
        yield from _rows(short=short)
    except (WeftError, OSError, AssertionError) as error:
        yield broken("the local world", str(error).splitlines()[0])


def _rows(*, short: bool) -> Iterator[Row]:
    measured = calibration.measure(short=short)
    yield told("start, decision to first step", measured.start_seconds, "s")
    yield told("end, last step to free slots", measured.end_seconds, "s")
    yield told("grow, decision to new width", measured.grow_seconds, "s")
    yield told("shrink, decision to free slots", measured.shrink_seconds, "s")
    for width, rate in measured.rates:
        yield told(f"speed at width {width}", rate, "steps/s")
    jobs = SHORT if short else FULL
    real = play(jobs)
    foretold = simulated.play(jobs, measured)
    mean = sum(one.jct_seconds for one in real.values()) / len(real)
    yield told("mean completion time here", mean, "s")
    simulated_mean = sum(one.jct_seconds for one in foretold.values()) / len(foretold)
    yield told("mean completion time, simulated", simulated_mean, "s")
    gap = abs(simulated_mean / mean - 1.0)
    swapped = simulated.swapped(real, foretold, GAP)
    if short:
        yield told("gap", gap, "ratio")
        yield told("pairs that end in another order", swapped, "pairs")
        return
    yield at_most("gap", gap, "ratio", GAP)
    yield exactly("pairs that end in another order", swapped, "pairs", 0)
    for name, one in real.items():
        yield told(
            f"completion time of {name}",
            one.jct_seconds,
            "s",
            peer="simulated",
            peer_value=foretold[name].jct_seconds,
        )
