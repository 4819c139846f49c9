"""Heads that move while a job is on its way to another plan: no step is lost, none made twice."""

from hypothesis import given

from tests.agent.coordination.histories import History, finish
from tests.agent.coordination.test_coordinator import PLANS, SEEDS


@given(seed=SEEDS)
def test_whoever_leads_next_goes_on_with_those_who_train(seed: int) -> None:
    history = History(seed, 4, 100_000)
    for _ in range(1200):
        if history.conclusion is not None:
            break
        history.move()
        chance = history.random.random()
        if chance < 0.008:
            plan, units = history.random.choice(PLANS), history.random.randint(1, 2)
            history.replan(plan, plan.unit * units)
        elif chance < 0.014:
            history.move_head()
    finish(history)
