"""Quality: how near matchings and choices of groups come to the best there is.

Matchings of random graphs with up to 60 nodes against NetworkX, which is exact and slow; one of
1,000 nodes of which no two are alike against an exact matching of all edges; groups by types
against HiGHS's own search over whole numbers, which is exact here.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import networkx
import numpy as np

from benchmarks.interleaving.stages import drawn, measured
from benchmarks.row import Row, at_least, exactly
from weft.model.snapshot import Floats, Ints
from weft.policy.share.candidates import Candidates
from weft.policy.share.columns import group_columns
from weft.policy.share.guards import Limits
from weft.policy.share.matching import Pairs, among, heaviest
from weft.policy.share.program import whole_numbers

GRAPHS, SHORT_GRAPHS = 1_000, 60
GROUPINGS, SHORT_GROUPINGS = 300, 30
MOST_NODES = 60
LARGE = 1_000


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The worst of many."""
    graphs = [_graph(seed) for seed in range(SHORT_GRAPHS if short else GRAPHS)]
    found = [heaviest(table, kind) for table, kind in graphs]
    best = [optimum(*graph) for graph in graphs]
    shares = [
        value(*graph, pairs) / most
        for graph, pairs, most in zip(graphs, found, best, strict=True)
        if most
    ]
    yield at_least(f"worst of {len(shares)} matchings / the heaviest", min(shares), "×", 0.995)
    yield exactly("matchings with a node twice", sum(map(_twice, found)), "", 0)
    if not short:
        yield at_least("1,000 nodes, no two alike / the heaviest", _large(), "×", 0.98)
    table = [row for row in measured(traces) if row.gpus == 1]
    count = SHORT_GROUPINGS if short else GROUPINGS
    parts = [_grouping(drawn(table, *_size(seed))) for seed in range(count)]
    yield at_least(f"worst of {count} choices by types / the best", min(parts), "×", 0.995)


def _size(seed: int) -> tuple[int, np.random.Generator]:
    chance = np.random.default_rng(seed)
    return int(chance.integers(3, MOST_NODES)), chance


def _graph(seed: int, nodes: int | None = None, density: float = 0.4) -> tuple[Floats, Ints]:
    chance = np.random.default_rng(seed)
    nodes = nodes or int(chance.integers(2, MOST_NODES + 1))
    weight = chance.uniform(1.0, 2.0, (nodes, nodes)) * (chance.random((nodes, nodes)) < density)
    return np.triu(weight, 1) + np.triu(weight, 1).T, np.arange(nodes)


def value(table: Floats, kind: Ints, pairs: Pairs) -> float:
    """The weight of all these pairs."""
    return float(sum(table[kind[one], kind[other]] for one, other in pairs))


def optimum(table: Floats, kind: Ints) -> float:
    """The weight of the heaviest matching, by NetworkX."""
    graph = networkx.Graph()
    for one, other in combinations(range(len(kind)), 2):
        if weight := table[kind[one], kind[other]]:
            graph.add_edge(one, other, weight=round(weight * 1_000_000))
    return value(table, kind, list(networkx.max_weight_matching(graph)))


def _twice(pairs: Pairs) -> int:
    nodes = [node for pair in pairs for node in pair]
    return len(nodes) - len(set(nodes))


def _large() -> float:
    table, kind = _graph(0, LARGE, density=0.18)
    exact = among(table, kind, list(combinations(range(LARGE), 2)))
    return value(table, kind, heaviest(table, kind)) / value(table, kind, exact)


def _grouping(jobs: Candidates) -> float:
    """Groups by types on a third of the GPUs that are asked for, beside an exact search."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - an extra

    columns = group_columns(jobs, Limits())
    uses = np.vstack([columns.counts(len(jobs.types)).T, columns.gpus[None]]).astype(np.float64)
    there = np.append(jobs.types.count, max(jobs.demand_gpus // 3, 1)).astype(np.float64)
    exact = milp(
        -columns.worth,
        integrality=np.ones(len(columns)),
        bounds=Bounds(0.0, np.inf),
        constraints=LinearConstraint(uses, -np.inf, there),
        options={"mip_rel_gap": 0.0},
    )
    return float(columns.worth @ whole_numbers(columns.worth, uses, there)) / -float(exact.fun)
