"""Both sides of the protocol keep their promises in random histories, or are caught."""

import os

import pytest

from tests.agent.coordination.crowd import PromiseBroken
from tests.agent.coordination.histories import play
from tests.agent.coordination.mutants import MUTANTS, Mutant
from weft.model.errors import IllegalTransition

THOROUGH = bool(os.environ.get("WEFT_THOROUGH"))
CHUNKS = 500 if THOROUGH else 6
EACH = 400
FIRST_SEED = int(os.environ.get("WEFT_FIRST_SEED") or 1 << 40)  # of a search for new ones
SEEDS = 2000  # within which every mutant is found
FOUND_AT = {  # where to look first, because it is rare
    "a_drain_is_not_agreed_on": 126,
    "a_standby_is_overheard": 890,
    "all_who_answer_go_on": 134,
    "nobody_is_told_to_stand_by": 603,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_history_keeps_every_promise(chunk: int) -> None:
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        held(seed)


@pytest.mark.timeout(300)
def test_histories_from_a_seed_that_may_be_chosen() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + EACH):
        held(seed)


def held(seed: int) -> None:
    try:
        play(seed)
    except Exception as error:
        raise AssertionError(f"python -m tests.agent.coordination.histories 1 {seed}") from error


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 30


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_defence_is_noticed(name: str) -> None:
    seed = found_at(name, MUTANTS[name])
    print(f"{name}: seed {seed}")  # noqa: T201


def found_at(name: str, mutant: Mutant) -> int:
    """The first seed that breaks a promise with it; any other error is none of ours."""
    seeds: list[int] = [FOUND_AT.get(name, 0), *range(SEEDS)]
    for seed in seeds:
        with mutant():
            try:
                play(seed)
            except (PromiseBroken, IllegalTransition):
                return seed
    raise AssertionError(f"it was not noticed in {SEEDS} histories")
