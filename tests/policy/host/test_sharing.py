"""Sharing out: floors are safe, order does not matter, nothing useful is left lying."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node, a_request, node_table
from tests.model.test_host import curves
from weft.model.host import HostCurve, PerGpu
from weft.model.kind import kind_of
from weft.policy.host.core_ladder import Rung, ladder
from weft.policy.host.shares import Fair, fair_of
from weft.policy.host.sharing import Claim, share_out

FAIR, NODE = PerGpu(3.0, 62.5), PerGpu(24.0, 500.0)
HUNGRY = HostCurve.by_cores([(3, 1.0), (6, 1.9), (12, 2.9)])
MODEST = HostCurve.by_cores([(3, 1.0), (6, 1.3)])


def claim(key: int, curve: HostCurve, *gpus: tuple[int, int]) -> Claim:
    return Claim(key, gpus or ((0, 1),), ladder(curve, PerGpu(3.0), PerGpu(24.0)))


def shared(*claims: Claim, cores: tuple[float, ...], gib: float = 1e6) -> dict[int, float]:
    found = share_out(claims, np.array(cores), np.full(len(cores), gib))
    return {key: rung.host.cores for key, rung in found.items()}


def test_cores_go_where_they_speed_most() -> None:
    assert shared(claim(0, MODEST), claim(1, HUNGRY), cores=(3.0,)) == {0: 3.0, 1: 6.0}
    assert shared(claim(0, MODEST), claim(1, HUNGRY), cores=(9.0,)) == {0: 3.0, 1: 12.0}
    assert shared(claim(0, MODEST), claim(1, HUNGRY), cores=(12.0,)) == {0: 6.0, 1: 12.0}


def test_whoever_finds_no_room_for_a_rung_takes_what_there_is() -> None:
    assert shared(claim(0, HUNGRY), cores=(5.0,)) == {0: 8.0}
    assert shared(claim(0, HUNGRY), cores=(0.5,)) == {0: 3.0}, "whole cores only"


def test_a_job_on_two_nodes_needs_them_on_both() -> None:
    wide = claim(0, HUNGRY, (0, 2), (1, 1))
    assert shared(wide, cores=(24.0, 2.0)) == {0: 5.0}
    assert shared(wide, claim(1, MODEST, (1, 1)), cores=(24.0, 3.0)) == {0: 6.0, 1: 3.0}


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Claim], list[float], list[float]]:
    nodes = draw(st.integers(1, 3))
    claims = []
    for key in range(draw(st.integers(1, 6))):
        where = draw(st.sets(st.integers(0, nodes - 1), min_size=1))
        gpus = tuple((node, draw(st.integers(1, 4))) for node in sorted(where))
        claims.append(Claim(key, gpus, ladder(draw(curves()), FAIR, NODE)))
    amounts = st.lists(st.floats(0.0, 40.0), min_size=nodes, max_size=nodes)
    return claims, draw(amounts), [10 * gib for gib in draw(amounts)]


@settings(deadline=None, max_examples=200)
@given(scenes(), st.randoms(use_true_random=False))
def test_nobody_loses_nothing_is_given_twice_and_nothing_useful_is_left(
    scene: tuple[list[Claim], list[float], list[float]], random: st.DataObject
) -> None:
    claims, cores, gib = scene
    found = share_out(claims, np.array(cores), np.array(gib))
    left_cores, left_gib = np.array(cores), np.array(gib)
    for one in claims:
        rung = found[one.key]
        assert rung.speed >= one.ladder.floor.speed
        for node, gpus in one.gpus:
            left_cores[node] -= gpus * (rung.host.cores - one.ladder.floor.host.cores)
            left_gib[node] -= gpus * (rung.host.memory_gib - one.ladder.floor.host.memory_gib)
    assert left_cores.min() >= -1e-6 and left_gib.min() >= -1e-6
    for one in claims:
        assert not _could_climb(one, found[one.key], left_cores, left_gib)
    shuffled = claims.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert share_out(shuffled, np.array(cores), np.array(gib)) == found


def _could_climb(one: Claim, rung: Rung, cores: np.ndarray, gib: np.ndarray) -> bool:
    faster = [r for r in one.ladder.rungs if r.speed > rung.speed + 1e-9][:1]
    return any(
        all(
            gpus * (r.host.cores - rung.host.cores) <= cores[node] - 1e-6
            and gpus * (r.host.memory_gib - rung.host.memory_gib) <= gib[node] - 1e-6
            for node, gpus in one.gpus
        )
        for r in faster
    )


@pytest.mark.parametrize("spare", range(0, 20, 2))
def test_with_shrinking_gains_it_is_as_good_as_trying_everything(spare: int) -> None:
    """Both curves bend at whole cores, so one core after the other is the best there is."""
    steep = HostCurve.by_cores([(3, 1.0), (4, 1.6), (5, 2.0), (6, 2.2), (7, 2.3)])
    flat = HostCurve.by_cores([(3, 1.0), (4, 1.3), (5, 1.55), (6, 1.75), (7, 1.9)])
    claims = [claim(0, steep), claim(1, flat), claim(2, flat)]
    found = share_out(claims, np.array([float(spare)]), np.array([1e6]))
    total = sum(rung.speed for rung in found.values())
    best = max(
        sum(c.at(PerGpu(3.0 + n)) for c, n in zip((steep, flat, flat), extra, strict=True))
        for extra in product(range(5), repeat=3)
        if sum(extra) <= spare
    )
    assert total == pytest.approx(best)


# --- what a GPU is due ----------------------------------------------------------------------------


def test_a_fair_share_is_that_of_the_poorest_node() -> None:
    rich, poor = a_node("a", 4, cpus=64, memory_gib=256), a_node("b", 8, cpus=24, memory_gib=500)
    hosts = a_node("c", 0, cpus=1, memory_gib=1)
    table = node_table(a_cluster(rich, poor, hosts))
    assert fair_of(table.columns) == Fair(PerGpu(3.0, 62.5), PerGpu(64.0, 500.0))


def test_where_cores_are_not_counted_there_is_no_fair_share() -> None:
    assert fair_of(node_table(a_cluster(nodes=2)).columns) is None


def test_memory_that_does_not_matter_is_still_needed_as_asked() -> None:
    fair = Fair(FAIR, NODE)
    kind = kind_of(a_request(cpus_per_gpu=6.0, memory_gib_per_gpu=30.0, host=HUNGRY))
    owed = fair.owed(kind, HUNGRY)
    assert (owed.cpus_per_gpu, owed.memory_gib_per_gpu) == (3.0, 30.0)
