"""The memory model beside what others have published of the same terms."""

import numpy as np
import pytest

from tests.perf.plans.shapes import GPT2
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import MIXED, ModelShape
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.memory import TERMS, block_activation_bytes, peak_memory

# One embedding-free model: the published sums are over all parameters alike.
PLAIN = ModelShape(parameters=7_500_000_000, layers=32, hidden=4096, sequence=2048)
REPLICAS = 64


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_activations_of_a_block(ranks: int) -> None:
    """Korthikanti et al. 2022: s·b·h·(10 + 24/t) bytes, with 2 for the masks of dropout.

    Their attention matrices are left out, as with tiles; the scales of norms and heads, which they
    leave out, are below 1 %.
    """
    published = GPT2.sequence * GPT2.hidden * (10 + 24 / ranks)
    masks = 2 * GPT2.sequence * GPT2.hidden
    ours = float(block_activation_bytes(GPT2, MIXED, np.array([ranks]))[0])
    assert ours == pytest.approx(published - masks, rel=0.01)


@pytest.mark.parametrize(
    ("sharding", "gigabytes"),
    [
        (Sharding.NONE, 120.0),
        (Sharding.OPTIMIZER, 31.4),
        (Sharding.GRADIENTS, 16.6),
        (Sharding.PARAMETERS, 1.9),
    ],
)
def test_state_of_a_model(sharding: Sharding, gigabytes: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 replicas."""
    plans = PlanColumns.of([ExecutionPlan(sharding=sharding)], [REPLICAS])
    peak = peak_memory(plans, PLAIN, REPLICAS)
    state = sum(peak.terms[TERMS.index(term), 0] for term in ("weights", "gradients", "optimizer"))
    assert state / 1e9 == pytest.approx(gigabytes, rel=0.02)
