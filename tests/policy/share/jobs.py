"""Candidates for tests: the published table of profiles, and random ones."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from weft.perf.interleaving.profile import StageProfile
from weft.policy.share.candidates import Candidates


def measured(
    iteration: float, data: float, gpu: float, network: float = 0.0, *, gib: float | None = None
) -> StageProfile:
    """A row of the published table, in milliseconds."""
    return StageProfile(
        iteration_seconds=iteration / 1000,
        loading_seconds=data / 1000,
        gpu_seconds=gpu / 1000,
        network_seconds=network / 1000,
        gpu_memory_bytes=None if gib is None else int(gib * 2**30),
    )


DQN, GPT2 = measured(490, 446, 8), measured(426, 0.6, 410)
RESNET, VGG16 = measured(779, 711, 110), measured(107, 117, 68)
BERT, A2C = measured(178, 0.5, 160), measured(517, 514, 14)
PUBLISHED = (DQN, GPT2, RESNET, VGG16, BERT, A2C)


def alike(profiles: Sequence[StageProfile], *, gpus: int = 1, cap: float = 6.0) -> Candidates:
    """A job of each, all of one width."""
    return Candidates.of([gpus] * len(profiles), range(len(profiles)), profiles, cap=cap)


@st.composite
def candidates(draw: st.DrawFn, most: int = 24) -> Candidates:
    """Jobs of several widths, tenants and sizes, some of them alone."""
    rows = draw(st.integers(1, most))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    profiles = [
        measured(
            *chance.uniform((50, 0, 1, 0), (900, 700, 500, 200)).tolist(),
            gib=None if chance.random() < 0.1 else float(chance.uniform(1, 30)),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]
    return Candidates(
        gpus=chance.choice([1, 2, 4, 8], rows),
        profile=chance.integers(0, len(profiles), rows),
        profiles=profiles,
        cap=chance.choice([1.5, 3.0, 6.0], rows),
        tenant=chance.integers(0, 3, rows),
        open=chance.random(rows) < 0.7,
        alone=chance.random(rows) < 0.1,
        cores=chance.choice([0.0, 4.0, 8.0], rows),
        host_gib=chance.choice([0.0, 32.0], rows),
        weight=np.ones(rows),
    )
