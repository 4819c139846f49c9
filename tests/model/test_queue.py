"""The queue tree: what is refused, and what a queue is promised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_queue, queues
from weft.model.errors import SpecError, UnknownName
from weft.model.ids import QueueId
from weft.model.queue import Queue, QueueTree


def test_the_smallest_tree_has_one_queue_without_promises() -> None:
    tree = QueueTree()
    assert QueueId("default") in tree and QueueId("other") not in tree
    assert not tree.divided
    assert tree.guaranteed(QueueId("default")) == 0


@pytest.mark.parametrize("field", ["guaranteed_gpus", "limit_gpus"])
def test_nobody_is_promised_less_than_nothing(field: str) -> None:
    with pytest.raises(SpecError, match="is -1"):
        Queue(id=QueueId("a"), **{field: -1})  # type: ignore[arg-type]


def test_a_queue_is_listed_once() -> None:
    with pytest.raises(SpecError, match="twice"):
        queues(a_queue("a"), a_queue("a"))


def test_an_unknown_name_comes_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="no queue 'c'") as error:
        queues(a_queue("b"), a_queue("a")).get(QueueId("c"))
    assert error.value.hint == "queues: a, b"


def test_a_parent_must_exist() -> None:
    with pytest.raises(UnknownName, match="no queue 'gone'"):
        queues(a_queue("a", parent="gone"))


@pytest.mark.parametrize(
    "tree",
    [
        [a_queue("a", parent="a")],
        [a_queue("a", parent="b"), a_queue("b", parent="a")],
        [
            a_queue("x"),
            a_queue("a", parent="b"),
            a_queue("b", parent="c"),
            a_queue("c", parent="a"),
        ],
    ],
    ids=["itself", "each other", "in a round"],
)
def test_no_queue_is_its_own_ancestor(tree: list[Queue]) -> None:
    with pytest.raises(SpecError, match="its own ancestor"):
        QueueTree(tuple(tree))


def test_children_are_promised_no_more_than_their_parent() -> None:
    with pytest.raises(SpecError, match="guaranteed 4 GPUs and its children 5"):
        queues(a_queue("p", 4), a_queue("a", 3, parent="p"), a_queue("b", 2, parent="p"))


def test_children_may_be_promised_all_that_their_parent_is() -> None:
    tree = queues(a_queue("p", 5), a_queue("a", 3, parent="p"), a_queue("b", 2, parent="p"))
    assert tree.guaranteed(QueueId("p")) == 5


def test_promises_are_counted_through_a_queue_that_states_none() -> None:
    with pytest.raises(SpecError, match="guaranteed 4 GPUs and its children 5"):
        queues(a_queue("p", 4), a_queue("m", parent="p"), a_queue("a", 5, parent="m"))


def test_a_queue_that_states_nothing_is_promised_what_its_children_are() -> None:
    tree = queues(a_queue("p"), a_queue("a", 3, parent="p"), a_queue("b", parent="p"))
    assert tree.divided
    assert [tree.guaranteed(QueueId(name)) for name in "pab"] == [3, 3, 0]
    assert [child.id for child in tree.children(QueueId("p"))] == ["a", "b"]


def test_a_path_runs_from_the_leaf_to_the_root() -> None:
    tree = queues(a_queue("root"), a_queue("mid", parent="root"), a_queue("leaf", parent="mid"))
    assert [queue.id for queue in tree.path(QueueId("leaf"))] == ["leaf", "mid", "root"]


def test_a_queue_can_be_added_or_replaced() -> None:
    tree = queues(a_queue("a", 4))
    more = tree.with_queue(a_queue("b", 2))
    assert [queue.id for queue in more.queues] == ["a", "b"]
    less = more.with_queue(a_queue("a", 1))
    assert [queue.guaranteed_gpus for queue in less.queues] == [1, 2]
    assert tree.get(QueueId("a")).guaranteed_gpus == 4, "the old tree stays as it was"
    with pytest.raises(SpecError):
        more.with_queue(a_queue("b", 2, parent="b"))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
def test_a_tree_is_accepted_exactly_if_it_can_be_drawn(
    parents: list[int], data: st.DataObject
) -> None:
    """Each queue names a parent by number, or none; the oracle walks up and looks for loops."""
    links = {i: (p if p < len(parents) else None) for i, p in enumerate(parents)}
    order = data.draw(st.permutations(list(links)))

    def reaches_a_root(queue: int) -> bool:
        seen: set[int] = set()
        here: int | None = queue
        while here is not None and here not in seen:
            seen.add(here)
            here = links[here]
        return here is None

    made = tuple(a_queue(str(i), parent=None if links[i] is None else str(links[i])) for i in order)
    if all(reaches_a_root(queue) for queue in links):
        assert len(QueueTree(made).queues) == len(parents)
    else:
        with pytest.raises(SpecError):
            QueueTree(made)
