"""Whether fresh worlds and histories notice each check that is taken out of the product."""

from collections.abc import Callable
from typing import Final

from tests.agent.coordination.crowd import PromiseBroken as HistoryBroken
from tests.agent.coordination.histories import play as play_history
from tests.agent.coordination.mutants import MUTANTS as HISTORY_MUTANTS
from tests.sim import failure_mutants  # noqa: F401 - they register themselves
from tests.sim.mutants import MUTANTS as WORLD_MUTANTS
from tests.sim.mutants import PAIRS, Mutant
from tests.sim.play import play
from tests.sim.promise import PromiseBroken
from tests.sim.random_world import draw
from tests.sim.test_mutants import FOUND_AT, LAWS, MOST_STEPS, SEED
from tools.explore.kinds import Found
from weft.model.errors import IllegalTransition, InvariantBreach

WORLDS: Final = 300
HISTORIES: Final = 4_000


class Unnoticed(AssertionError):
    """So many fresh seeds notice nothing: the checks have become weaker, or the seeds too tame."""


def trial(seed: int) -> None:
    """The seed chooses a mutant, and where the search begins."""
    worlds = {name: one for name, one in (WORLD_MUTANTS | PAIRS).items() if name not in LAWS}
    chosen = seed % (len(worlds) + len(HISTORY_MUTANTS))
    if chosen < len(worlds):
        name = list(worlds)[chosen]
        seeds = [FOUND_AT.get(name, SEED), *range(seed, seed + WORLDS)]
        _search(name, worlds[name], seeds, _world_fails)
    else:
        name = list(HISTORY_MUTANTS)[chosen - len(worlds)]
        seeds = list(range(seed, seed + HISTORIES))
        _search(name, HISTORY_MUTANTS[name], seeds, _history_fails)


def _search(name: str, mutant: Mutant, seeds: list[int], fails: Callable[[int], bool]) -> None:
    for seed in seeds:
        with mutant():
            if fails(seed):
                return
    raise Unnoticed(f"{name} is not noticed by {len(seeds)} seeds up to {seeds[-1]}")


def _world_fails(seed: int) -> bool:
    try:
        play(draw(seed), most_steps=MOST_STEPS)
    except (InvariantBreach, PromiseBroken):
        return True
    return False


def _history_fails(seed: int) -> bool:
    try:
        play_history(seed)
    except (IllegalTransition, HistoryBroken):
        return True
    return False


def reproducer(found: Found, until: float) -> str:
    return (
        f'"""Found by `python -m tools.explore --kind mutants`: {found.title}\n\n'
        "Give the mutant a test of its own, or a seed that notices it.\n"
        '"""\n\n'
        "from tools.explore.mutants import trial\n\n\n"
        f"def test_mutant_of_seed_{found.seed}_is_noticed() -> None:\n"
        f"    trial({found.seed})\n"
    )
