"""How often a job saves: its owner's word, or advice that follows what saving costs."""

from weft.agent.checkpoint.cadence import Cadence, cost_of
from weft.failure.interval import Advice, Cost

ADVICE = Advice(1e8)


def test_the_owners_word_holds_where_there_is_no_advice() -> None:
    assert Cadence(600.0).seconds(8, Cost(30.0)) == 600.0
    assert Cadence().seconds(8, Cost(30.0)) == 0.0


def test_advice_follows_width_and_cost() -> None:
    cadence = Cadence(advice=ADVICE)
    assert cadence.seconds(1024, None) == 60.0
    narrow, wide = cadence.seconds(512, Cost(5.0)), cadence.seconds(8192, Cost(5.0))
    assert wide < narrow < cadence.seconds(512, Cost(20.0))


def test_a_cost_is_what_the_last_saves_took() -> None:
    assert cost_of([], [1.0]) is None
    assert cost_of([2.0], []) == Cost(2.0, 0.0)
    assert cost_of([9.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3.0, 3.0, 90.0]) == Cost(1.0, 3.0)
