"""A speed read off a menu: between rows, behind them, one or many at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.model.menu import Menus, listed_gpus


@st.composite
def thinned(draw: st.DrawFn) -> Menus:
    """Menus of which not every number of GPUs is a row; the shorter ones repeat their last row."""
    lists = draw(
        st.lists(
            st.lists(st.integers(1, 400), min_size=1, max_size=6, unique=True).map(sorted),
            min_size=1,
            max_size=4,
        )
    )
    longest = 1 + max(map(len, lists))
    gpus = np.array([[0, *one, *[one[-1]] * (longest - 1 - len(one))] for one in lists])
    likely = gpus**0.7
    widest = gpus[:, -1]
    return Menus(gpus, likely, 0.5 * likely, 2.0 * likely, widest, dense=False)


@given(thinned(), st.integers(0, 3), st.integers(0, 500))
def test_a_thinned_menu_is_linear_between_its_rows(menus: Menus, which: int, gpus: int) -> None:
    menu = which % len(menus.gpus)
    expected = np.interp(gpus, menus.gpus[menu], menus.likely[menu])
    assert np.isclose(menus.speeds(np.array([menu]), np.array([gpus]))[0], expected)
    assert np.isclose(menus.speed(menu, gpus), expected)
    low, high = menus.intervals(np.array([menu]), np.array([gpus]))
    assert np.isclose(low[0], 0.5 * expected)
    assert np.isclose(high[0], 2.0 * expected)


@given(thinned())
def test_many_are_read_as_one_by_one(menus: Menus) -> None:
    menu, gpus = np.divmod(np.arange(len(menus.gpus) * 60), 60)
    one_by_one = [
        menus.speed(*pair) for pair in zip(menu.tolist(), (7 * gpus).tolist(), strict=True)
    ]
    assert np.allclose(menus.speeds(menu, 7 * gpus), one_by_one)


@given(st.integers(1, 3000), st.integers(0, 3000), st.integers(0, 3000))
def test_what_is_listed_has_its_ends_and_is_short(least: int, more: int, most: int) -> None:
    rows = listed_gpus(least, least + more, least + more + most)
    assert {least, least + more, least + more + most} <= set(rows)
    assert len(rows) <= 65
    assert list(rows) == sorted(set(rows))
