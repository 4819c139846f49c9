"""Every step once, for everyone who goes on; and the newest target is reached."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.agent.coordination.crowd import UNDAUNTED, Crowd
from tests.agent.coordination.histories import PLANS
from weft.agent.coordination.actions import Conclude, Note, Signal, Spawn, TakeStacks
from weft.agent.coordination.approach import Unreached
from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.epochs import Phase
from weft.agent.coordination.hangs import Hangs
from weft.agent.coordination.pace import Pace
from weft.agent.messages import STATELESS, NotBuilt, Pulse
from weft.agent.outcome import Outcome
from weft.agent.plan import Plan

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


def reach(crowd: Crowd, width: int, without: frozenset[int] = frozenset()) -> None:
    """The width is reached, by whom it should be, and it stays so."""
    for _ in range(20_000):
        mind = crowd.mind
        there = len(mind.members) == width and not without & set(mind.members)
        if there and mind.phase is Phase.STEADY:
            break
        crowd.turn()
    crowd.calm(200)
    assert crowd.mind.phase is Phase.STEADY
    assert len(crowd.mind.members) == width
    assert not without & set(crowd.mind.members)


def survivors_applied_each_step_once(crowd: Crowd) -> None:
    done = [a for a in crowd.actors.values() if a.life == "left" and a.step >= crowd.total]
    assert done
    for actor in done:
        assert actor.applied == list(range(crowd.total))


def test_nobody_is_started_before_the_job_is() -> None:
    """The snapshot that is due, or an order, may come while the seats are still on their way."""
    mind = Coordinator(2)
    assert mind.save(5.0) == [] == mind.resize(3, 6.0) == mind.tick(7.0)
    begun = mind.start(8.0, source="here", saved_step=7)
    assert [action.worker for action in begun if isinstance(action, Spawn)] == [0, 1, 2]


def test_a_job_that_is_drained_before_it_began_is_over() -> None:
    (concluded,) = Coordinator(2).drain(30.0, 1.0)
    assert isinstance(concluded, Conclude)
    assert concluded.outcome is Outcome.DRAINED


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
    reach(crowd, targets[-1])
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    survivors_applied_each_step_once(finish(crowd))
    assert crowd.mind.restarts == 0


@given(
    seed=SEEDS,
    width=st.integers(1, 4),
    choices=st.lists(st.tuples(st.integers(0, 15), st.integers(-1, 2)), min_size=1, max_size=4),
)
def test_exactly_those_leave_who_are_to_leave(
    seed: int, width: int, choices: list[tuple[int, int]]
) -> None:
    """Some of the members, or all of them, while the width shrinks, stays or grows."""
    crowd = Crowd(seed, width, total=100_000)
    until(crowd, Phase.STEADY)
    without: frozenset[int] = frozenset()
    for mask, more in choices:
        before = crowd.mind.members
        without |= {n for place, n in enumerate(before) if mask >> place & 1}
        width = max(len(before) + more, 1)
        crowd.resize(width, without)
        for _ in range(crowd.random.randrange(600)):
            crowd.turn()
    reach(crowd, width, without)
    assert crowd.mind.restarts == 0
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    survivors_applied_each_step_once(finish(crowd))


def test_who_stays_is_not_who_came_first() -> None:
    crowd = Crowd(6, 3, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2, frozenset({0}))
    reach(crowd, 2, frozenset({0}))
    assert crowd.mind.members == (1, 2)
    assert len(crowd.actors) == 3, "nobody had to be started for it"
    assert crowd.mind.resizes == 1


def test_who_must_go_does_not_wait_for_who_is_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(12, 2, total=100_000)
    until(crowd, Phase.STEADY)
    monkeypatch.setattr(crowd, "begin", lambda: None)
    crowd.resize(2, frozenset({0}))
    crowd.calm(2000)
    assert crowd.mind.members == (1,)
    assert not crowd.actors[0].alive
    assert crowd.actors[2].alive


def test_the_only_member_leaves_when_another_has_its_state() -> None:
    crowd = Crowd(7, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(1, frozenset({0}))
    reach(crowd, 1, frozenset({0}))
    assert crowd.mind.members == (1,)
    assert crowd.actors[1].applied[0] == 0, "it has not begun anew"
    assert crowd.mind.resizes == 2


def test_replicas_leave_whole() -> None:
    crowd = Crowd(8, 4, total=100_000, unit=2)
    until(crowd, Phase.STEADY)
    crowd.resize(2, frozenset({1}))
    reach(crowd, 2, frozenset({1}))
    assert crowd.mind.members == (2, 3)
    assert crowd.mind.can_spare(frozenset({2})) is False


def test_a_newcomer_whose_place_is_taken_away_does_not_join() -> None:
    crowd = Crowd(9, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    assert sorted(crowd.actors) == [0, 1]
    crowd.resize(2, frozenset({1}))
    reach(crowd, 2, frozenset({1}))
    assert crowd.mind.members == (0, 2)
    assert crowd.mind.resizes == 1, "it was let in first"


def test_a_newcomer_without_its_replica_makes_room_for_a_whole_one() -> None:
    crowd = Crowd(13, 2, total=100_000, unit=2)
    until(crowd, Phase.STEADY)
    crowd.resize(4)
    crowd.kill(3)
    reach(crowd, 4)
    assert crowd.mind.members == (0, 1, 4, 5)


def test_whoever_begins_again_first_can_read_what_was_saved() -> None:
    crowd = Crowd(10, 2, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.durable, crowd.mind.near = crowd.actors[0].committed, frozenset({3})
    crowd.tick()
    for number in (0, 1):
        crowd.kill(number)
    until(crowd, Phase.STEADY)
    assert crowd.mind.members == (3, 2)


def test_nobody_begins_again_while_the_snapshot_is_on_its_way() -> None:
    crowd = Crowd(11, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.mind.holding = True
    crowd.kill(0)
    crowd.calm(2000)
    assert crowd.mind.phase is Phase.GATHERING
    crowd.mind.holding = False
    until(crowd, Phase.STEADY)


def test_who_left_in_another_life_does_not_count() -> None:
    """It had come further than what was begun from again, and nobody else remembers it."""
    crowd = Crowd(14, 2, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.calm(500)
    crowd.resize(1)
    reach(crowd, 1)
    crowd.kill(0)
    crowd.resize(2)
    reach(crowd, 2)
    assert crowd.mind.restarts == 1
    crowd.kill(crowd.mind.members[1])
    reach(crowd, 2)
    assert crowd.mind.restarts == 1, "the survivor was not believed"


def test_the_rest_of_a_replica_is_not_waited_for() -> None:
    """Its members wait for the dead one in the script's own code, and answer nobody."""
    crowd = Crowd(15, 4, total=100_000, unit=2)
    until(crowd, Phase.STEADY)
    crowd.actors[1].stopped = True
    crowd.kill(0)
    assert not crowd.actors[1].alive
    until(crowd, Phase.REGROUPING)
    assert crowd.mind.members == (2, 3)


def test_a_plain_crew_is_started_anew_elsewhere() -> None:
    crowd = Crowd(0, 2, total=1)
    assert not crowd.mind.can_spare(frozenset({1}))
    crowd.resize(2, frozenset({1}))
    assert [a.alive for a in crowd.actors.values()] == [False, False, True, True]


@given(seed=SEEDS, units=st.integers(1, 4), unit=st.sampled_from([1, 1, 2]))
@example(seed=674, units=1, unit=1)
def test_deaths_in_mid_step_lose_and_repeat_nothing(seed: int, units: int, unit: int) -> None:
    crowd = Crowd(seed, units * unit, total=100_000, unit=unit, limits=UNDAUNTED)
    crowd.faults = 0.05
    for _ in range(1500):
        crowd.turn()
        if crowd.random.random() < 0.002:
            crowd.resize(crowd.random.randint(1, 4) * unit)
        if crowd.mind.elastic and crowd.random.random() < 0.002:
            crowd.kill(crowd.random.choice(list(crowd.actors)))
        if crowd.conclusion:
            break
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    finish(crowd)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.FINISHED
    survivors_applied_each_step_once(crowd)


@example(seed=168, faults=0.05)  # a member and a newcomer are lost while all stop for a plan
@given(seed=SEEDS, faults=st.sampled_from([0.0, 0.02, 0.05]))
def test_plans_change_and_deaths_in_the_middle_lose_and_repeat_nothing(
    seed: int, faults: float
) -> None:
    crowd = Crowd(seed, 4, total=100_000)
    crowd.faults = faults
    for _ in range(2500):
        crowd.turn()
        chance = crowd.random.random()
        if chance < 0.006:
            plan, units = crowd.random.choice(PLANS), crowd.random.randint(1, 2)
            crowd.replan(plan, plan.unit * units, beside=crowd.random.random() < 0.6)
        elif crowd.mind.elastic and chance < 0.006 + faults / 20:
            crowd.kill(crowd.random.choice(list(crowd.actors)))
        if crowd.conclusion:
            break
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    crowd.faults = 0.0
    finish(crowd)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.FINISHED
    survivors_applied_each_step_once(crowd)


def test_a_plan_is_reached_or_the_old_one_goes_on() -> None:
    """Without faults every order is reached; the way back leads to the very step."""
    crowd = Crowd(5, 2, total=100_000)
    until(crowd, Phase.STEADY)
    for plan in (*PLANS[1:4], PLANS[0]):
        crowd.replan(plan, 2, beside=plan.tensor == 1)
        for _ in range(20_000):
            if crowd.mind.plans.plan != plan:
                crowd.turn()
        assert crowd.mind.plans.plan == plan
    assert crowd.mind.plans.done == 4
    assert not crowd.mind.restarts


@pytest.mark.parametrize("seed", range(20))
def test_who_stands_still_for_one_that_died_trains_on_at_once(seed: int) -> None:
    crowd = Crowd(seed, 2, total=100_000)
    until(crowd, Phase.STEADY)
    old = crowd.mind.members
    crowd.replan(Plan(tensor=2), 2)
    until(crowd, Phase.YIELDING)
    crowd.kill(max(crowd.actors))
    stopped, made = crowd.now, max(crowd.actors[one].step for one in old)
    while max(crowd.actors[one].step for one in old) < made + 2:
        crowd.turn()
        assert crowd.now < stopped + 30.0, "they stand still for nobody"
    for _ in range(20_000):
        if crowd.mind.plans.plan != Plan(tensor=2):
            crowd.turn()
    assert crowd.mind.plans.plan == Plan(tensor=2), "others come in its place"


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_whose_workers_die_whenever_they_are_ready_is_given_up(seed: int) -> None:
    crowd = Crowd(seed, 2, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.replan(Plan(tensor=2), 2)
    while crowd.mind.plans.wanted == Plan(tensor=2):
        crowd.turn()
        if crowd.mind.phase is Phase.YIELDING:
            crowd.kill(max(crowd.actors))
    made = max(actor.step for actor in crowd.actors.values())
    assert crowd.mind.unreached is not None
    assert "of its workers were lost" in crowd.mind.unreached.why
    crowd.total = made + 5
    finish(crowd)
    survivors_applied_each_step_once(crowd)


@given(seed=SEEDS, units=st.integers(1, 4), unit=st.sampled_from([1, 1, 2]))
def test_who_dies_behind_the_loop_is_not_taken_for_finished(
    seed: int, units: int, unit: int
) -> None:
    """The script is run to its end by a whole crew, and no step is made again for it."""
    crowd = Crowd(seed, units * unit, total=3, unit=unit)
    while not any(actor.life == "behind" for actor in crowd.actors.values()):
        crowd.turn()
    victim = crowd.random.choice([a for a in crowd.actors.values() if a.life == "behind"])
    crowd.tick()
    crowd.kill(victim.number)
    finish(crowd)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.FINISHED
    survivors_applied_each_step_once(crowd)
    ended = [a.number for a in crowd.actors.values() if a.life == "left"]
    assert crowd.mind.restarts == 1
    assert len(ended) >= units * unit
    assert max(ended) > victim.number


def test_a_script_that_always_dies_behind_its_loop_is_given_up() -> None:
    crowd = Crowd(3, 1, total=2)
    for _ in range(20_000):
        crowd.turn()
        for actor in [a for a in crowd.actors.values() if a.alive and a.life == "behind"]:
            crowd.tick()
            crowd.hear(actor)
            crowd.kill(actor.number)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.INFRASTRUCTURE
    assert len(crowd.actors) == 1 + crowd.mind.limits.most_fruitless + 1


def test_a_script_that_always_dies_at_one_step_is_given_up() -> None:
    """It makes steps in each life, but none that nobody has made before."""
    crowd = Crowd(3, 1, total=100)
    for _ in range(50_000):
        if crowd.conclusion is not None:
            break
        crowd.turn()
        for actor in [a for a in crowd.actors.values() if a.alive and a.step >= 20]:
            crowd.kill(actor.number)
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.INFRASTRUCTURE
    assert "no further than" in crowd.conclusion.why
    assert crowd.mind.restarts < 50


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


def test_the_pauses_of_all_switches_since_an_order_are_its_cost() -> None:
    """Each switch counts once, with what it cost the slowest; another order begins anew."""
    crowd = Crowd(1, 1, total=100_000)
    until(crowd, Phase.STEADY)
    paused: list[float | None] = [crowd.mind.paused_seconds]
    crowd.pause_seconds = 0.25
    crowd.resize(2)
    paused.append(crowd.mind.paused_seconds)
    assert paused == [0.0, None]
    for _ in range(3000):
        crowd.turn()
    assert (crowd.mind.resizes, crowd.mind.paused_seconds) == (1, 0.25)
    crowd.resize(2)
    assert crowd.mind.paused_seconds == 0.25, "the same order is no other"
    crowd.resize(3)
    assert crowd.mind.paused_seconds is None


def test_who_halted_an_epoch_is_known() -> None:
    crowd = Crowd(2, 2, total=100_000)
    until(crowd, Phase.STEADY)
    assert crowd.mind.halted_why == ""
    crowd.kill(1)
    assert crowd.mind.halted_why == "worker 1 is gone"


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "finished"), (3, "user error"), (-9, "infra"), (143, "infra")]
)
def test_a_script_that_never_speaks(code: int, outcome: str) -> None:
    crowd = Crowd(0, 2, total=1)
    for number in (0, 1):
        if crowd.conclusion is None:
            crowd.actors[number].alive = False
            crowd.carry_out(crowd.mind.exited(number, code, 1.0))
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome.value.startswith(outcome)


@pytest.mark.parametrize("code", [143, -15])
def test_a_silent_script_that_was_asked_to_leave_is_drained(code: int) -> None:
    crowd = Crowd(0, 1, total=1)
    crowd.carry_out(crowd.mind.drain(30.0, 1.0))
    crowd.actors[0].alive = False
    crowd.carry_out(crowd.mind.exited(0, code, 1.0))
    assert crowd.conclusion is not None
    assert (crowd.conclusion.outcome, crowd.conclusion.exit_code) == (Outcome.DRAINED, 143)


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


def noted(crowd: Crowd, event: str) -> list[dict[str, object]]:
    return [note.facts for _, note in crowd.notes if note.event == event]


def test_one_that_is_alone_and_stops_is_found_out() -> None:
    """It has no others who would wait for it in vain."""
    crowd = Crowd(6, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.actors[0].stopped = True
    crowd.now += crowd.mind.limits.waiting_seconds + 1.0
    crowd.tick()
    assert not crowd.actors[0].alive
    until(crowd, Phase.STEADY)
    assert crowd.mind.members == (1,)


def test_half_a_replica_with_the_state_of_those_who_are_gone_does_not_begin_anew() -> None:
    """Its weights are of a step that nobody else knows: the others begin before the first."""
    crowd = Crowd(3, 2, total=100_000, unit=2)
    until(crowd, Phase.STEADY)
    crowd.resize(4)
    until(crowd, Phase.ARMED)
    while crowd.actors[3].committed == STATELESS:
        crowd.actors[2].portions = 50
        crowd.turn()
    assert crowd.actors[2].committed == STATELESS
    crowd.kill(0)
    reach(crowd, 4)
    assert crowd.mind.restarts == 1
    assert not crowd.actors[3].alive
    crowd.total = max(a.step for a in crowd.actors.values()) + 2
    survivors_applied_each_step_once(finish(crowd))


def test_a_newcomer_that_never_fits_is_given_up_and_training_goes_on() -> None:
    """A few attempts, each after a longer rest; then whoever ordered it gets to know why not."""
    crowd = Crowd(4, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    for _ in range(6000):
        crowd.turn()
        for actor in crowd.actors.values():
            actor.unfit = actor.number > 0
    attempts = [at for at, note in crowd.notes if note.event == "halted"]
    rests = [after - before for before, after in pairwise(attempts)]
    assert len(attempts) == crowd.mind.limits.most_failed_switches
    assert rests[-1] >= 8.0
    assert rests == sorted(rests)
    assert crowd.mind.phase is Phase.STEADY
    assert crowd.mind.members == (0,)
    assert crowd.mind.width == 1, "the target has become what can be had"
    (told,) = noted(crowd, "unreached")
    assert (told["wanted"], told["width"]) == (2, 1)
    assert "gone" in str(told["why"]), "nobody would know why"
    assert crowd.mind.unreached == Unreached(2, str(told["why"]))
    survivors = [actor for actor in crowd.actors.values() if actor.alive]
    assert [actor.number for actor in survivors] == [0]
    before = survivors[0].step
    crowd.calm(300)
    assert survivors[0].step > before
    crowd.resize(3)
    assert crowd.mind.unreached is None, "another order begins anew"


def test_epochs_that_always_break_end_the_job_with_the_reason() -> None:
    """They back off and come to an end, and each says why it was halted."""
    crowd = Crowd(5, 2, total=100_000)
    until(crowd, Phase.STEADY)
    for _ in range(20_000):
        if crowd.conclusion is not None:
            break
        for actor in crowd.actors.values():
            actor.unfit = True
        crowd.turn()
    halts, limits = noted(crowd, "halted"), crowd.mind.limits
    assert crowd.conclusion is not None
    assert crowd.conclusion.outcome is Outcome.INFRASTRUCTURE
    assert "gone" in crowd.conclusion.why
    assert all(halt["why"] for halt in halts)
    lives = limits.most_fruitless + 2
    assert len(halts) == lives * (limits.most_fruitless_halts + 1)
    assert crowd.mind.latest_epoch <= lives * (limits.most_fruitless_halts + 2)


def test_what_moves_is_not_halted_and_what_stands_still_is() -> None:
    """A switch may take as long as it likes, if only bytes of the state are moved meanwhile."""
    crowd = Crowd(3, 1, total=100_000)
    until(crowd, Phase.STEADY)
    crowd.resize(2)
    until(crowd, Phase.ARMED)
    mind, limit = crowd.mind, crowd.mind.limits.whole_switch_seconds
    for moved in range(1, 6):
        crowd.now += 0.9 * limit
        pulse = Pulse(mind.latest_epoch, -1, "forward", 0.0, 0, 0, moved=moved)
        crowd.carry_out(mind.heard(1, pulse, crowd.now))
        crowd.tick()
        assert mind.phase is Phase.ARMED
    crowd.now += 1.1 * limit
    crowd.tick()
    assert noted(crowd, "halted")[-1]["why"] == f"the switch stood still for {1.1 * limit:.0f} s"


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
    assert refusals == crowd.mind.limits.most_failed_switches
    assert crowd.mind.members == (0,)
    assert "no route" in str(noted(crowd, "unreached")[-1]["why"])


def test_before_one_that_hangs_is_killed_it_is_written_down_where_everybody_stands() -> None:
    crowd = Crowd(seed=1, width=3, total=1000)
    until(crowd, Phase.STEADY)
    crowd.calm(100)
    mind, second = crowd.mind, crowd.mind.members[1]
    stalled = mind.limits.hang_seconds + 1
    pulse = Pulse(mind.latest_epoch, mind.workers[second].step, "forward", stalled, 0, 0)
    members = set(mind.members)
    done = mind.heard(second, pulse, crowd.now)
    asked = [action.worker for action in done if isinstance(action, TakeStacks)]
    assert set(asked) == members and asked[-1] == second
    kill = next(action for action in done if isinstance(action, Signal))
    assert kill.worker == second and done.index(kill) > done.index(TakeStacks(second))
    (note,) = (one for one in done if isinstance(one, Note) and one.event == "hung")
    assert (note.facts["seconds"], note.facts["limit_seconds"]) == (stalled, stalled - 1)


@pytest.mark.parametrize(
    ("step", "hangs_after"),
    [(1.0, 60.0), (20.0, 60.0), (60.0, 180.0), (150.0, 450.0), (900.0, 600.0)],
)
def test_a_hang_is_declared_after_three_steps_and_within_ten_minutes(
    step: float, hangs_after: float
) -> None:
    crowd = Crowd(seed=1, width=3, total=1000)
    until(crowd, Phase.STEADY)
    crowd.calm(100)
    mind, one = crowd.mind, crowd.mind.members[1]
    made, now, latest = mind.workers[one].step, crowd.now, mind.latest_epoch
    for number in range(40):  # so that its pace is known
        now += step
        mind.heard(one, Pulse(latest, made + number + 1, "forward", 0.0, 0, 0), now)

    def stands(seconds: float) -> bool:
        pulse = Pulse(latest, made + 40, "forward", seconds, 0, 0)
        return not any(isinstance(action, Signal) for action in mind.heard(one, pulse, now))

    assert stands(0.95 * hangs_after)
    assert not stands(1.05 * hangs_after)


def test_with_fewer_members_a_step_may_take_longer() -> None:
    pace = Pace()
    assert pace.among(2) == 0.0
    for step in range(4):
        pace.came_to(step, 40.0 * step, 4)
    assert (pace.among(4), pace.among(8), pace.among(1)) == (40.0, 40.0, 160.0)
    pace.came_to(4, 120.0 + 160.0, 1)
    assert pace.among(1) == 160.0, "what was measured among others tells little"
    pace.came_to(4, 1e6, 1)
    assert pace.among(1) == 160.0


def test_a_job_that_comes_no_further_than_where_it_hung_is_given_up() -> None:
    hangs = Hangs()
    assert [hangs.count(step, epoch) for step, epoch in ((5, 1), (5, 1), (5, 2), (3, 4))] == [
        *(1, 1),  # two workers of one epoch
        *(2, 3),
    ]
    assert hangs.count(6, 5) == 1
    crowd = Crowd(seed=1, width=2, total=1000)
    until(crowd, Phase.STEADY)
    crowd.calm(100)
    mind, last = crowd.mind, Conclude(Outcome.FINISHED, 0, "")
    step = mind.workers[mind.members[0]].step
    for number in range(3):
        worker = mind.members[0]
        mind.workers[worker].step = step
        stalled = Pulse(mind.latest_epoch, step, "forward", 61.0, 0, 0)
        done = mind.heard(worker, stalled, crowd.now)
        last = next((one for one in done if isinstance(one, Conclude)), last)
        assert (last.outcome is Outcome.INFRASTRUCTURE) == (number == 2)
        crowd.kill(worker)
        crowd.calm(300)
    assert last.why.startswith("hung 3 times")
