"""Nodes at fault: blame of several jobs and users, that fades; lemons; a bound for quarantine."""

import json

import pytest

from weft.failure.blame import (
    DAY_SECONDS,
    MOST_BLAMES,
    Blame,
    Blames,
    Case,
    blamed,
    case,
    forgiven,
    is_lemon,
    laid,
    most_of,
    quarantined,
    score,
)
from weft.failure.classes import NodeAction
from weft.failure.diagnosis import Diagnosis, Ranks, diagnose
from weft.failure.health import WELL
from weft.failure.health import blame as put_down
from weft.failure.lines import Line
from weft.failure.retry import Run
from weft.failure.rulebook import rule_of, shipped
from weft.model.ids import JobId, NodeId, TenantId

NODE = NodeId("n")


def blame(
    job: str,
    user: str = "u",
    *,
    at: float = 0.0,
    node: str = "n",
    fingerprint: str = "",
    action: NodeAction = NodeAction.SUSPECT,
    weight: float = 1.0,
) -> Blame:
    return Blame(
        node=NodeId(node),
        at_seconds=at,
        job=JobId(job),
        user=TenantId(user),
        fingerprint=fingerprint or job,
        action=action,
        weight=weight,
    )


def action(*blames: Blame, at: float = 1.0, node: NodeId = NODE) -> NodeAction:
    return case(laid(Blames(), blames, at), node, at).action


def test_two_users_make_a_case_and_less_does_not() -> None:
    assert action(blame("j1")) is NodeAction.SUSPECT
    assert action(blame("j1"), blame("j2")) is NodeAction.SUSPECT
    assert action(blame("j1"), blame("j2", "v")) is NodeAction.CORDON
    assert action() is NodeAction.NONE


def test_one_user_alone_makes_no_case_however_many_jobs_fail() -> None:
    mine = [blame(f"j{n}", weight=2.0) for n in range(9)]
    assert action(*mine) is NodeAction.SUSPECT
    assert action(*mine, blame("k", action=NodeAction.CORDON)) is NodeAction.CORDON


def test_what_one_user_prints_takes_no_node_whatever_a_rule_says() -> None:
    """Only a node that several blame, or its kernel, is set aside."""
    drainer = {"name": "drainer", "says": "x", "kind": "node", "node": "quarantine"}
    text = {"patterns": ["PLEASE drain"], "examples": ["PLEASE drain"]}
    book = shipped().with_rules([rule_of(drainer | text)])
    ranks = Ranks({0: NODE}, {})
    health, pool = WELL, [NodeId("m"), NODE]
    for n, user in enumerate("uuuv"):
        found = diagnose([Line("PLEASE drain", rank=0)], book, ranks)
        run = Run(job=JobId(f"j{n}"), at_seconds=n, ran_seconds=5.0, nodes=frozenset({NODE}))
        health = put_down(health, blamed(found, run, TenantId(user)), pool, n)
        assert health.is_aside(NODE) is (user == "v")
        assert health.for_people == ()


def test_one_job_counts_once_however_often_it_fails() -> None:
    assert action(*(blame("j", at=n, fingerprint=str(n)) for n in range(10)), at=11.0) is (
        NodeAction.SUSPECT
    )


def test_the_kernels_word_is_enough() -> None:
    assert action(blame("j", action=NodeAction.DRAIN)) is NodeAction.DRAIN


def test_a_case_is_of_one_day() -> None:
    old, new = blame("j1"), blame("j2", "v", at=1.5 * DAY_SECONDS)
    assert action(old, new, at=1.6 * DAY_SECONDS) is NodeAction.SUSPECT


def test_what_a_user_fails_with_everywhere_counts_nowhere() -> None:
    bug = [blame(f"j{n}", node=f"n{n % 3}", fingerprint="bug") for n in range(9)]
    for n in range(3):
        assert action(*bug, node=NodeId(f"n{n}")) is NodeAction.NONE
    others = [blame("x", "v", node="n0"), blame("y", "w", node="n0")]
    assert action(*bug, *others, node=NodeId("n0")) is NodeAction.CORDON


def test_shared_blame_weighs_less() -> None:
    third = [blame(f"j{n}", f"u{n}", weight=1 / 3) for n in range(5)]
    assert action(*third) is NodeAction.SUSPECT
    assert action(*third, blame("j9", "v", weight=0.5)) is NodeAction.CORDON


def diagnosis(text: str, rank: int | None = None) -> Diagnosis:
    nodes = {number: NodeId(f"n{number}") for number in range(4)}
    return diagnose([Line(text, rank=rank)], shipped(), Ranks(nodes, {}))


def laid_to(found: Diagnosis, ran: float = 600.0) -> dict[str, float]:
    nodes = frozenset(NodeId(f"n{number}") for number in range(4))
    ended = Run(job=JobId("j"), at_seconds=9.0, ran_seconds=ran, nodes=nodes)
    return {one.node: one.weight for one in blamed(found, ended, TenantId("u"))}


def test_what_a_failure_lays_to_nodes() -> None:
    ecc = "CUDA error: uncorrectable ECC error encountered"
    assert laid_to(diagnosis(ecc, rank=2)) == {"n2": 1.0}
    assert laid_to(diagnosis(ecc, rank=2), ran=20.0) == {"n2": 2.0}
    lost = diagnosis("Watchdog caught collective operation timeout: WorkNCCL(7)", rank=2)
    assert laid_to(lost) == {f"n{number}": 0.25 for number in range(4)}
    for harmless in ("ValueError: no", "Name node is in safe mode", "CUDA out of memory"):
        assert laid_to(diagnosis(harmless, rank=2)) == {}


def test_a_job_that_comes_back_to_a_node_does_not_clear_it() -> None:
    lost = diagnosis("Watchdog caught collective operation timeout: WorkNCCL(7)")
    blames = Blames()
    for n, others in enumerate(("ab", "cd")):
        nodes = frozenset(map(NodeId, ("n", *others)))
        ended = Run(job=JobId("j"), at_seconds=n, ran_seconds=900.0, nodes=nodes)
        blames = laid(blames, blamed(lost, ended, TenantId("u")), n)
    assert score(blames, NODE, 2.0) == pytest.approx(1 / 3, rel=1e-3)
    assert score(blames, NodeId("a"), 2.0) == 0.0


def test_gangs_that_failed_together_do_not_clear_each_others_nodes() -> None:
    lost = diagnosis("Watchdog caught collective operation timeout: WorkNCCL(7)")
    blames = Blames()
    for n, others in enumerate(("ab", "cd", "ef", "gh", "ij", "kl")):
        nodes = frozenset(map(NodeId, ("n", *others)))
        ended = Run(job=JobId(f"j{n}"), at_seconds=n, ran_seconds=900.0, nodes=nodes)
        blames = laid(blames, blamed(lost, ended, TenantId(f"u{n % 3}")), n)
    assert case(blames, NODE, 9.0).action is NodeAction.CORDON
    assert case(blames, NodeId("a"), 9.0).action is NodeAction.NONE, "its user failed without it"


def test_suspicion_fades_by_half_in_a_week() -> None:
    blames = laid(Blames(), [blame("j")], 0.0)
    assert score(blames, NODE, 0.0) == 1.0
    assert score(blames, NODE, 7 * DAY_SECONDS) == pytest.approx(0.5)
    assert score(blames, NodeId("other"), 0.0) == 0.0


def test_a_lemon_fails_three_times_in_four_weeks_checks_between_them_or_not() -> None:
    blames = Blames()
    for n, day in enumerate((1, 9, 20)):
        at = day * DAY_SECONDS
        assert not is_lemon(blames, NODE, at)
        blames = forgiven(laid(blames, [blame(f"j{n}", f"u{n}", at=at)], at), NODE, at)
    assert is_lemon(blames, NODE, 21 * DAY_SECONDS)
    assert not is_lemon(blames, NODE, 30 * DAY_SECONDS)
    assert score(blames, NODE, 21 * DAY_SECONDS) == 0.0


@pytest.mark.parametrize(
    ("blames", "lemon"),
    [
        ([blame(f"j{n}", f"u{n}", weight=0.5) for n in range(9)], False),
        ([blame("j", at=n * 99.0, fingerprint=f"f{n}") for n in range(9)], False),
        ([blame(f"j{n}") for n in range(9)], False),
        ([blame(f"j{n}", action=NodeAction.DRAIN) for n in range(3)], True),
        ([blame(f"j{n}", f"u{n % 2}") for n in range(3)], True),
        ([blame(f"j{n}", f"u{n % 2}", fingerprint="bug") for n in range(3)], True),
    ],
)
def test_what_makes_a_lemon(blames: list[Blame], *, lemon: bool) -> None:
    """Not shared blame, not one job, and not one user unless the kernel agrees."""
    assert is_lemon(laid(Blames(), blames, 999.0), NODE, 999.0) is lemon


def test_what_two_users_take_elsewhere_makes_no_lemon() -> None:
    bugs = [blame(f"j{n}", f"u{n % 2}", fingerprint="bug") for n in range(4)]
    away = [blame(f"k{n}", f"u{n}", fingerprint="bug", node="m") for n in range(2)]
    assert not is_lemon(laid(Blames(), [*bugs, *away], 1.0), NODE, 1.0)


def test_memory_is_bounded() -> None:
    many = [blame(f"j{n}") for n in range(MOST_BLAMES + 5)]
    assert len(laid(Blames(), many, 1.0).entries) == MOST_BLAMES


def test_what_is_older_than_the_memory_is_forgotten() -> None:
    blames = laid(Blames(), [blame("j")], 0.0)
    assert laid(blames, [], 29 * DAY_SECONDS).entries == ()


def test_quarantine_is_bounded_and_people_are_called_for_the_rest() -> None:
    pool = [NodeId(f"n{n:03}") for n in range(100)]
    cases = [Case(node, NodeAction.CORDON, "") for node in pool[:8]]
    cases[7] = Case(pool[7], NodeAction.DRAIN, "")
    found = quarantined(cases, pool, already=[pool[0], NodeId("elsewhere")])
    assert found.nodes == (pool[7], pool[1], pool[2], pool[3])
    assert found.for_people == (pool[4], pool[5], pool[6])
    full = quarantined(cases, pool, already=pool[20:40])
    assert full.nodes == () and len(full.for_people) == 8


def test_suspects_and_nodes_of_other_pools_stay() -> None:
    pool = [NodeId("a"), NodeId("b")]
    cases = [Case(pool[0], NodeAction.SUSPECT, ""), Case(NodeId("x"), NodeAction.DRAIN, "")]
    assert quarantined(cases, pool).nodes == ()


@pytest.mark.parametrize(("nodes", "most"), [(0, 0), (1, 0), (2, 1), (39, 1), (40, 2), (2000, 100)])
def test_the_bound_of_a_pool(nodes: int, most: int) -> None:
    assert most_of(nodes) == most


def test_it_survives_being_written_down() -> None:
    blames = laid(Blames(), [blame("j1"), blame("j2", "v", at=3.5, action=NodeAction.DRAIN)], 4.0)
    assert Blames.read(json.loads(json.dumps(blames.told()))) == blames
