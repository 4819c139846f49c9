"""Every named scheduler, each as one composition.

`RECIPES` maps a name to the function that makes it; the function's keyword arguments are the
recipe's parameters, its docstring is what `weft recipes` prints. Some parameters are common to all:
`packed` (network-packing widths), `patience` (the longest wait for locality, in seconds), `period`
(rounds every so many seconds, not at events), `host` (cores and memory by what they bring),
`interleave` (jobs that agreed to it take turns on the same GPUs) and `longest_wait` (seconds after
which a job goes first, unless ten of its fair times are longer). Two more are common to the elastic
ones, so that placement is not what sets them apart: `compact` and `restarts` of `Resizing`.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper
from typing import Any

from weft.policy.host.shares import HostShares
from weft.policy.order.arrival import by_arrival
from weft.policy.order.attained import (
    DoublingLevels,
    FeedbackLevels,
    LeastAttained,
)
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
from weft.policy.packing import Packing
from weft.policy.place.packing import best_fit, packed_fit
from weft.policy.place.patience import PATIENT, Patience
from weft.policy.plans.planning import Planning, Scope
from weft.policy.plans.recipes import PLANNED
from weft.policy.recipe import (
    Defragmenting,
    Passing,
    Recipe,
    Reserving,
    Resizing,
    Rounds,
    Yielding,
)
from weft.policy.replays import REPLAYS
from weft.policy.share.sharing import Sharing
from weft.policy.size.afs import Afs
from weft.policy.size.climb import Climbing
from weft.policy.size.even import Even
from weft.policy.size.maxmin import MaxMin
from weft.policy.size.optimus import Optimus
from weft.policy.size.requested import NetworkPacked
from weft.policy.size.turbo import Turbo
from weft.policy.size.weave import Weave
from weft.policy.waiting import DAY_SECONDS

PREEMPTIVE_SPACING_SECONDS = 60.0

Maker = Callable[..., Recipe]


def _with_common_parameters(make: Maker) -> Maker:
    """Let every recipe take the common parameters beside its own."""

    def maker(
        *,
        packed: bool | None = None,
        patience: float = PATIENT.cap_seconds,
        period: float | None = None,
        host: bool = False,
        interleave: bool | None = None,
        defragment: bool = False,
        longest_wait: float = DAY_SECONDS,
        **own: object,
    ) -> Recipe:
        recipe = make(**own) if packed is None else _packed(make(**own), packed=packed)
        if interleave is not None:
            recipe = replace(recipe, sharing=Sharing() if interleave else None)
        return replace(
            recipe,
            patience=Patience(patience),
            rounds=replace(recipe.rounds, period_seconds=period),
            host=HostShares() if host else recipe.host,
            defragmenting=Defragmenting() if defragment else recipe.defragmenting,
            waiting=replace(recipe.waiting, longest_seconds=longest_wait),
        )

    return _signed(maker, make)


def _elastic(make: Maker) -> Maker:
    """Let a recipe that resizes take `compact` and `restarts` beside its own parameters."""

    def maker(
        *, compact: bool | None = None, restarts: bool | None = None, **own: object
    ) -> Recipe:
        recipe = make(**own)
        resizing, given = recipe.resizing, {"compact": compact, "restarts": restarts}
        assert resizing is not None
        said: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        if restarts is not None and isinstance(recipe.size, Climbing):
            recipe = replace(recipe, size=replace(recipe.size, anew=restarts))
        return replace(recipe, resizing=replace(resizing, **said))

    return _with_common_parameters(_signed(maker, make))


def _signed(maker: Maker, make: Maker) -> Maker:
    """Shown as taking what `make` takes, and what `maker` adds to it."""
    added = list(inspect.signature(maker).parameters.values())[:-1]
    everything = [*inspect.signature(make).parameters.values(), *added]
    update_wrapper(maker, make)
    maker.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    maker.__annotations__ = {knob.name: knob.annotation for knob in everything}
    return maker


def _packed(recipe: Recipe, *, packed: bool) -> Recipe:
    """The same among widths and placements that leave a network card to one job, or among all."""
    if not packed:
        return recipe if recipe.resizing is None else _sat(recipe, Packing.NONE)
    if recipe.resizing is None:
        return replace(recipe, size=NetworkPacked(recipe.size))
    return _sat(recipe, Packing.NETWORK)


def _sat(recipe: Recipe, packing: Packing) -> Recipe:
    """An elastic recipe with another packing."""
    assert recipe.resizing is not None
    size = recipe.size
    if isinstance(size, Climbing):
        size = replace(size, packing=packing)
    elif packing.packs:
        size = NetworkPacked(size)
    return replace(
        recipe,
        size=size,
        place=packed_fit if packing.packs else best_fit,
        resizing=replace(recipe.resizing, packing=packing),
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
    reserve_gpus: int = 2,
    spacing: float = 1.0,
    make_way: bool = False,
) -> Recipe:
    """First come, first served, others may pass; a gang blocked for long gets a reservation."""
    return Recipe(
        name="backfill",
        order=by_arrival,
        passing=Passing.HARMLESS if reserve else Passing.ANYBODY,
        reserving=Reserving(reserve_after, reserve_gpus) if reserve else None,
        rounds=Rounds(spacing_seconds=spacing),
        yielding=Yielding(min_run_seconds=0.0, by_loss=True) if make_way else None,
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
    fill: bool = True,
) -> Recipe:
    """AITurbo: predictable jobs by gain, the others by service, in one line by Borda count."""
    return Recipe(
        name="aiturbo",
        order=Borda(again_seconds=again, grain_gpus=grain),
        size=Turbo(grain_gpus=grain, fill=fill),
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
    plans: bool = False,
) -> Recipe:
    """Weft's own: AFS by expected lengths, on whole nodes, changes priced, in company."""
    recipe = Recipe(
        name="weave",
        order=ExpectedShortest(),
        size=Weave(grain_gpus=grain, anew=True),
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
        sharing=Sharing(),
        planning=Planning(scope=Scope.SEATED) if plans else None,
    )
    return _sat(recipe, Packing.WHOLE_NODES)


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


def muri_s(*, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0) -> Recipe:
    """Least remaining service first, and who cannot be seated joins who sits (Muri-S)."""
    return replace(srsf(spacing=spacing, min_run=min_run), name="muri-s", sharing=Sharing())


def muri_l(
    *, hold: float = 600.0, spacing: float = PREEMPTIVE_SPACING_SECONDS, min_run: float = 900.0
) -> Recipe:
    """Least attained service first, and who cannot be seated joins who sits (Muri-L)."""
    recipe = las(hold=hold, spacing=spacing, min_run=min_run)
    return replace(recipe, name="muri-l", sharing=Sharing())


RECIPES: dict[str, Maker] = {
    **{
        make.__name__: _with_common_parameters(make)
        for make in (fifo, backfill, srtf, srsf, las, tiresias, gittins, fair)
    },
    **{make.__name__: _elastic(make) for make in (maxmin, even, optimus, afs)},
    "afs-l": _elastic(afs_l),
    "afs-p": _elastic(afs_p),
    "aiturbo": _elastic(aiturbo),
    "weave": _elastic(weave),
    "sensitivity": _with_common_parameters(sensitivity),
    "muri-s": _with_common_parameters(muri_s),
    "muri-l": _with_common_parameters(muri_l),
    **REPLAYS,
    **{name: _with_common_parameters(make) for name, make in PLANNED.items()},
}
