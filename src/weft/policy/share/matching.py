"""The heaviest matching of many nodes, of which many are alike.

Nodes of one kind have the same weights, so a matching is a number for each pair of kinds. With few
nodes it is found edge by edge. With many nodes of few kinds it is a small integer program, and
still exact. With many nodes of many kinds an exact matching would take cubic time: then a greedy
one is improved among its own edges and some that are spread over all nodes. To keep the heaviest
edges of each node instead is a trap, for everybody lists the same few partners.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from types import ModuleType

import numpy as np

from weft.model.errors import SpecError
from weft.model.snapshot import Floats, Ints
from weft.policy.share.program import SOLVERS, Effort, whole_numbers

EXACT_UP_TO = 400
FEW_KINDS = 60
MOST_AT_ONCE = 2_000
"""Nodes of many kinds are matched in blocks of so many, as they are ranked."""

EDGES_PER_NODE = 12
EXACT = Effort(enough=0.9999, branches=400)
"""Pairs of kinds are few enough to look until nothing is left to be had."""

WEIGHT_STEPS = 1_000_000
"""Weights become whole numbers for the matcher, which compares them exactly."""

REMEMBERED = 64
"""Matchings, of the newest that were asked for."""

GOLDEN = 0.618033988749895
"""Partners at steps of the golden section are spread out, and the same in every run."""

Pairs = list[tuple[int, int]]


def heaviest(table: Floats, kind: Ints) -> Pairs:
    """Pairs of nodes, the heaviest first; `table[a, b]` is the weight between kinds, 0: none."""
    return list(_remembered(table.tobytes(), len(table), kind.tobytes()))


@lru_cache(maxsize=REMEMBERED)
def _remembered(table: bytes, kinds: int, kind: bytes) -> tuple[tuple[int, int], ...]:
    """From round to round most of those who wait are the same, for all widths but one or two."""
    weights = np.frombuffer(table, np.float64).reshape(kinds, kinds)
    return tuple(_found(weights, np.frombuffer(kind, np.int64)))


def _found(table: Floats, kind: Ints) -> Pairs:
    if len(kind) <= EXACT_UP_TO:
        found = among(table, kind, list(combinations(range(len(kind)), 2)))
    elif len(table) <= FEW_KINDS:
        found = by_kinds(table, kind)
    else:
        found = [pair for block in _blocks(len(kind)) for pair in _improved(table, kind, block)]
    return sorted(found, key=lambda pair: (-table[kind[pair[0]], kind[pair[1]]], pair))


def among(table: Floats, kind: Ints, edges: Sequence[tuple[int, int]]) -> Pairs:
    """The heaviest set of these edges in which no node comes twice."""
    rustworkx = _rustworkx()
    if not edges:
        return []
    left, right = np.array(edges, np.int64).T
    weight = np.rint(table[kind[left], kind[right]] * WEIGHT_STEPS).astype(np.int64)
    some = weight > 0
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(kind)))
    columns = (left[some].tolist(), right[some].tolist(), weight[some].tolist())
    graph.add_edges_from(list(zip(*columns, strict=True)))
    found = rustworkx.max_weight_matching(graph, weight_fn=int)
    return sorted((min(pair), max(pair)) for pair in found)


def by_kinds(table: Floats, kind: Ints) -> Pairs:
    """The same, as numbers of pairs of kinds; who of a kind is paired follows rank."""
    first, second = np.nonzero(np.triu(table))
    if not len(first):
        return []
    uses = np.zeros((len(table), len(first)))
    np.add.at(uses, (first, np.arange(len(first))), 1.0)
    np.add.at(uses, (second, np.arange(len(first))), 1.0)
    there = np.bincount(kind, minlength=len(table))
    often = whole_numbers(table[first, second], uses, there, EXACT)
    return list(_drawn(kind, first, second, often))


def _drawn(kind: Ints, first: Ints, second: Ints, often: Ints) -> Iterator[tuple[int, int]]:
    """So many pairs of each kind, by rank."""
    left = {row: np.flatnonzero(kind == row).tolist() for row in np.unique(kind).tolist()}
    for one, other, times in zip(first.tolist(), second.tolist(), often.tolist(), strict=True):
        for _ in range(times):
            yield tuple(sorted((left[one].pop(0), left[other].pop(0))))  # type: ignore[misc]


def _blocks(nodes: int) -> list[range]:
    return [range(at, min(at + MOST_AT_ONCE, nodes)) for at in range(0, nodes, MOST_AT_ONCE)]


def _improved(table: Floats, kind: Ints, block: range) -> Pairs:
    """A matching among the edges of a greedy one and some that are spread out."""
    here = kind[block.start : block.stop]
    edges = {*_greedy(table, here), *_spread(table, here)}
    found = among(table, here, sorted(edges))
    return [(block.start + one, block.start + other) for one, other in found]


def _greedy(table: Floats, kind: Ints) -> Pairs:
    """The heaviest pair of those who are left, until nobody is."""
    kinds = np.unique(kind)
    weight = np.triu(table[np.ix_(kinds, kinds)])
    order = np.argsort(-weight, axis=None, kind="stable")
    left = [np.flatnonzero(kind == one).tolist() for one in kinds.tolist()]
    found: Pairs = []
    for place in order[: np.count_nonzero(weight)].tolist():
        one, other = divmod(place, len(kinds))
        while left[one] and left[other] and (one != other or len(left[one]) > 1):
            pair = (left[one].pop(0), left[other].pop(0))
            found.append((min(pair), max(pair)))
    return found


def _spread(table: Floats, kind: Ints) -> Iterator[tuple[int, int]]:
    """Some edges of each node, none preferred."""
    steps = np.arange(1, EDGES_PER_NODE + 1) * GOLDEN
    for node in range(len(kind)):
        partners = np.flatnonzero(table[kind[node], kind])
        partners = partners[partners != node]
        if len(partners):
            shift = node * GOLDEN
            chosen = partners[((steps + shift) % 1.0 * len(partners)).astype(np.int64)]
            yield from ((min(node, other), max(node, other)) for other in chosen.tolist())


def _rustworkx() -> ModuleType:
    try:
        import rustworkx  # noqa: PLC0415 - an extra, loaded when used
    except ImportError as missing:
        raise SpecError("groups by matching need rustworkx", hint=SOLVERS) from missing
    found: ModuleType = rustworkx
    return found
