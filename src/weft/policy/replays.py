"""Replays: what published simulators do, by their own rules; for conformance only.

Everybody is placed anew in every round, at no wait's bound.
"""

from collections.abc import Callable
from dataclasses import replace

from weft.perf.interleaving.group import LOCK_STEP
from weft.policy.order.attained import FeedbackLevels, by_attained
from weft.policy.order.ranking import Order
from weft.policy.order.shortest import by_remaining_service, by_remaining_time
from weft.policy.place.packing import anywhere, first_fit
from weft.policy.recipe import Recipe, Rounds, Yielding
from weft.policy.share.blossom import Blossom
from weft.policy.share.candidates import DEFAULT_CAP
from weft.policy.share.guards import Limits
from weft.policy.share.sharing import Regrouping
from weft.policy.waiting import UNBOUNDED

AS_PUBLISHED = Regrouping(Blossom(published=True), limits=Limits(cycles=LOCK_STEP))


def muri_srtf() -> Recipe:
    """SRTF under the replay rules of Muri's simulator; for conformance only."""
    return _muri("muri-srtf", by_remaining_time)


def muri_srsf() -> Recipe:
    """SRSF under the replay rules of Muri's simulator; for conformance only."""
    return _muri("muri-srsf", by_remaining_service)


def muri_tiresias() -> Recipe:
    """Tiresias under the replay rules of Muri's simulator; for conformance only."""
    return Recipe(
        name="muri-tiresias",
        order=FeedbackLevels((3250.0, 7200.0), None),
        place=anywhere,
        rounds=Rounds(spacing_seconds=0.0, after_starts=True),
        yielding=Yielding(min_run_seconds=0.0, reshuffle=True),
        waiting=UNBOUNDED,
    )


def muri_replay_s() -> Recipe:
    """Muri-S under the replay rules of its simulator; for conformance only."""
    return _muri_groups("muri-replay-s", by_remaining_service, AS_PUBLISHED)


def muri_replay_l() -> Recipe:
    """Muri-L under the replay rules of its simulator; for conformance only."""
    return _muri_groups("muri-replay-l", by_attained, AS_PUBLISHED)


def muri_replay_capped(*, cap: float = DEFAULT_CAP, ratios: bool = False) -> Recipe:
    """Our choice of groups under the replay rules of Muri's simulator; for conformance only."""
    cycles = replace(LOCK_STEP, ratios=ratios)
    regrouping = Regrouping(Blossom(), cap=cap, limits=Limits(cycles=cycles))
    return _muri_groups("muri-replay-capped", by_remaining_service, regrouping)


def _muri_groups(name: str, order: Order, regrouping: Regrouping) -> Recipe:
    replay = _muri(name, order)
    yielding = Yielding(min_run_seconds=0.0, reshuffle=True, regrouping=regrouping)
    rounds = Rounds(spacing_seconds=0.0, after_starts=True)
    return replace(replay, yielding=yielding, rounds=rounds)


def _muri(name: str, order: Order) -> Recipe:
    return Recipe(
        name=name,
        order=order,
        place=first_fit,
        rounds=Rounds(spacing_seconds=0.0),
        yielding=Yielding(min_run_seconds=0.0, reshuffle=True),
        waiting=UNBOUNDED,
    )


REPLAYS: dict[str, Callable[..., Recipe]] = {
    "muri-srtf": muri_srtf,
    "muri-srsf": muri_srsf,
    "muri-tiresias": muri_tiresias,
    "muri-replay-s": muri_replay_s,
    "muri-replay-l": muri_replay_l,
    "muri-replay-capped": muri_replay_capped,
}
