"""Every step once, for everyone who goes on; and the newest target is reached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.crowd import Crowd
from weft.agent.coordinator import Phase
from weft.agent.messages import NotBuilt
from weft.agent.outcome import Outcome

SEEDS = st.integers(0, 2**32)


def finish(crowd: Crowd) -> Crowd:
    crowd.faults = 0.0
    crowd.calm(20_000)
    assert crowd.conclusion is not None, f"still {crowd.mind.phase} at {crowd.now:.1f} s"
    return crowd


def until(crowd: Crowd, phase: Phase) -> None:
    for _ in range(20_000):
        if crowd.mind.phase is phase:
            return
        crowd.turn()
    raise AssertionError(f"never {phase}")


def survivors_applied_each_step_once(crowd: Crowd) -> None:
    done = [a for a in crowd.actors.values() if a.life == "left" and a.step >= crowd.total]
    assert done
    for actor in done:
        assert actor.applied == list(range(crowd.total))


@given(seed=SEEDS, width=st.integers(1, 4))
def test_a_quiet_job_ends(seed: int, width: int) -> None:
    crowd = finish(Crowd(seed, width, total=10))
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.FINISHED
    assert crowd.mind.restarts == 0
    assert len(crowd.actors) == width
    survivors_applied_each_step_once(crowd)


@given(seed=SEEDS, targets=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_resizes_lose_and_repeat_nothing(seed: int, targets: list[int]) -> None:
    crowd = Crowd(seed, 2, total=100_000)
    for target in targets:
        for _ in range(crowd.random.randrange(200)):
            crowd.turn()
        crowd.resize(target)
    for _ in range(6000):
        crowd.turn()
    assert crowd.mind.phase is Phase.STEADY
    assert len(crowd.mind.members) == targets[-1]
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    survivors_applied_each_step_once(finish(crowd))
    assert crowd.mind.restarts == 0


@given(seed=SEEDS, width=st.integers(1, 4))
def test_deaths_in_mid_step_lose_and_repeat_nothing(seed: int, width: int) -> None:
    crowd = Crowd(seed, width, total=100_000)
    crowd.faults = 0.05
    for _ in range(1500):
        crowd.turn()
        if crowd.random.random() < 0.002:
            crowd.resize(crowd.random.randint(1, 4))
        if crowd.mind.elastic and crowd.random.random() < 0.002:
            crowd.kill(crowd.random.choice(list(crowd.actors)))
        if crowd.conclusion:
            break
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    finish(crowd)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.FINISHED
    survivors_applied_each_step_once(crowd)


@given(seed=SEEDS, width=st.integers(1, 4), turns=st.integers(0, 600))
def test_a_drain_leaves_at_one_step(seed: int, width: int, turns: int) -> None:
    crowd = Crowd(seed, width, total=100_000)
    for _ in range(turns):
        crowd.turn()
    crowd.drain()
    finish(crowd)
    assert crowd.conclusion is not None
    assert crowd.conclusion.exit_code == 143
    assert len({a.committed for a in crowd.actors.values() if a.life == "left"}) <= 1


def test_only_the_newest_of_three_targets_is_approached() -> None:
    crowd = Crowd(1, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    until(crowd, Phase.ARMED)
    for target in (3, 4, 1):
        crowd.resize(target)
    for _ in range(3000):
        crowd.turn()
    assert crowd.mind.resizes == 2
    assert len(crowd.mind.members) == 1


def test_a_target_before_the_arming_replaces_the_one_in_flight() -> None:
    crowd = Crowd(2, 1, total=100_000)
    until(crowd, Phase.STEADY)
    for target in (2, 3, 4, 2):
        crowd.resize(target)
    for _ in range(3000):
        crowd.turn()
    assert crowd.mind.resizes == 1
    assert len(crowd.mind.members) == 2


@pytest.mark.parametrize(("code", "outcome"), [(0, "finished"), (3, "user error"), (-9, "infra")])
def test_a_script_that_never_speaks(code: int, outcome: str) -> None:
    crowd = Crowd(0, 2, total=1)
    for number in (0, 1):
        if crowd.conclusion is None:
            crowd.actors[number].alive = False
            crowd.carry_out(crowd.mind.exited(number, code, 1.0))
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome.value.startswith(outcome)


def test_a_silent_script_is_restarted_at_another_width() -> None:
    crowd = Crowd(0, 2, total=1)
    crowd.resize(3)
    assert [a.alive for a in crowd.actors.values()] == [False, False, True, True, True]


def test_a_switch_that_does_not_reach_its_first_step_rolls_back() -> None:
    crowd = Crowd(3, 2, total=100_000)
    until(crowd, Phase.STEADY)
    old = crowd.mind.members
    crowd.resize(3)
    until(crowd, Phase.ARMED)
    assert crowd.mind.change is not None
    (joiner,) = crowd.mind.change.joiners
    crowd.actors[joiner].stopped = True
    for _ in range(300):
        crowd.turn()
    assert crowd.mind.phase is Phase.ARMED
    crowd.now += crowd.mind.limits.whole_switch_seconds
    until(crowd, Phase.REGROUPING)
    assert crowd.mind.members == old
    assert not crowd.actors[joiner].alive
    before = max(actor.step for actor in crowd.actors.values())
    until(crowd, Phase.STEADY)
    crowd.calm(300)
    assert max(actor.step for actor in crowd.actors.values()) > before


def test_a_newcomer_that_never_fits_is_given_up_and_training_goes_on() -> None:
    crowd = Crowd(4, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    for _ in range(6000):
        crowd.turn()
        for actor in crowd.actors.values():
            actor.unfit = actor.number > 0
    limits = crowd.mind.limits
    assert crowd.mind.phase is Phase.STEADY
    assert crowd.mind.members == (0,)
    assert crowd.mind.width == 1, "the target has become what can be had"
    assert len(crowd.actors) == limits.most_stillborn + 2
    survivors = [actor for actor in crowd.actors.values() if actor.alive]
    assert [actor.number for actor in survivors] == [0]
    before = survivors[0].step
    crowd.calm(300)
    assert survivors[0].step > before


def test_a_group_that_cannot_be_built_is_tried_again_after_a_rest() -> None:
    crowd = Crowd(5, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    until(crowd, Phase.BUILDING)
    refusals = 0
    for _ in range(20_000):
        if crowd.mind.phase is Phase.BUILDING and crowd.mind.change is not None:
            epoch = crowd.mind.change.epoch
            refusals += 1
            crowd.carry_out(crowd.mind.heard(0, NotBuilt(epoch, "no route"), crowd.now))
            assert crowd.mind.change is None, "it was tried again at once"
        crowd.turn()
        if crowd.mind.width == 1:
            break
    limits = crowd.mind.limits
    assert refusals == limits.most_failed_joins * (limits.most_stillborn + 1)
    assert crowd.mind.members == (0,)
