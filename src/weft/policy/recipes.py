"""Every named scheduler, each as one composition.

`RECIPES` maps a name to the function that makes it; the function's keyword arguments are the
recipe's parameters, its docstring is what `weft recipes` prints. Four parameters are common to all:
`packed` (network-packing widths), `patience` (the longest wait for locality, in seconds), `period`
(rounds every so many seconds, not at events) and `host` (cores and memory by what they bring).
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper

from weft.policy.host.shares import HostShares
from weft.policy.order.arrival import by_arrival
from weft.policy.order.attained import DoublingLevels, FeedbackLevels, LeastAttained
from weft.policy.order.borda import Borda
from weft.policy.order.expected import ExpectedShortest
from weft.policy.order.fairness import DominantShare
from weft.policy.order.gittins import GittinsOrder
from weft.policy.order.shares import LeastShare
from weft.policy.order.shortest import (
    by_remaining_service,
    by_remaining_time,
    by_time_at_least,
)
from weft.policy.place.packing import anywhere, first_fit, packed_fit
from weft.policy.place.patience import PATIENT, Patience
from weft.policy.recipe import Passing, Recipe, Reserving, Resizing, Rounds, Yielding
from weft.policy.size.afs import Afs
from weft.policy.size.climb import Climbing
from weft.policy.size.even import Even
from weft.policy.size.maxmin import MaxMin
from weft.policy.size.optimus import Optimus
from weft.policy.size.requested import NetworkPacked
from weft.policy.size.turbo import Turbo
from weft.policy.size.weave import Weave

PREEMPTIVE_SPACING_SECONDS = 60.0

Maker = Callable[..., Recipe]


def _with_common_parameters(make: Maker) -> Maker:
    """Let every recipe take `packed`, `patience`, `period` and `host` beside its own parameters."""

    def maker(
        *,
        packed: bool = False,
        patience: float = PATIENT.cap_seconds,
        period: float | None = None,
        host: bool = False,
        **own: object,
    ) -> Recipe:
        recipe = _packed(make(**own)) if packed else make(**own)
        return replace(
            recipe,
            patience=Patience(patience),
            rounds=replace(recipe.rounds, period_seconds=period),
            host=HostShares() if host else recipe.host,
        )

    common = list(inspect.signature(maker).parameters.values())[:-1]
    everything = [*inspect.signature(make).parameters.values(), *common]
    update_wrapper(maker, make)
    maker.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    maker.__annotations__ = {knob.name: knob.annotation for knob in everything}
    return maker


def _packed(recipe: Recipe) -> Recipe:
    """The same among widths and placements that leave each network card to one job."""
    if not isinstance(recipe.size, Climbing | Weave) or recipe.resizing is None:
        return replace(recipe, size=NetworkPacked(recipe.size))
    return replace(
        recipe,
        size=replace(recipe.size, packed=True),
        place=packed_fit,
        resizing=replace(recipe.resizing, packed=True),
    )


def fifo(*, spacing: float = 1.0) -> Recipe:
    """First come, first served; a job that cannot start holds those behind it."""
    return Recipe(
        name="fifo",
        order=by_arrival,
        passing=Passing.NOBODY,
        rounds=Rounds(spacing_seconds=spacing),
    )


def backfill(
    *,
    reserve: bool = True,
    reserve_after: float = 1800.0,
    reserve_nodes: int = 2,
    spacing: float = 1.0,
) -> Recipe:
    """First come, first served, others may pass; a gang blocked for long gets a reservation."""
    return Recipe(
        name="backfill",
        order=by_arrival,
        passing=Passing.HARMLESS if reserve else Passing.ANYBODY,
        reserving=Reserving(reserve_after, reserve_nodes) if reserve else None,
        rounds=Rounds(spacing_seconds=spacing),
    )


def srtf(*, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0) -> Recipe:
    """Shortest remaining time first, preemptive; needs the work of each job."""
    return Recipe(
        name="srtf",
        order=by_remaining_time,
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
    )


def srsf(*, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0) -> Recipe:
    """Shortest remaining service (time × GPUs) first, preemptive."""
    return Recipe(
        name="srsf",
        order=by_remaining_service,
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
    )


def las(
    *, hold: float = 600.0, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0
) -> Recipe:
    """Least attained service (GPU-seconds) first, continuous, preemptive; needs no lengths."""
    return Recipe(
        name="las",
        order=LeastAttained(hold_seconds=hold),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
    )


def tiresias(
    *,
    limits: tuple[float, ...] = (3250.0, 7200.0),
    promote: float | None = 8.0,
    spacing: float = PREEMPTIVE_SPACING_SECONDS,
    min_run: float = 900.0,
) -> Recipe:
    """Discretised 2D least attained service: feedback levels, with promotion of the starved."""
    return Recipe(
        name="tiresias",
        order=FeedbackLevels(tuple(limits), promote),
        rounds=Rounds(spacing_seconds=spacing, after_starts=True),
        yielding=Yielding(min_run_seconds=min_run),
    )


def gittins(
    *, hold: float = 600.0, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0
) -> Recipe:
    """Highest Gittins index first, from the service that finished jobs have needed."""
    return Recipe(
        name="gittins",
        order=GittinsOrder(hold_seconds=hold),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
    )


def fair(
    *, preempt: bool = True, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0
) -> Recipe:
    """Max-min over tenants by dominant share; a tenant's surplus yields to one that has less."""
    return Recipe(
        name="fair",
        order=DominantShare(),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run) if preempt else None,
    )


def maxmin(
    *, grain: int = 1, hold: float = 60.0, spacing: float = 5.0, min_run: float = 300.0
) -> Recipe:
    """Elastic widths, max-min over tenants: jobs grow into what is idle and shrink for others."""
    return Recipe(
        name="maxmin",
        order=DominantShare(floors=True),
        size=MaxMin(grain),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=Resizing(grain_gpus=grain, hold_seconds=hold, explore=False),
    )


def even(*, grain: int = 1, hold: float = 60.0, spacing: float = 5.0) -> Recipe:
    """Elastic widths, the same for every job: the narrowest gets the next GPU."""
    return Recipe(
        name="even",
        order=by_arrival,
        size=Even(grain),
        rounds=Rounds(spacing_seconds=spacing),
        resizing=Resizing(grain_gpus=grain, hold_seconds=hold, explore=False),
    )


def optimus(
    *,
    grain: int = 1,
    hold: float = 60.0,
    spacing: float = 5.0,
    min_run: float = 300.0,
    worth: float = 0.0,
    hull: bool = True,
) -> Recipe:
    """Elastic widths by marginal gain: the next GPU goes where it saves most seconds."""
    return Recipe(
        name="optimus",
        order=by_time_at_least,
        size=Optimus(grain_gpus=grain, hull=hull),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=Resizing(grain_gpus=grain, hold_seconds=hold, worth=worth),
    )


def afs_l(
    *,
    grain: int = 1,
    hold: float = 60.0,
    spacing: float = 5.0,
    min_run: float = 300.0,
    worth: float = 2.0,
    hull: bool = True,
) -> Recipe:
    """AFS: elastic widths where a GPU is missed most, the shorter job first; needs lengths."""
    return Recipe(
        name="afs-l",
        order=by_time_at_least,
        size=Afs(grain_gpus=grain, hull=hull),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=_guarded(grain, hold, worth),
    )


def afs(
    *, grain: int = 1, hold: float = 60.0, spacing: float = 5.0, min_run: float = 300.0
) -> Recipe:
    """AFS by whatever is known: `afs-l`, with jobs of unknown length by service behind them."""
    known = afs_l(grain=grain, hold=hold, spacing=spacing, min_run=min_run)
    return replace(known, name="afs")


def afs_p(
    *,
    grain: int = 1,
    hold: float = 60.0,
    spacing: float = 5.0,
    min_run: float = 300.0,
    worth: float = 2.0,
) -> Recipe:
    """AFS without lengths: the job with least service first, by levels that double."""
    return Recipe(
        name="afs-p",
        order=DoublingLevels(),
        size=Afs(grain_gpus=grain, lengths_known=False, coarse=True),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=_guarded(grain, hold, worth),
    )


def aiturbo(
    *,
    grain: int = 1,
    hold: float = 60.0,
    spacing: float = 5.0,
    min_run: float = 300.0,
    worth: float = 2.0,
    again: float = 240.0,
) -> Recipe:
    """AITurbo: predictable jobs by gain, the others by service, in one line by Borda count."""
    return Recipe(
        name="aiturbo",
        order=Borda(again_seconds=again),
        size=Turbo(grain_gpus=grain),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=_guarded(grain, hold, worth),
    )


def _guarded(grain: int, hold: float, worth: float) -> Resizing:
    """Resizes that are worth their cost; also 8 % of the time that is left, unless `worth` is 0."""
    if not worth:
        return Resizing(grain_gpus=grain, hold_seconds=hold)
    return Resizing(
        grain_gpus=grain,
        hold_seconds=hold,
        hold_share=0.003,
        worth=worth,
        least_saving=0.08,
    )


def weave(
    *,
    grain: int = 1,
    hold: float = 60.0,
    spacing: float = 5.0,
    min_run: float = 300.0,
    worth: float = 2.0,
) -> Recipe:
    """Weft's own: speed bought where it is worth most, by intervals, every change at its cost."""
    return Recipe(
        name="weave",
        order=ExpectedShortest(),
        size=Weave(grain_gpus=grain),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        resizing=Resizing(
            grain_gpus=grain,
            hold_seconds=hold,
            worth=worth,
            hold_share=0.001,
            least_cost_seconds=5.0,
            restarts=True,
            compact=True,
        ),
    )


def sensitivity(
    *, hold: float = 600.0, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0
) -> Recipe:
    """Cores and memory by what they bring each job; least attained dominant share first."""
    return Recipe(
        name="sensitivity",
        order=LeastShare(hold_seconds=hold),
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=min_run),
        host=HostShares(),
    )


def muri_srtf() -> Recipe:
    """SRTF under the replay rules of Muri's simulator; for conformance only."""
    return _muri("muri-srtf", srtf(spacing=0.0))


def muri_srsf() -> Recipe:
    """SRSF under the replay rules of Muri's simulator; for conformance only."""
    return _muri("muri-srsf", srsf(spacing=0.0))


def muri_tiresias() -> Recipe:
    """Tiresias under the replay rules of Muri's simulator; for conformance only."""
    return Recipe(
        name="muri-tiresias",
        order=FeedbackLevels((3250.0, 7200.0), None),
        place=anywhere,
        rounds=Rounds(spacing_seconds=0.0, after_starts=True),
        yielding=Yielding(min_run_seconds=0.0, reshuffle=True),
    )


def _muri(name: str, base: Recipe) -> Recipe:
    return Recipe(
        name=name,
        order=base.order,
        place=first_fit,
        rounds=Rounds(spacing_seconds=0.0),
        yielding=Yielding(min_run_seconds=0.0, reshuffle=True),
    )


RECIPES: dict[str, Maker] = {
    **{
        make.__name__: _with_common_parameters(make)
        for make in (fifo, backfill, srtf, srsf, las, tiresias, gittins, fair, maxmin)
    },
    "even": _with_common_parameters(even),
    "optimus": _with_common_parameters(optimus),
    "afs": _with_common_parameters(afs),
    "afs-l": _with_common_parameters(afs_l),
    "afs-p": _with_common_parameters(afs_p),
    "aiturbo": _with_common_parameters(aiturbo),
    "weave": _with_common_parameters(weave),
    "sensitivity": _with_common_parameters(sensitivity),
    "muri-srtf": muri_srtf,
    "muri-srsf": muri_srsf,
    "muri-tiresias": muri_tiresias,
}
