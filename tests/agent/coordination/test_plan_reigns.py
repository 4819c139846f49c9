"""Heads that move while a job is on its way to another plan: no step is lost, none made twice."""

from tests.agent.coordination.histories import play_plans


def test_the_next_head_goes_on_with_the_workers_that_train() -> None:
    for seed in range(25):
        play_plans(seed)
