"""Resizes, drains, lost nodes and crashes in any order: in the end the world is as it should be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.operator.small_world import SmallWorld
from weft.kube.operator.reconcile.step import Rules

ASKING = Rules(default_image="busybox", fence_seconds=10.0, gang_probe_gpus=3)
RECIPE = "maxmin(hold=0.0, spacing=1.0, min_run=0.0)"
MOMENTS = 19  # writes from the first of the shrinkage to the last of the growth


def a_world(*, live: bool = True) -> SmallWorld:
    return SmallWorld({"n0": 2, "n1": 2}, RECIPE, live=live)


def grown() -> SmallWorld:
    """One elastic job that has grown over both nodes."""
    world = a_world()
    world.submit("wide", "1..4")
    world.settle()
    assert (world.state("wide"), len(world.alive("wide"))) == ("Running", 4)
    return world


def test_a_job_shrinks_for_another_and_grows_again() -> None:
    world = grown()
    world.submit("late", "2")
    world.settle()
    assert (len(world.alive("wide")), len(world.alive("late"))) == (2, 1)
    world.cancel("late")
    world.settle()
    assert len(world.alive("wide")) == 4
    assert world.observed("wide").epoch == 1
    assert world.observed("wide").serial >= 2
    check(world)


def test_a_drained_worker_leaves_and_the_job_trains_on() -> None:
    world = grown()
    other = _other_node(world)
    world.cordon(other)
    drained = {seat.number for seat in world.placement("wide").seats if seat.node == other}
    for number in drained:
        world.drain(f"wide-1-{number}")
    world.settle()
    assert world.alive("wide").isdisjoint(drained)
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 2)
    check(world)


def test_a_lost_node_costs_a_live_job_its_seats_there_and_nothing_else() -> None:
    world = grown()
    other = _other_node(world)
    world.lose(other)
    world.settle()
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 2)
    world.find(other)
    world.settle()
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 4)
    check(world)


@pytest.mark.parametrize("how", ["lost", "drained"])
def test_a_head_that_goes_is_followed_by_another_and_the_job_trains_on(how: str) -> None:
    world = grown()
    home = world.placement("wide").only({0}).nodes[0]
    gone = {seat.number for seat in world.placement("wide").seats if seat.node == home}
    world.cordon(home)
    if how == "lost":
        world.lose(home)
    else:
        for number in gone:
            world.drain(f"wide-1-{number}")
        world.kubelets()
    world.act(1.0)
    world.lead("wide")
    world.settle()
    assert world.alive("wide").isdisjoint(gone)
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 2)
    assert world.observed("wide").headship.seat in world.alive("wide")
    check(world)


def test_if_nobody_leads_the_job_begins_again() -> None:
    world = grown()
    home = world.placement("wide").only({0}).nodes[0]
    world.lose(home)
    world.settle()
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (2, 2)
    check(world)


def test_a_job_that_is_not_live_is_never_resized() -> None:
    world = a_world(live=False)
    world.submit("wide", "1..4")
    world.settle()
    world.submit("late", "2")
    world.settle()
    assert world.observed("wide").serial == 0


# --- nodes that it grows onto are probed first -------------------------------------------------


def about_to_grow(nodes: int = 2) -> SmallWorld:
    """It has all but the last node, of two GPUs each, which has just come back."""
    world = SmallWorld({f"n{number}": 2 for number in range(nodes)}, RECIPE)
    world.rules, world.silent = ASKING, False
    last = f"n{nodes - 1}"
    world.lose(last)
    world.submit("wide", f"1..{2 * nodes}")
    world.settle()
    assert len(world.alive("wide")) == 2 * (nodes - 1)
    world.probes.clear()
    world.silent = True
    world.find(last)
    return world


def test_it_trains_on_as_it_was_until_the_nodes_have_answered() -> None:
    world = about_to_grow()
    for _ in range(10):
        world.act(5.0)
        world.kubelets()
        assert (world.state("wide"), len(world.alive("wide"))) == ("Running", 2)
    assert world.believed("wide") == {0, 1, 2, 3}, "nobody else has them meanwhile"
    world.answer()
    world.settle()
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 4)
    check(world)


def test_it_does_not_grow_onto_a_node_that_fails_and_does_once_that_is_well() -> None:
    world = about_to_grow()
    world.ill = {"n1"}
    world.act()
    world.answer()
    for _ in range(20):
        world.act(5.0)
        world.kubelets()
    assert (world.state("wide"), world.alive("wide")) == ("Running", {0, 1})
    assert world.believed("wide") == {0, 1}
    world.ill, world.silent = set(), False
    for _ in range(10):  # what was answered is forgotten, and the node looked at again
        world.act(30.0)
        world.book.touch("n1")
        world.kubelets()
    assert len(world.alive("wide")) == 4
    check(world)


def test_whoever_comes_after_a_crash_asks_again() -> None:
    world = about_to_grow()
    world.act()
    world.crash_after = 0
    world.answer()
    world.act()
    assert world.crashes == 1 and world.probes == {}
    world.act()
    assert set(world.probes) == {"n1"}
    world.answer()
    world.settle()
    assert len(world.alive("wide")) == 4
    check(world)


def test_seats_that_are_left_meanwhile_are_not_filled_again() -> None:
    """Their pods would have names that were used before."""
    world = about_to_grow(nodes=3)
    world.act()
    lost = max(world.alive("wide"))
    world.drain(f"wide-1-{lost}")
    world.kubelets()
    world.act()
    assert lost not in world.placement("wide").numbers
    world.silent = False
    world.answer()
    world.settle()
    assert lost not in world.alive("wide")
    assert (world.observed("wide").epoch, len(world.alive("wide"))) == (1, 6)
    check(world)


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_crash_at_any_moment_of_a_growth_and_of_a_shrinkage_changes_nothing_in_the_end(
    moment: int,
) -> None:
    """The operator dies between two of its writes, once; another one goes on."""
    world = grown()
    world.crash_after = moment
    world.submit("late", "2")
    world.settle()
    shrunk = (len(world.alive("wide")), len(world.alive("late")))
    world.cancel("late")
    world.settle()
    assert (shrunk, len(world.alive("wide"))) == ((2, 1), 4)
    assert world.observed("wide").epoch == 1
    assert world.crashes == 1
    check(world)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("crash"), st.integers(0, 6)),
        st.tuples(st.just("drain"), st.integers(0, 6)),
        st.tuples(st.just("lose"), st.integers(0, 1)),
        st.tuples(st.just("find"), st.integers(0, 1)),
        st.tuples(st.just("submit"), st.integers(1, 4)),
        st.tuples(st.just("cancel"), st.integers(0, 3)),
        st.tuples(st.just("act"), st.integers(1, 20)),
        st.tuples(st.just("kubelets"), st.just(0)),
        st.tuples(st.just("lead"), st.integers(0, 3)),
        st.tuples(st.just("probes"), st.integers(0, 3)),
        st.tuples(st.just("answer"), st.just(0)),
    ),
    max_size=25,
)


@given(ACTIONS)
def test_whatever_happens_pods_record_and_brain_agree_in_the_end(
    actions: list[tuple[str, int]],
) -> None:
    world = grown()
    world.rules = ASKING
    for what, number in actions:
        _do(world, what, number)
    for node in world.nodes:
        world.find(node)
    world.crash_after, world.silent = None, False
    world.ill.clear()
    world.settle()
    check(world)
    assert not [name for name in world.jobs if world.state(name) in ("Starting", "Resizing")]


def check(world: SmallWorld) -> None:
    """What runs is what is on record, and what the brain believes."""
    for name in world.jobs:
        if world.state(name) != "Running":
            assert world.alive(name) == set()
            continue
        assert world.alive(name) == set(world.placement(name).numbers) == world.believed(name)
        assert not world.observed(name).joining


def _other_node(world: SmallWorld) -> str:
    """One that the head of the job is not on."""
    head, *others = world.placement("wide").nodes
    assert head == world.placement("wide").only({0}).nodes[0]
    return str(others[0])


def _do(world: SmallWorld, what: str, number: int) -> None:
    names = list(world.jobs)
    pods = sorted(world.pods)
    if what == "crash":
        world.crash_after = number
    elif what == "drain" and pods:
        world.drain(pods[number % len(pods)])
    elif what == "lose":
        world.lose(f"n{number}")
    elif what == "find":
        world.find(f"n{number}")
    elif what == "lead":
        world.lead(names[number % len(names)])
    elif what == "submit" and len(names) < 4:
        world.submit(f"job-{len(names)}", f"1..{number}")
    elif what == "cancel":
        world.cancel(names[number % len(names)])
    elif what == "act":
        world.act(float(number))
    elif what == "kubelets":
        world.kubelets()
    else:
        _probe(world, what, number)


def _probe(world: SmallWorld, what: str, number: int) -> None:
    if what == "probes":
        world.silent, world.ill = bool(number % 2), {f"n{number // 2}"}
    elif what == "answer":
        world.answer()
