"""Placements on small clusters, compared with every placement there is."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_job, a_node, a_request, node_table
from weft.model.cluster import Cluster, Node
from weft.model.ids import NodeId
from weft.model.job import Job
from weft.model.kind import Kind, kind_of
from weft.model.request import Locality
from weft.model.suit import PLAIN, UNDEMANDING, Demand, Offering
from weft.policy.place.fabric import Fabric
from weft.policy.place.packing import Offer, Place, anywhere, best_fit, first_fit
from weft.policy.place.patience import Patience
from weft.policy.place.room import Room

# --- small worlds -------------------------------------------------------------------------------

WIRED = Offering(devices_per_gpu=(("rdma/hca", 1.0),))
KEPT = Offering(devices_per_gpu=(("rdma/hca", 0.5),), taints=("spot",))

nodes = st.lists(
    st.builds(
        a_node,
        st.just("n"),
        gpus=st.integers(0, 4),
        type=st.sampled_from(["a", "a", "b"]),
        rack=st.sampled_from(["r0", "r1"]),
        pool=st.sampled_from(["east", "east", "west"]),
        cpus=st.sampled_from([None, 4.0, 8.0]),
        memory_gib=st.sampled_from([None, 16.0]),
        cordoned=st.sampled_from([False, False, False, True]),
        offering=st.sampled_from([PLAIN, PLAIN, WIRED, KEPT]),
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: a_cluster(*(replace(n, id=NodeId(f"n{i}")) for i, n in enumerate(rows))))

kinds = st.builds(
    lambda **fields: kind_of(a_request("job", **fields)),
    gpus=st.just(1),
    types=st.sampled_from([(), (("a", 1.0),), (("a", 1.0), ("b", 2.0)), (("tpu", 9.0),)]),
    cpus_per_gpu=st.sampled_from([0.0, 0.0, 2.0]),
    memory_gib_per_gpu=st.sampled_from([0.0, 0.0, 8.0]),
    max_nodes=st.sampled_from([None, None, 1, 2]),
    demand=st.sampled_from(
        [
            UNDEMANDING,
            UNDEMANDING,
            Demand(bears=("spot", "other")),
            Demand((("rdma/hca", 1.0),), ("spot",)),
        ]
    ),
    locality=st.sampled_from([Locality(0.0, 0.0), Locality(0.15, 0.1)]),
)


class World:
    """A fabric, what is free of it, and a slow way to know every placement."""

    def __init__(self, cluster: Cluster, free: list[int] | None = None) -> None:
        self.cluster = cluster
        self.fabric: Fabric = node_table(cluster).fabric
        columns = self.fabric.nodes
        usable = self.fabric.usable
        gpus = np.array([node.gpus for node in cluster.nodes], np.int64)
        if free is not None:
            gpus = np.minimum(gpus, np.array(free, np.int64))
        self.room = Room(
            gpus * usable,
            np.where(usable, columns.cpus, 0.0),
            np.where(usable, columns.memory_gib, 0.0),
        )

    def offers(self, row: int, kind: Kind) -> int:
        """GPUs that the node could give now, one after the other while the host has room."""
        gpus = int(self.room.gpus[row])
        while gpus and (
            gpus * kind.cpus_per_gpu > self.room.cpus[row]
            or gpus * kind.memory_gib_per_gpu > self.room.memory_gib[row]
        ):
            gpus -= 1
        return gpus

    def accepts(self, node: Node, kind: Kind) -> bool:
        wired = dict(node.offering.devices_per_gpu)
        return (
            (not kind.gpu_types or node.gpu.type in [each.type for each in kind.gpu_types])
            and set(node.offering.taints) <= set(kind.demand.bears)
            and all(wired.get(name, 0) >= n for name, n in kind.demand.devices_per_gpu)
        )

    def sets(self, kind: Kind, width: int, *, avoid: set[int] | None = None) -> Iterator[list[int]]:
        """Every set of nodes of one pool and one type that together could hold the job."""
        rows = [
            row
            for row, node in enumerate(self.cluster.nodes)
            if self.offers(row, kind) and self.accepts(node, kind) and row not in (avoid or ())
        ]
        for size in range(1, len(rows) + 1):
            for chosen in itertools.combinations(rows, size):
                homes = {
                    (self.cluster.nodes[row].pool, self.cluster.nodes[row].gpu.type)
                    for row in chosen
                }
                enough = sum(self.offers(row, kind) for row in chosen) >= width
                if len(homes) == 1 and enough and size <= (kind.max_nodes or size):
                    yield list(chosen)

    def racks(self, rows: list[int]) -> int:
        homes = [(self.cluster.nodes[r].pool, self.cluster.nodes[r].rack) for r in rows]
        return len(set(homes))


def assert_valid(world: World, kind: Kind, width: int, offer: Offer) -> None:
    rows = [row for row, _ in offer.shares]
    used = [world.cluster.nodes[row] for row in rows]
    assert len(set(rows)) == len(rows)
    assert sum(gpus for _, gpus in offer.shares) == width
    assert all(0 < gpus <= world.offers(row, kind) for row, gpus in offer.shares)
    assert len({node.pool for node in used}) == len({node.gpu.type for node in used}) == 1
    assert all(world.accepts(node, kind) and not node.cordoned for node in used)
    assert len(rows) <= (kind.max_nodes or len(rows))
    assert offer.racks == world.racks(rows)
    assert offer.slowdown >= offer.least >= 1.0


# --- best fit -----------------------------------------------------------------------------------


@given(nodes, kinds, st.integers(1, 12), st.lists(st.integers(0, 4), min_size=6, max_size=6))
def test_a_placement_is_found_exactly_if_there_is_one_and_is_always_valid(
    cluster: Cluster, kind: Kind, width: int, free: list[int]
) -> None:
    world = World(cluster, free[: len(cluster.nodes)])
    offer = best_fit(world.room, world.fabric, kind, width)
    assert (offer is not None) == any(True for _ in world.sets(kind, width))
    if offer is not None:
        assert_valid(world, kind, width, offer)


@given(nodes, kinds, st.integers(1, 12), st.sets(st.integers(0, 5)))
def test_avoided_nodes_are_avoided(
    cluster: Cluster, kind: Kind, width: int, avoided: set[int]
) -> None:
    world = World(cluster)
    avoid = np.array([row in avoided for row in range(len(cluster.nodes))])
    offer = best_fit(world.room, world.fabric, kind, width, avoid=avoid)
    assert (offer is not None) == any(True for _ in world.sets(kind, width, avoid=avoided))
    if offer is not None:
        assert_valid(world, kind, width, offer)
        assert not avoided & {row for row, _ in offer.shares}


@given(nodes, kinds.filter(lambda kind: len(kind.gpu_types) == 1), st.integers(1, 12))
def test_the_fewest_nodes_of_one_rack_else_of_one_pool(
    cluster: Cluster, kind: Kind, width: int
) -> None:
    world = World(cluster)
    possible = list(world.sets(kind, width))
    offer = best_fit(world.room, world.fabric, kind, width)
    if offer is None:
        return
    in_one_rack = [rows for rows in possible if world.racks(rows) == 1]
    assert len(offer.shares) == min(map(len, in_one_rack or possible))


racked = st.lists(
    st.builds(
        a_node, st.just("n"), gpus=st.integers(1, 4), rack=st.sampled_from(["r0", "r1", "r2"])
    ),
    min_size=4,
    max_size=7,
).map(lambda rows: a_cluster(*(replace(n, id=NodeId(f"n{i}")) for i, n in enumerate(rows))))


@given(racked, st.integers(5, 14), st.sampled_from([None, 2, 3]))
def test_gangs_over_racks_of_all_sizes(cluster: Cluster, width: int, max_nodes: int | None) -> None:
    """Fewest nodes of one rack, and of such racks the one with least to spare."""
    world, kind = World(cluster), kind_of(a_request(max_nodes=max_nodes))
    possible = list(world.sets(kind, width))
    offer = best_fit(world.room, world.fabric, kind, width)
    assert (offer is not None) == bool(possible)
    if offer is None:
        return
    assert_valid(world, kind, width, offer)
    in_one_rack = [rows for rows in possible if world.racks(rows) == 1]
    fewest = min(map(len, in_one_rack or possible))
    assert len(offer.shares) == fewest
    if not in_one_rack:
        return

    def gpus_of_rack(row: int) -> int:
        return sum(n.gpus for n in cluster.nodes if n.rack == cluster.nodes[row].rack)

    least = min(gpus_of_rack(rows[0]) for rows in in_one_rack if len(rows) == fewest)
    assert gpus_of_rack(offer.shares[0][0]) == least


@given(nodes, kinds, st.integers(1, 4))
def test_of_the_nodes_that_hold_it_alone_the_fullest_of_its_type_is_taken(
    cluster: Cluster, kind: Kind, width: int
) -> None:
    world = World(cluster)
    offer = best_fit(world.room, world.fabric, kind, width)
    if offer is None or len(offer.shares) > 1:
        return
    ((row, _),) = offer.shares
    kin = [
        other
        for other, node in enumerate(cluster.nodes)
        if node.gpu.type == cluster.nodes[row].gpu.type and world.accepts(node, kind)
    ]
    fitting = [world.offers(other, kind) for other in kin if world.offers(other, kind) >= width]
    assert world.offers(row, kind) == min(fitting)


def nodes_taken(world: World, job: Job) -> dict[int, int]:
    offer = best_fit(world.room, world.fabric, kind_of(job.request), job.width.asked_gpus)
    assert offer is not None
    return dict(offer.shares)


def test_broken_nodes_are_filled_and_whole_ones_kept_for_gangs() -> None:
    world = World(a_cluster(nodes=4, gpus=8), [8, 3, 8, 5])
    assert nodes_taken(world, a_job(gpus=2)) == {1: 2}
    assert nodes_taken(world, a_job(gpus=4)) == {3: 4}
    assert nodes_taken(world, a_job(gpus=8)) == {0: 8}
    assert nodes_taken(world, a_job(gpus=11)) == {0: 8, 1: 3}, "the rest goes where it fits best"


def test_the_rack_with_least_to_spare_is_used_up() -> None:
    world = World(a_cluster(nodes=6, gpus=8, racks=3), [8, 8, 8, 4, 8, 7])
    assert nodes_taken(world, a_job(gpus=12)) == {2: 8, 3: 4}


def test_fewer_nodes_come_before_less_to_spare() -> None:
    world = World(a_cluster(nodes=6, gpus=4, racks=2), [3, 3, 3, 4, 4, 4])
    assert len(nodes_taken(world, a_job(gpus=7))) == 2


def test_a_fast_type_is_taken_even_spread_if_that_is_still_faster() -> None:
    cluster = a_cluster(
        a_node("slow", 8, type="a"), a_node("fast0", 4, type="b"), a_node("fast1", 4, type="b")
    )
    both = [("a", 1.0), ("b", 1.1)]
    assert nodes_taken(World(cluster), a_job(gpus=8, types=both)) == {1: 4, 2: 4}
    broken = World(cluster, [8, 3, 3])
    assert nodes_taken(broken, a_job(gpus=4, types=both, locality=Locality(0.5, 0.0))) == {0: 4}


def test_cpus_and_memory_limit_what_a_node_offers() -> None:
    cluster = a_cluster(
        a_node("n0", 8, cpus=16.0, memory_gib=64.0), a_node("n1", 8, cpus=64.0, memory_gib=512.0)
    )
    world = World(cluster)
    assert nodes_taken(world, a_job(gpus=4, cpus_per_gpu=4.0)) == {0: 4}
    assert nodes_taken(world, a_job(gpus=5, cpus_per_gpu=4.0)) == {1: 5}
    assert nodes_taken(world, a_job(gpus=4, memory_gib_per_gpu=32.0)) == {1: 4}
    assert nodes_taken(world, a_job(gpus=10, memory_gib_per_gpu=32.0)) == {1: 8, 0: 2}
    assert (
        best_fit(world.room, world.fabric, kind_of(a_request(gpus=4, cpus_per_gpu=20.0)), 4) is None
    )


def test_jobs_without_gpus_go_where_fewest_gpus_are_free() -> None:
    cluster = a_cluster(*(a_node(f"n{i}", 8, cpus=16.0, memory_gib=64.0) for i in range(3)))
    world = World(cluster, [8, 2, 4])
    assert nodes_taken(world, a_job(gpus=0, cpus=4.0)) == {1: 0}
    world.room.take(kind_of(a_request(gpus=0, cpus=14.0)), [(1, 0)])
    assert nodes_taken(world, a_job(gpus=0, cpus=4.0)) == {2: 0}
    fat = kind_of(a_request(gpus=0, cpus=1.0, memory_gib=65.0))
    assert best_fit(world.room, world.fabric, fat, 0) is None
    thin = kind_of(a_request(gpus=0, cpus=4.0))
    offer = best_fit(world.room, world.fabric, thin, 0, avoid=np.array([False, True, True]))
    assert offer is not None and offer.shares == ((0, 0),)


# --- room ---------------------------------------------------------------------------------------


@given(nodes, kinds, st.integers(1, 6))
def test_what_is_taken_and_given_back_leaves_the_room_as_it_was(
    cluster: Cluster, kind: Kind, width: int
) -> None:
    world = World(cluster)
    offer = best_fit(world.room, world.fabric, kind, width)
    if offer is None:
        return
    trial = world.room.copy()
    trial.take(kind, offer.shares)
    assert trial.gpus.sum() == world.room.gpus.sum() - width
    assert (trial.gpus >= 0).all() and (trial.cpus >= -1e-9).all()
    assert (trial.memory_gib >= -1e-9).all()
    trial.give(
        (row, gpus, kind.cpus_per_gpu * gpus, kind.memory_gib_per_gpu * gpus)
        for row, gpus in offer.shares
    )
    assert trial.gpus.tolist() == world.room.gpus.tolist()
    assert trial.cpus.tolist() == pytest.approx(world.room.cpus.tolist())
    assert trial.memory_gib.tolist() == pytest.approx(world.room.memory_gib.tolist())


# --- the simpler rules --------------------------------------------------------------------------

free_gpus = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def first_fit_by_hand(free: list[int], width: int, size: int) -> dict[int, int] | None:
    taken: dict[int, int] = {}
    for node, gpus in enumerate(free):
        if gpus == size and len(taken) < width // size:
            taken[node] = size
    if len(taken) < width // size:
        return None
    rest = width % size
    if rest:
        found = [node for node, gpus in enumerate(free) if gpus >= rest and node not in taken]
        if not found:
            return None
        taken[found[0]] = rest
    return taken


@given(free_gpus, st.integers(1, 20))
def test_first_fit_takes_whole_nodes_and_then_the_first_with_room(
    free: list[int], width: int
) -> None:
    world = World(a_cluster(nodes=len(free), gpus=4), free)
    offer = first_fit(world.room, world.fabric, kind_of(a_request(gpus=1)), width)
    assert (None if offer is None else dict(offer.shares)) == first_fit_by_hand(free, width, 4)


@given(free_gpus, st.integers(1, 20))
def test_anywhere_takes_free_gpus_in_node_order(free: list[int], width: int) -> None:
    world = World(a_cluster(nodes=len(free), gpus=4), free)
    offer = anywhere(world.room, world.fabric, kind_of(a_request(gpus=1)), width)
    slots = [node for node, gpus in enumerate(free) for _ in range(gpus)][:width]
    if len(slots) < width:
        assert offer is None
    else:
        assert offer is not None
        assert list(offer.shares) == [(n, slots.count(n)) for n in dict.fromkeys(slots)]


@pytest.mark.parametrize("place", [best_fit, first_fit, anywhere])
def test_all_rules_stay_off_avoided_nodes(place: Place) -> None:
    world = World(a_cluster(nodes=2, gpus=4))
    avoid = np.array([True, False])
    kind = kind_of(a_request(gpus=1))
    offer = place(world.room, world.fabric, kind, 4, avoid=avoid)
    assert offer is not None and offer.shares == ((1, 4),)
    assert place(world.room, world.fabric, kind, 5, avoid=avoid) is None


# --- fabric -------------------------------------------------------------------------------------


@given(nodes, kinds, st.integers(1, 12))
def test_the_fewest_nodes_and_racks_that_could_hold_a_width_when_all_is_empty(
    cluster: Cluster, kind: Kind, width: int
) -> None:
    world = World(cluster)
    unbounded = kind_of(
        a_request(
            "job",
            types=[(each.type, each.speed) for each in kind.gpu_types],
            cpus_per_gpu=kind.cpus_per_gpu,
            memory_gib_per_gpu=kind.memory_gib_per_gpu,
            demand=kind.demand,
        )
    )
    possible = list(world.sets(unbounded, width))
    assert world.fabric.fewest_nodes(kind, width) == min(map(len, possible), default=0)
    assert world.fabric.fewest_racks(kind, width) == min(map(world.racks, possible), default=0)


@given(nodes, kinds)
def test_the_widest_gang_is_the_widest_that_best_fit_places(cluster: Cluster, kind: Kind) -> None:
    world = World(cluster)
    placed = [w for w in range(1, 25) if best_fit(world.room, world.fabric, kind, w) is not None]
    site = world.fabric.site(kind)
    assert site.largest_gpus == max(placed, default=0)
    uncordoned = World(Cluster(tuple(node.with_cordon(False) for node in cluster.nodes)))
    assert site.largest_ever_gpus == uncordoned.fabric.site(kind).largest_gpus
    suitable = [r for r, node in enumerate(cluster.nodes) if world.accepts(node, kind)]
    assert site.total_gpus == sum(world.offers(row, kind) for row in suitable)


def test_tiers_come_fastest_first() -> None:
    cluster = a_cluster(a_node("n0", 8, type="slow"), a_node("n1", 8, type="fast"))
    kind = kind_of(a_request(types=[("slow", 1.0), ("fast", 3.0), ("none", 9.0)]))
    assert [tier.speed for tier in World(cluster).fabric.site(kind).tiers] == [3.0, 1.0]


# --- patience -----------------------------------------------------------------------------------


@given(st.floats(1.0, 3.0), st.floats(0.0, 1e6), st.floats(0.0, 1e4))
def test_waiting_is_never_worth_more_than_the_slowdown_costs(
    slowdown: float, remaining: float, cap: float
) -> None:
    bound = Patience(cap).bound_seconds(slowdown, remaining)
    assert bound == min((slowdown - 1.0) * remaining, cap)
    assert Patience(cap).bound_seconds(slowdown, float("nan")) == min(cap, 1800.0)
