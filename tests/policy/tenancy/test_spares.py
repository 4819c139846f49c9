"""What a queue can lend out and still hold all that it was promised."""

import pytest

from tests.builders import a_queue, queues
from weft.policy.tenancy.quota import QuotaLedger, QuotaTable


@pytest.mark.parametrize(("gpus", "spared"), [(1, True), (2, True), (3, False)])
def test_a_queue_spares_what_it_holds_beyond_its_guarantee_to_the_last_gpu(
    gpus: int, spared: bool
) -> None:
    ledger = QuotaLedger(QuotaTable.of(queues(a_queue("a", 4))), [6])
    assert ledger.spares(0, gpus) is spared


def test_an_ancestor_keeps_its_guarantee_too() -> None:
    tree = queues(a_queue("org", 6), a_queue("team", 2, parent="org"))
    ledger = QuotaLedger(QuotaTable.of(tree), [0, 8])
    assert ledger.spares(1, 2)
    assert not ledger.spares(1, 3)
