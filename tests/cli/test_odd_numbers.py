"""Numbers that nobody means are refused at once, with the option they stand behind."""

import pytest

from tests.cli.called import Weft

SIMULATE = ("simulate", "--jobs", "5", "--cluster", "1x2")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ((*SIMULATE, "--seed", "-1"), "--seed"),
        ((*SIMULATE, "--days", "1e308"), "--days"),
        ((*SIMULATE, "--days", "nan"), "--days"),
        ((*SIMULATE, "--load", "1e-300"), "--load"),
        ((*SIMULATE, "--cost-scale", "nan"), "--cost-scale"),
        ((*SIMULATE, "--cost-scale", "1e300"), "--cost-scale"),
        (("simulate", "--jobs", "99999999999"), "--jobs"),
        (("compare", "--jobs", "5", "--seeds", "0,-1"), "--seeds"),
        (("compare", "--jobs", "5", "--seeds", "0,,1"), "--seeds"),
        (("why", "a", "--run", "nowhere", "--at", "nan"), "--at"),
        (("why", "a", "--run", "nowhere", "--at", "-5"), "--at"),
        (("local", "up", "--keep-gib", "inf"), "--keep-gib"),
        (("failures", "--days", "-3"), "--days"),
        (("failures", "--days", "0"), "--days"),
        (("failures", "--days", "1e300"), "--days"),
    ],
)
def test_it_is_refused(weft: Weft, arguments: tuple[str, ...], option: str) -> None:
    done = weft(*arguments)
    assert done.status == 2
    assert option in done.err.splitlines()[0]


def test_a_parameter_without_an_end_is_no_plain_value(weft: Weft) -> None:
    done = weft(*SIMULATE, "-r", "fifo(spacing=1e400)")
    assert done.status == 2
    assert "is not a plain value" in done.err
