"""The exact non-negative least squares, against SciPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weft.perf.nnls import nnls

VALUES = st.integers(-8, 8).map(lambda n: n / 4)


@st.composite
def _systems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    matrix = draw(arrays(np.float64, (rows, columns), elements=VALUES))
    return matrix, draw(arrays(np.float64, rows, elements=VALUES))


@given(_systems())
def test_no_coefficient_is_negative_and_none_fits_better(
    system: tuple[np.ndarray, np.ndarray],
) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    matrix, target = system
    found = nnls(matrix, target)
    _, best = optimize.nnls(matrix, target)
    assert (found >= 0).all()
    assert np.linalg.norm(matrix @ found - target) <= best + 1e-5


def test_columns_that_cannot_help_get_nothing() -> None:
    matrix = np.array([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0]])
    assert nnls(matrix, np.array([3.0, 6.0])).tolist() == pytest.approx([3.0, 0.0, 0.0])


def test_a_target_on_the_other_side_gets_zeros() -> None:
    assert nnls(np.eye(3), -np.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_scales_of_columns_do_not_matter() -> None:
    matrix = np.array([[1e-6, 1e6], [2e-6, 1e6], [4e-6, 1e6]])
    assert nnls(matrix, matrix @ np.array([3e6, 2e-6])).tolist() == pytest.approx([3e6, 2e-6])


def test_many_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        nnls(np.ones((2, 9)), np.ones(2))
