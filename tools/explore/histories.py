"""Histories of one job's protocol: members, heads, and heads that move between plans."""

from collections.abc import Callable
from typing import Final

from tests.agent.coordination.histories import play, play_plans
from tests.agent.coordination.reigns import play_reign
from tools.explore.kinds import Found

MODULES: Final[dict[Callable[[int], object], str]] = {
    play: "tests.agent.coordination.histories",
    play_plans: "tests.agent.coordination.histories",
    play_reign: "tests.agent.coordination.reigns",
}


def trial(seed: int) -> None:
    for play_one in MODULES:
        play_one(seed)


def reproducer(found: Found, until: float) -> str:
    failing = next(play_one for play_one in MODULES if _fails(play_one, found.seed))
    name = failing.__name__
    return (
        f'"""Found by `python -m tools.explore --kind histories`: {found.title}"""\n\n'
        f"from {MODULES[failing]} import {name}\n\n\n"
        f"def test_history_{found.seed}_keeps_every_promise() -> None:\n"
        f"    {name}({found.seed})\n"
    )


def _fails(play_one: Callable[[int], object], seed: int) -> bool:
    try:
        play_one(seed)
    except Exception:
        return True
    return False
