"""Failures by name: as many as they should be, each with a line that a rule names."""

from collections import Counter

import pytest

from tests.builders import a_cluster, a_job
from weft.failure.classes import FailureClass
from weft.failure.diagnosis import diagnose
from weft.failure.lines import Line
from weft.failure.rulebook import shipped
from weft.lab.workloads.failing import named_troubles
from weft.model.errors import SpecError
from weft.sim.troubles import NO_TROUBLES
from weft.trace.philly_failures import failing_share, philly_ends, philly_reasons

JOBS = [a_job(f"j{n}", (1, 4, 16)[n % 3], at=60.0 * n) for n in range(3000)]


def test_a_share_of_jobs_is_ill_as_the_table_says() -> None:
    troubles = named_troubles("philly", JOBS, a_cluster(nodes=40), 1)
    assert len(troubles.ailments) / len(JOBS) == pytest.approx(failing_share(), rel=0.1)
    assert 0.15 < failing_share() < 0.2
    twice = named_troubles("philly*2", JOBS, a_cluster(nodes=40), 1)
    assert set(troubles.ailments) < set(twice.ailments)
    assert all(0 < ill.after_seconds <= 0.95 * 3600 for ill in troubles.ailments.values())


def test_nothing_goes_wrong_unless_it_is_asked_for() -> None:
    assert named_troubles("", JOBS, a_cluster(nodes=4), 1) is NO_TROUBLES


@pytest.mark.parametrize("name", ["filly", "philly*", "philly*x", "philly*-1", "philly*nan", "*2"])
def test_other_names_are_refused_with_a_hint(name: str) -> None:
    with pytest.raises(SpecError, match="no failures") as refused:
        named_troubles(name, JOBS, a_cluster(nodes=4), 1)
    assert refused.value.hint


def test_every_reason_has_ends_and_nearly_all_ends_of_jobs_are_named() -> None:
    assert {one.name for one in philly_reasons()} <= set(philly_ends())
    troubles = named_troubles("philly", JOBS, a_cluster(nodes=4), 2)
    found = Counter(
        diagnose([Line(text, stream, rank=0) for stream, text in ill.lines], shipped()).kind
        for ill in troubles.ailments.values()
    )
    assert found[FailureClass.UNKNOWN] / found.total() < 0.1
    assert found.total() > 400 and len(found) >= 8


def test_the_same_seed_gives_the_same_failures_whatever_the_order_of_jobs() -> None:
    one = named_troubles("philly", JOBS, a_cluster(nodes=40), 7)
    other = named_troubles("philly", JOBS[::-1], a_cluster(nodes=40), 7)
    assert one.ailments == other.ailments and one.bad_nodes == other.bad_nodes
