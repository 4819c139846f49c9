"""Simulated clusters from fresh seeds; a failing one is reduced to the jobs and faults it needs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.sim.play import play
from tests.sim.random_world import Plan, draw
from tests.sim.subset import PARTS, subset
from tools.explore.kinds import Found
from tools.explore.reduce import reduced

#: A reduced world that takes more steps than this has become another failure.
MOST_STEPS: Final = 40_000


def trial(seed: int) -> None:
    play(draw(seed))


def reproducer(found: Found, until: float) -> str:
    plan, kept = draw(found.seed), dict[str, list[int]]()
    for part in PARTS:
        kept[part] = _reduced_part(plan, part, kept, found, until)
    changed = {part: some for part, some in kept.items() if len(some) < len(PARTS[part](plan))}
    arguments = "".join(f", {part}={some}" for part, some in changed.items())
    world = f"subset(draw({found.seed}){arguments})" if arguments else f"draw({found.seed})"
    uses = "from tests.sim.subset import subset\n" if arguments else ""
    return (
        f'"""Found by `python -m tools.explore --kind worlds`: {found.title}"""\n\n'
        "from tests.sim.play import play\n"
        "from tests.sim.random_world import draw\n"
        f"{uses}\n\n"
        f"def test_world_{found.seed}_keeps_every_promise() -> None:\n"
        f"    play({world})\n"
    )


def _reduced_part(
    plan: Plan, part: str, before: dict[str, list[int]], found: Found, until: float
) -> list[int]:
    """The places in this part of the plan that the failure needs, those of others being reduced."""

    def still_fails(places: Sequence[int]) -> bool:
        return _fails_alike(subset(plan, **before, **{part: list(places)}), found, until)

    return reduced(range(len(PARTS[part](plan))), still_fails, until)


def _fails_alike(plan: Plan, found: Found, until: float) -> bool:
    if time.monotonic() > until:
        return False
    try:
        play(replace(plan), most_steps=MOST_STEPS)
    except Exception as error:
        return _sort_of(error) == _sort_of(found.error)
    return False


def _sort_of(error: Exception) -> tuple[str, str]:
    """The type and, of a broken promise, which one."""
    return type(error).__name__, str(getattr(error, "promise", ""))
