"""AITurbo's widths: the least by rank, then what is idle by AFS's rule with the rank as length."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_job
from tests.builders import given as scene
from weft.model.curve import Curve
from weft.model.job import Job, Work, WorkUnit
from weft.policy.recipes import RECIPES
from weft.policy.size.turbo import Turbo

LINEAR = Curve(((1, 1.0), (8, 8.0)))
POOR = Curve(((1, 1.0), (2, 1.1), (8, 1.2)))
SAGGING = Curve(((1, 1.0), (2, 1.5), (4, 2.0), (8, 2.2)))


def widths(*jobs: Job, gpus: int, grain: int = 1) -> list[int]:
    """What waiting jobs would get, in the order in which they are given."""
    world = scene(a_cluster(nodes=1, gpus=gpus)).with_recipe(RECIPES["aiturbo"]()).submit(*jobs)
    snapshot = world.brain.state.snapshot(0.0)
    found: list[int] = Turbo(grain_gpus=grain)(snapshot, np.arange(len(jobs))).tolist()
    return found


def elastic(name: str, curve: Curve = LINEAR, *, least: int = 1, known: bool = True) -> Job:
    work = Work(1000.0, WorkUnit.SAMPLES, known=known)
    return a_job(name, least, width=(least, 8), work=work, curve=curve)


def test_everybody_gets_its_least_by_rank_before_anybody_grows() -> None:
    jobs = elastic("a"), elastic("b", least=4), elastic("c", least=3), elastic("d", least=2)
    assert widths(*jobs, gpus=7) == [1, 4, 0, 2]


def test_of_equal_curves_the_first_in_rank_grows_first() -> None:
    """The second gets one where it would miss more than the first would gain: 1/4 against 1/5."""
    assert widths(elastic("a"), elastic("b"), gpus=8) == [5, 3]


def test_a_job_that_would_gain_little_gives_way_to_one_behind_it() -> None:
    assert widths(elastic("a", POOR), elastic("b", LINEAR), gpus=8) == [1, 7]


def test_who_cannot_be_predicted_is_sized_all_the_same() -> None:
    hidden = elastic("a", known=False), elastic("b", known=False)
    assert widths(*hidden, gpus=12) == [7, 5]


@settings(max_examples=100, deadline=None)
@given(
    gpus=st.integers(0, 30),
    curves=st.lists(st.sampled_from((LINEAR, SAGGING)), min_size=1, max_size=8),
    least=st.integers(1, 3),
)
def test_nothing_is_idle_that_somebody_could_use(
    gpus: int, curves: list[Curve], least: int
) -> None:
    jobs = [elastic(f"j{number}", curve, least=least) for number, curve in enumerate(curves)]
    found = widths(*jobs, gpus=gpus)
    assert sum(found) <= gpus
    assert all(width == 0 or least <= width <= 8 for width in found)
    if sum(found) < gpus:
        assert all(width in (0, 8) for width in found)
        assert all(width == 8 for width in found) or gpus - sum(found) < least
