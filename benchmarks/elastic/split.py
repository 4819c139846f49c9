"""The split: workloads that are scored, and workloads on which parameters may be chosen.

Nothing may be tuned by looking at a scored workload. The two sets share no seed, no load and no
recorded cluster: another seed deals other models to the same jobs and draws other jobs and costs,
but a recorded cluster has the same arrivals under every seed, so development has clusters of its
own.

|             | scored                                   | development                     |
|-------------|------------------------------------------|---------------------------------|
| seeds       | 0 to 4                                   | 100 to 104                      |
| Philly      | 0e4a51, ed69ec, 103959, ee9e8c, 7f04ca   | 2869ce, e13805                  |
| generated   | 50, 70, 90, 110 % of 64 GPUs             | 60, 80, 100 % of 96 GPUs        |
| mixes       | 0, 25, 50, 75, 100 % unpredictable, 90 % | 10, 60 %, at a load of 75 %     |
"""

from functools import partial
from pathlib import Path

from benchmarks.elastic.mixes import SHARES, mix
from benchmarks.elastic.trials import Workload
from benchmarks.elastic.workloads import VIRTUAL_CLUSTERS, VirtualCluster, generated, on_nodes

SCORED_SEEDS = (0, 1, 2, 3, 4)
SCORED_LOADS = (0.5, 0.7, 0.9, 1.1)
SCORED_GPUS = 64
GENERATED_JOBS = 600

DEVELOPMENT_SEEDS = (100, 101, 102, 103, 104)
DEVELOPMENT_CLUSTERS = (VirtualCluster("2869ce", 48, 422), VirtualCluster("e13805", 16, 374))
DEVELOPMENT_LOADS = (0.6, 0.8, 1.0)
DEVELOPMENT_GPUS = 96
DEVELOPMENT_SHARES = (0.1, 0.6)
DEVELOPMENT_MIX_LOAD = 0.75

SHORT_SEEDS = DEVELOPMENT_SEEDS[:1]
SHORT_JOBS = 80

Workloads = dict[str, Workload]


def scored(traces: Path | None) -> Workloads:
    """All fourteen; without traces there are no recorded clusters."""
    mixed = {f"mix {share:.0%}": partial(mix, unpredictable=share) for share in SHARES}
    return {
        **_recorded(traces, VIRTUAL_CLUSTERS),
        **_generated(SCORED_LOADS, gpus=SCORED_GPUS, jobs=GENERATED_JOBS),
        **mixed,
    }


def development(traces: Path | None) -> Workloads:
    """Seven others, to choose parameters on."""
    return {
        **_recorded(traces, DEVELOPMENT_CLUSTERS),
        **_generated(DEVELOPMENT_LOADS, gpus=DEVELOPMENT_GPUS, jobs=GENERATED_JOBS),
        **{_mix_name(share): _mixed(share) for share in DEVELOPMENT_SHARES},
    }


def short() -> Workloads:
    """Two of development, small: they take a minute and need no traces."""
    load, share = DEVELOPMENT_LOADS[1], DEVELOPMENT_SHARES[1]
    drawn = partial(generated, load=load, jobs=SHORT_JOBS, gpus=SCORED_GPUS)
    return {
        f"generated {load:.0%}, {SHORT_JOBS} jobs": drawn,
        f"{_mix_name(share)}, {SHORT_JOBS} jobs": _mixed(share, jobs=SHORT_JOBS),
    }


def _recorded(traces: Path | None, clusters: tuple[VirtualCluster, ...]) -> Workloads:
    if traces is None:
        return {}
    return {
        f"Philly {one.tenant}": partial(on_nodes, traces=traces, cluster=one) for one in clusters
    }


def _generated(loads: tuple[float, ...], *, gpus: int, jobs: int) -> Workloads:
    return {
        f"generated {load:.0%}": partial(generated, load=load, jobs=jobs, gpus=gpus)
        for load in loads
    }


def _mix_name(share: float) -> str:
    return f"mix {share:.0%} at {DEVELOPMENT_MIX_LOAD:.0%}"


def _mixed(share: float, **more: int) -> Workload:
    return partial(mix, unpredictable=share, load=DEVELOPMENT_MIX_LOAD, **more)
