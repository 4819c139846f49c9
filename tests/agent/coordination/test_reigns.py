"""Whatever is cut off from what, one head at most goes on; and the histories would show another."""

import pytest

from tests.agent.coordination.reigns import Reign, TwoGoOn, play_reign
from weft.kube.reports.headship import Headship
from weft.kube.reports.refusal import Refusal

HISTORIES = 400
MUTANT_HISTORIES = 5000  # within which every mutant is found


def test_one_head_at_most_goes_on() -> None:
    """And headship moves, else this would show nothing."""
    terms = [play_reign(seed) for seed in range(HISTORIES)]
    assert max(terms) > 2
    assert sum(term > 1 for term in terms) > HISTORIES / 10


def lets_the_lost_lead(known: Headship, claim: Headship) -> None:
    if claim.term <= known.term:
        raise Refusal(410, "another leads", hint="")


@pytest.mark.parametrize("mutant", ["does not ask", "does not miss anybody", "lets the lost lead"])
def test_a_missing_rule_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lets two heads go on sooner or later."""
    if mutant == "lets the lost lead":
        monkeypatch.setattr(Headship, "_check", lets_the_lost_lead)
    cautious, trusting = mutant != "does not ask", mutant == "does not miss anybody"
    with pytest.raises(TwoGoOn):
        for seed in range(MUTANT_HISTORIES):
            Reign(seed, cautious=cautious, trusting=trusting).play()
