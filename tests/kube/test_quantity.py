"""Quantities as API servers and kubelets write them."""

import pytest

from weft.kube.quantity import SUFFIXES, gib, parse_quantity


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_read(suffix: str) -> None:
    assert parse_quantity(f"3{suffix}") == pytest.approx(3 * SUFFIXES[suffix])
    assert parse_quantity(f"1.5{suffix}") == pytest.approx(1.5 * SUFFIXES[suffix])


@pytest.mark.parametrize(
    ("written", "amount"),
    [("1e3", 1000.0), ("1E3", 1000.0), ("", 0.0), ("much", 0.0), ("1Kii", 0.0), (7, 7.0)],
)
def test_what_else_may_stand_there(written: str | int, amount: float) -> None:
    assert parse_quantity(written) == amount


def test_a_kubelet_tells_its_memory_in_kibibytes() -> None:
    assert gib("24682416Ki") == pytest.approx(23.54, abs=0.01)
