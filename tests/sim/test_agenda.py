"""What is to happen comes in a total order, whatever the order in which it was put down."""

from hypothesis import given
from hypothesis import strategies as st

from weft.sim.agenda import Agenda, Turn

ENTRIES = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from(Turn)))


@given(ENTRIES)
def test_things_happen_by_time_then_turn_then_as_they_were_put(
    entries: list[tuple[float, Turn]],
) -> None:
    agenda, happened = Agenda(), list[tuple[float, Turn, int]]()
    for number, (at, turn) in enumerate(entries):
        agenda.put(at, turn, happened.append, (at, turn, number))
    while agenda:
        due = agenda.next_at
        agenda.advance()
        assert agenda.now == due == happened[-1][0]
    assert happened == sorted(happened)
    assert len(happened) == len(entries)
    assert agenda.next_at == float("inf")


@given(ENTRIES)
def test_what_is_struck_does_not_happen_and_the_others_keep_their_order(
    entries: list[tuple[float, Turn]],
) -> None:
    agenda, kept, struck = Agenda(), list[tuple[float, Turn, int]](), list[object]()
    keep, strike = kept.append, struck.append
    for number, (at, turn) in enumerate(entries):
        agenda.put(at, turn, strike if number % 2 else keep, (at, turn, number))
    agenda.strike(strike)
    while agenda:
        agenda.advance()
    assert not struck
    assert kept == sorted(kept)
    assert len(kept) == len(entries[::2])
