"""Network-packed widths, kept through everything that happens."""

from functools import partial

import pytest

from benchmarks.elastic.packing import watched
from benchmarks.elastic.workloads import Given, generated


def workload(_: int, *, seed: int) -> Given:
    return generated(seed, load=0.9, jobs=150, gpus=64)


@pytest.mark.parametrize("recipe", ["afs-l", "weave", "even", "maxmin"])
@pytest.mark.parametrize("seed", [0, 3, 5, 20])
def test_no_job_below_a_node_is_split_and_no_network_card_is_shared(seed: int, recipe: str) -> None:
    sight = watched((partial(workload, seed=seed), f"{recipe}(packed=True)"))
    assert (sight.split, sight.shared_cards) == (0, 0)
    assert sight.moments > sight.jobs
