"""The book of curves: who shares a row, who owns one, and what becomes of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_request
from weft.brain.state.menubook import MenuBook, is_learnt
from weft.model.curve import Curve
from weft.model.menu import MOST_ROWS, Floats, listed_gpus
from weft.model.request import JobRequest

SUBLINEAR = Curve(((1, 10.0), (2, 18.0), (4, 30.0)))
SECRET = Curve(((1, 10.0), (4, 12.0)))
"""Nobody tells it."""


def elastic(curve: Curve | None, widest: int = 4) -> JobRequest:
    told = curve is not SECRET
    return a_request("job", widest, width=(1, widest), curve=curve, tell_curve=told)


def speeds(book: MenuBook, row: int) -> list[float]:
    return list(book.table.likely[row, : int(book.table.widest[row]) + 1])


def a_line(*points: float) -> Floats:
    return np.array(points)


def learn(book: MenuBook, row: int, *points: float) -> int:
    line = a_line(*points)
    return book.learnt(row, range(len(points)), line, 0.5 * line, 2.0 * line)


# --- what is stated -------------------------------------------------------------------------------


def test_a_stated_curve_is_read_at_every_width() -> None:
    book = MenuBook()
    assert speeds(book, book.stated(elastic(SUBLINEAR))) == [0.0, 10.0, 18.0, 24.0, 30.0]


def test_who_states_the_same_shares_a_row() -> None:
    book = MenuBook()
    row = book.stated(elastic(SUBLINEAR))
    assert book.stated(elastic(Curve(SUBLINEAR.points))) == row
    assert book.stated(elastic(SUBLINEAR, widest=3)) != row, "another range"
    assert book.stated(elastic(Curve(((1, 10.0),)))) != row, "another curve"
    assert len(book.table.widest) == 3


def test_without_a_curve_a_job_scales_without_loss() -> None:
    book = MenuBook()
    row = book.stated(elastic(None))
    assert speeds(book, row) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert book.table.low[row].tolist() == book.table.likely[row].tolist()


def test_a_curve_that_only_the_world_knows_is_not_looked_at() -> None:
    book = MenuBook()
    row = book.stated(elastic(SECRET))
    assert speeds(book, row) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert is_learnt(elastic(SECRET))
    assert not is_learnt(elastic(SUBLINEAR)) and not is_learnt(elastic(None))


def test_what_is_to_be_learnt_is_uncertain_whoever_comes_first() -> None:
    """A job that states nothing and one that is to be learnt are alike only in what is likely."""
    for first, second in ((None, SECRET), (SECRET, None)):
        book = MenuBook()
        rows = {curve: book.stated(elastic(curve)) for curve in (first, second)}
        low = book.table.low
        assert low[rows[SECRET], :5].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
        assert low[rows[None], :5].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_job_without_gpus_has_no_speed_by_width() -> None:
    book = MenuBook()
    row = book.stated(a_request("host", 0, cpus=4.0))
    assert speeds(book, row) == [0.0]


# --- what is learnt -------------------------------------------------------------------------------


def test_who_learns_gets_a_row_of_its_own_and_the_others_keep_theirs() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    own = learn(book, shared, 0.0, 7.0, 8.0)
    assert own != shared
    assert speeds(book, shared) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert speeds(book, own) == [0.0, 7.0, 8.0]
    assert book.table.low[own, 2] == 4.0 and book.table.high[own, 2] == 16.0


def test_who_learns_more_keeps_its_row() -> None:
    book = MenuBook()
    own = learn(book, book.stated(elastic(SECRET)), 0.0, 7.0, 8.0)
    assert learn(book, own, 0.0, 5.0, 6.0) == own
    assert speeds(book, own) == [0.0, 5.0, 6.0]


def test_two_who_learn_have_two_rows() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    one, other = learn(book, shared, 0.0, 1.0), learn(book, shared, 0.0, 2.0)
    assert one != other
    assert (speeds(book, one), speeds(book, other)) == ([0.0, 1.0], [0.0, 2.0])


def test_a_row_that_is_given_back_is_used_again_and_keeps_nothing() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    own = learn(book, shared, 0.0, 7.0, 8.0, 9.0)
    book.drop(own)
    assert learn(book, shared, 0.0, 3.0) == own
    assert book.table.likely[own].tolist() == [0.0] + [3.0] * (book.table.likely.shape[1] - 1)
    assert learn(book, shared, 0.0, 4.0) != own, "given out once"


def test_a_row_that_is_given_back_is_also_good_for_what_is_stated() -> None:
    book = MenuBook()
    own = learn(book, book.stated(elastic(SECRET)), 0.0, 7.0, 8.0)
    book.drop(own)
    assert book.stated(elastic(SUBLINEAR)) == own
    assert learn(book, own, 0.0, 9.0) != own, "it belongs to nobody now"
    assert speeds(book, own) == [0.0, 10.0, 18.0, 24.0, 30.0]


def test_a_shared_row_is_never_given_back() -> None:
    book = MenuBook()
    row = book.stated(elastic(SUBLINEAR))
    book.drop(row)
    assert learn(book, row, 0.0, 1.0) != row
    assert book.stated(elastic(SUBLINEAR)) == row


def test_a_row_is_given_back_once() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    own = learn(book, shared, 0.0, 7.0)
    book.drop(own)
    book.drop(own)
    assert learn(book, shared, 0.0, 1.0) != learn(book, shared, 0.0, 2.0)


# --- room -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [9, 40])
def test_many_rows_find_room_and_stay_as_they_are(jobs: int) -> None:
    book = MenuBook()
    rows = [book.stated(elastic(Curve(((1, 1.0 + n),)), widest=2)) for n in range(jobs)]
    assert rows == list(range(jobs))
    assert [speeds(book, row)[2] for row in rows] == [1.0 + n for n in range(jobs)]


def test_a_wider_job_widens_the_table_and_narrow_rows_stay_flat_beyond_their_end() -> None:
    book = MenuBook()
    narrow = book.stated(elastic(SUBLINEAR))
    wide = book.stated(elastic(None, widest=60))
    table = book.table
    assert table.dense
    assert table.likely[wide, :61].tolist() == list(np.arange(61.0))
    assert set(table.likely[narrow, 4:].tolist()) == {30.0}
    assert (int(table.widest[narrow]), int(table.widest[wide])) == (4, 60)


def test_a_job_of_a_thousand_gpus_has_few_rows_and_is_read_between_them() -> None:
    book = MenuBook()
    narrow = book.stated(elastic(SUBLINEAR))
    wide = book.stated(elastic(Curve(((1, 1.0), (1000, 500.5))), widest=1000))
    table = book.table
    assert not table.dense
    assert table.gpus.shape[1] <= 2 * MOST_ROWS
    gpus = np.array([0, 1, 17, 333, 1000, 5000])
    expected = [0.0, 1.0, 9.0, 167.0, 500.5, 500.5]
    assert table.speeds(np.full(6, wide), gpus) == pytest.approx(expected)
    assert table.speeds(np.full(4, narrow), gpus[:4]) == pytest.approx([0.0, 10.0, 30.0, 30.0])


@given(st.integers(1, 3000), st.data())
def test_a_menu_lists_the_ends_what_was_asked_for_and_no_more_than_it_should(
    most: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(1, most))
    asked = data.draw(st.integers(least, most))
    rows = listed_gpus(least, asked, most)
    assert list(rows) == sorted(set(rows))
    assert {0, 1, least, asked, most} <= set(rows)
    assert len(rows) <= MOST_ROWS + 1


def test_a_table_shows_what_was_learnt_since_and_nobody_can_write_in_it() -> None:
    book = MenuBook()
    own = learn(book, book.stated(elastic(SECRET)), 0.0, 7.0, 8.0)
    assert book.table.likely[own, 1] == 7.0
    learn(book, own, 0.0, 5.0, 6.0)
    assert book.table.likely[own, 1] == 5.0
    with pytest.raises(ValueError, match="read-only"):
        book.table.likely[own, 1] = 9.0


# --- copies ---------------------------------------------------------------------------------------


def test_a_copy_goes_its_own_way() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    own = learn(book, shared, 0.0, 7.0, 8.0)
    twin = book.copied()
    learn(twin, own, 0.0, 1.0, 1.0)
    twin.drop(own)
    twin.stated(elastic(SUBLINEAR))
    assert speeds(book, own) == [0.0, 7.0, 8.0]
    assert learn(book, own, 0.0, 6.0, 6.0) == own, "still its own here"
    assert len(book.table.widest) == 2
    assert speeds(twin, own) == [0.0, 10.0, 18.0, 24.0, 30.0], "and used again there"


def test_a_copy_knows_what_the_first_one_knew() -> None:
    book = MenuBook()
    shared, known = book.stated(elastic(SECRET)), book.stated(elastic(SUBLINEAR))
    own = learn(book, shared, 0.0, 7.0, 8.0)
    twin = book.copied()
    assert twin.stated(elastic(SUBLINEAR)) == known
    assert speeds(twin, own) == [0.0, 7.0, 8.0]
    assert learn(twin, own, 0.0, 2.0) == own


def test_a_row_that_is_free_is_free_in_both() -> None:
    book = MenuBook()
    shared = book.stated(elastic(SECRET))
    own = learn(book, shared, 0.0, 7.0)
    book.drop(own)
    twin = book.copied()
    assert learn(twin, shared, 0.0, 1.0) == learn(book, shared, 0.0, 2.0) == own
