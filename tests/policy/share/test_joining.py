"""Who joins whom: the best gain that no guard speaks against, and nobody twice."""

import numpy as np
import pytest

from tests.perf.interleaving.profiles import A2C, BERT, DQN, GPT2, VGG16
from weft.model.stages import StageProfile
from weft.perf.interleaving.experience import Experience, signature_of
from weft.perf.interleaving.group import foretold
from weft.policy.share.guards import Guard, Limits
from weft.policy.share.joining import Guest, Parties

ALL = (A2C, BERT, DQN, GPT2, VGG16)
UNBOUNDED = float("inf")


def guest(profile: StageProfile, cap: float = 6.0) -> Guest:
    return Guest(profile, cap)


def alone(
    *profiles: StageProfile,
    memory_gib: float = UNBOUNDED,
    known: Experience | None = None,
    **limits: float,
) -> Parties:
    given, known = Limits(**limits), known or Experience()  # type: ignore[arg-type]
    members = [[guest(one)] for one in profiles]
    return Parties(members, [memory_gib] * len(profiles), given, known)


def anywhere(parties: int) -> np.ndarray:
    return np.ones(parties, bool)


@pytest.mark.parametrize("profile", ALL)
def test_the_party_with_the_best_gain_is_joined(profile: StageProfile) -> None:
    gains = [foretold([one, profile]).aggregate - 1.0 for one in ALL]
    lawful = [
        gain if gain >= 0.02 and foretold([one, profile]).worst_slowdown <= 6.0 else -1.0
        for gain, one in zip(gains, ALL, strict=True)
    ]
    best = alone(*ALL).best(guest(profile), anywhere(len(ALL)))
    assert best == (int(np.argmax(lawful)) if max(lawful) > 0 else None)


def test_what_is_not_possible_is_not_chosen() -> None:
    parties = alone(BERT, BERT)
    assert parties.best(guest(A2C), np.array([False, True])) == 1
    assert parties.best(guest(A2C), np.array([False, False])) is None


def test_a_party_is_another_one_once_somebody_has_joined() -> None:
    parties = alone(BERT, BERT)
    first = parties.best(guest(A2C), anywhere(2))
    assert first == 0
    parties.join(first, guest(A2C))
    two, three = (foretold([BERT, *[A2C] * count]).aggregate for count in (1, 2))
    assert parties.best(guest(A2C), anywhere(2)) == int(np.argmax([three - two, two - 1.0]))
    assert parties.forecast(0, guest(DQN)).slowdowns == foretold([DQN, BERT, A2C]).slowdowns


def test_a_full_party_takes_nobody() -> None:
    parties = alone(BERT, most_members=2)
    parties.join(0, guest(A2C))
    assert parties.best(guest(DQN), anywhere(1)) is None


def knowing(*profiles: StageProfile, factor: float) -> Experience:
    known = Experience()
    known.learn(signature_of(profiles), foretold_seconds=1.0, measured_seconds=factor)
    return known


def test_a_party_that_was_measured_to_lose_is_not_chosen() -> None:
    assert alone(BERT, GPT2).best(guest(A2C), anywhere(2)) == 1
    known = knowing(GPT2, A2C, factor=1.7)
    assert alone(BERT, GPT2, known=known).best(guest(A2C), anywhere(2)) == 0


def test_what_pairs_lose_keeps_those_apart_who_would_hardly_gain() -> None:
    """VGG and BERT do 1.25 times the work of one by their stages alone."""
    known = Experience()
    assert alone(VGG16).best(guest(BERT), anywhere(1)) == 0
    for other in (A2C, GPT2, DQN):
        known.learn(signature_of([other, DQN]), foretold_seconds=1.0, measured_seconds=1.5)
    parties = alone(VGG16, known=known)
    assert parties.best(guest(BERT), anywhere(1)) is None
    refusal = parties.refusal(guest(BERT), anywhere(1))
    assert refusal is not None and refusal.guard is Guard.GAIN


def test_a_forecast_tells_what_such_parties_lose() -> None:
    known = knowing(BERT, A2C, factor=1.25)
    told = alone(BERT, known=known).forecast(0, guest(A2C))
    plain = foretold([A2C, BERT])
    assert told.cycle_seconds == pytest.approx(1.25 * plain.cycle_seconds)
    assert told.aggregate == pytest.approx(plain.aggregate / 1.25)


def test_that_a_party_did_better_than_foretold_is_not_relied_on() -> None:
    known = knowing(BERT, A2C, factor=0.6)
    assert alone(BERT, known=known).forecast(0, guest(A2C)) == foretold([A2C, BERT])


def held(profile: StageProfile, gib: float | None) -> StageProfile:
    return StageProfile(
        iteration_seconds=profile.iteration_seconds,
        loading_seconds=profile.loading_seconds,
        gpu_seconds=profile.gpu_seconds,
        gpu_memory_bytes=None if gib is None else int(gib * 2**30),
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "guard"),
    [
        (7.0, 7.0, None),
        (8.0, 8.0, Guard.MEMORY),
        (None, 2.0, Guard.MEMORY_UNKNOWN),
        (2.0, None, Guard.MEMORY_UNKNOWN),
    ],
)
def test_memory_of_all_has_to_fit(
    mine: float | None, theirs: float | None, guard: Guard | None
) -> None:
    parties = alone(held(BERT, theirs), memory_gib=16.0)
    one = guest(held(A2C, mine))
    assert (parties.best(one, anywhere(1)) is None) == (guard is not None)
    refusal = parties.refusal(one, anywhere(1))
    assert (None if refusal is None else refusal.guard) == guard


def test_a_cap_is_of_the_one_who_has_it() -> None:
    slow = foretold([BERT, VGG16]).slowdowns
    parties = Parties([[guest(BERT, slow[0] - 0.01)]], [UNBOUNDED], Limits(), Experience())
    assert parties.best(guest(VGG16), anywhere(1)) is None
    refusal = parties.refusal(guest(VGG16), anywhere(1))
    assert refusal is not None
    assert refusal.guard in (Guard.SLOWDOWN, Guard.GAIN)


def test_nobody_to_join() -> None:
    assert Parties([], [], Limits(), Experience()).best(guest(BERT), np.zeros(0, bool)) is None


def test_a_party_that_does_less_than_one_alone_is_not_joined_though_it_gains() -> None:
    """Two were measured to do half of it; a third would bring them to nine tenths."""
    busy = StageProfile(iteration_seconds=0.5, gpu_seconds=1.0)
    reads = guest(StageProfile(iteration_seconds=0.8, storage_seconds=0.8))
    parties = Parties([[guest(busy), guest(busy)]], [UNBOUNDED], Limits(), Experience())
    both, all_three = foretold([busy, busy]), parties.forecast(0, reads)
    assert both.aggregate < all_three.aggregate < 1.0
    assert parties.best(reads, anywhere(1)) is None
    refusal = parties.refusal(reads, anywhere(1))
    assert refusal is not None and refusal.guard is Guard.GAIN


def test_a_cap_of_one_is_no_company_even_where_it_costs_nothing() -> None:
    loads = StageProfile(iteration_seconds=1.0, storage_seconds=0.5, gpu_seconds=0.5)
    assert foretold([loads, loads]).slowdowns == (1.0, 1.0)
    parties = Parties([[guest(loads, 1.0)]], [UNBOUNDED], Limits(), Experience())
    assert parties.best(guest(loads), anywhere(1)) is None
    refusal = parties.refusal(guest(loads), anywhere(1))
    assert refusal is not None
    assert refusal.guard is Guard.SLOWDOWN
