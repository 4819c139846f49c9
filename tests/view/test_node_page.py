"""What a node is known for, in a cell and in full."""

from datetime import UTC, datetime

from weft.failure.blame import Blame
from weft.failure.classes import NodeAction
from weft.failure.health import WELL, blame, checked
from weft.model.ids import JobId, NodeId, TenantId
from weft.view.node_health import health_of
from weft.view.node_page import NodeHealth
from weft.view.wire import from_json, to_json

POOL = [NodeId(f"n{number}") for number in range(40)]
BAD = POOL[3]


def laid(user: str, at: float, action: NodeAction = NodeAction.SUSPECT) -> Blame:
    return Blame(
        node=BAD,
        at_seconds=at,
        job=JobId(f"{user}/job"),
        user=TenantId(user),
        fingerprint=user,
        action=action,
    )


def test_a_node_is_well_then_suspect_then_set_aside_then_well_again() -> None:
    assert health_of(WELL, BAD, 0.0).words == "well"
    one = blame(WELL, [laid("anna", 1.0)], POOL, 1.0)
    assert health_of(one, BAD, 1.0).words == "suspect 1.0"
    two = blame(one, [laid("ben", 2.0)], POOL, 2.0)
    shown = health_of(two, BAD, 3.0)
    assert (shown.words, shown.failures) == ("set aside", 2)
    assert (
        shown.aside_since == datetime.fromtimestamp(2.0, UTC) and "2 jobs of 2 users" in shown.why
    )
    assert [mark.job for mark in shown.history] == ["anna/job", "ben/job"]
    assert from_json(NodeHealth, to_json(shown)) == shown
    after = health_of(checked(two, BAD, 4.0, passed=True), BAD, 4.0)
    assert (after.words, after.failures, after.aside_since) == ("well", 2, None)
    assert all(mark.forgiven for mark in after.history)


def test_names_of_jobs_are_for_those_who_may_see_them() -> None:
    known = blame(WELL, [laid("anna", 1.0)], POOL, 1.0)
    assert [mark.job for mark in health_of(known, BAD, 1.0, names=False).history] == [""]


def test_a_lemon_and_one_too_many() -> None:
    lemon = blame(WELL, [laid("anna", 1.0, NodeAction.QUARANTINE)], POOL, 1.0)
    assert health_of(lemon, BAD, 1.0).words == "lemon"
    alone = blame(WELL, [laid("anna", 1.0, NodeAction.CORDON)], [BAD], 1.0)
    assert health_of(alone, BAD, 1.0).words == "needs people"
