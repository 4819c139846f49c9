"""Candidates for tests: the published table of profiles, and random ones."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.perf.interleaving.profiles import A2C, BERT, DQN, GPT2, RESNET, VGG16, measured
from weft.model.stages import StageProfile
from weft.policy.share.candidates import Candidates

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
