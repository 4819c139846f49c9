"""Nodes set aside, and for how long; lemons stand out among their neighbours."""

import pytest

from weft.failure import health as healths
from weft.failure.blame import DAY_SECONDS, Blame
from weft.failure.breaker import Strike
from weft.failure.classes import NodeAction
from weft.failure.health import WELL, Health
from weft.model.ids import JobId, NodeId, TenantId

POOL = frozenset(NodeId(f"n{n}") for n in range(5))
N0 = NodeId("n0")


def laid(node: str, number: int, at: float, action: NodeAction = NodeAction.SUSPECT) -> Blame:
    return Blame(
        node=NodeId(node),
        at_seconds=at,
        job=JobId(f"j{number}"),
        user=TenantId(f"u{number}"),
        fingerprint=f"f{number}",
        action=action,
    )


def over_days(*nodes: str, action: NodeAction = NodeAction.SUSPECT) -> Health:
    """One blame a day by another user each, on these nodes in turn; checks pass at once."""
    health, number = WELL, 0
    for day in range(20):
        for node in nodes:
            number += 1
            at = day * DAY_SECONDS + number
            health = healths.blame(health, [laid(node, number, at, action)], POOL, at)
            for one in health.aside:
                health = healths.checked(health, one.node, at, passed=True)
    return health


def test_where_all_nodes_are_blamed_alike_none_is_a_lemon() -> None:
    health = over_days("n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4")
    assert len(health.blames.entries) == 200 and not health.aside


def a_lemon() -> Health:
    """Blamed twice a day, and once by its kernel."""
    health = over_days("n0", "n0")
    at = 20 * DAY_SECONDS
    return healths.blame(health, [laid("n0", 999, at, NodeAction.CORDON)], POOL, at)


def test_one_that_stands_out_is_one_if_its_kernel_agrees() -> None:
    assert not over_days("n0", "n0").aside, "what programs say is checked, and forgiven"
    health = a_lemon()
    assert [one.node for one in health.aside] == [N0] and health.aside[0].lemon


def test_the_kernels_word_needs_no_comparison() -> None:
    health = over_days(*sorted(POOL), action=NodeAction.CORDON)
    assert health.aside and all(one.lemon for one in health.aside)


def test_a_lemon_is_let_off_when_its_failures_are_forgotten_or_it_is_repaired() -> None:
    health = a_lemon()
    soon, later = 21 * DAY_SECONDS, 60 * DAY_SECONDS
    assert healths.checked(health, N0, soon, passed=True).aside
    assert not healths.checked(health, N0, later, passed=True).aside
    assert not healths.checked(health, N0, soon, passed=True, repaired=True).aside


@pytest.mark.parametrize("node", ["n0", "nowhere"])
def test_a_failed_check_that_nobody_asked_for_changes_nothing(node: str) -> None:
    health = healths.blame(WELL, [laid("n0", 1, 5.0, NodeAction.DRAIN)], POOL, 5.0)
    assert healths.checked(health, NodeId(node), 9.0, passed=False) is health


def test_it_is_told_in_plain_values_and_read_again() -> None:
    health = healths.blame(WELL, [laid("n0", 1, 5.0, NodeAction.DRAIN)], POOL, 5.0)
    health = healths.struck(health, "hdfs", Strike(6.0, JobId("j"), TenantId("u")))
    health = healths.checking(health, health.aside[0], 7.0)
    assert Health.read(health.told()) == health
