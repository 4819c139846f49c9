"""Widths by measured curves on real nodes: who scales grows over both, who does not stays small.

Nobody tells the operator how the jobs scale. Their heads measure it at each width and report it,
and the recipe gives the GPUs where they help, while all train.
"""

import time
from itertools import pairwise
from typing import Final

import pytest

from tests.realnodes.site import Site
from tests.realnodes.steps import Step, follow_on, longest_pause_seconds

VALUES: Final = {"recipe": "afs-l(hold=2, spacing=0.5, min_run=0)"}
SCALES, STAYS = "scales", "stays"
PATIENCE_SECONDS: Final = 200.0


@pytest.mark.timeout(600)
def test_gpus_go_over_both_nodes_to_the_job_that_scales(site: Site) -> None:
    """The first is shorter, and would keep both of its own if it made any use of them."""
    began = time.time()
    site.submit(STAYS, "1..2", total=4_000, knobs="--pause 0.25")
    site.await_width(STAYS, 2, PATIENCE_SECONDS)
    site.await_width(STAYS, 1, PATIENCE_SECONDS)
    site.note("afs", "submitted to known not to scale, at two and at one", time.time() - began)
    began = time.time()
    site.submit(SCALES, "1..4", total=100_000, knobs="--pause 0.01 --sample 0.02")
    site.await_width(SCALES, 3, PATIENCE_SECONDS)
    site.note("afs", "another one's submission to three wide beside it", time.time() - began)
    assert len(site.seats(STAYS)) == 1
    began = time.time()
    site.lab.cancel(STAYS)
    site.await_width(SCALES, 4, PATIENCE_SECONDS)
    site.note("afs", "the first one's end to four wide, over both nodes", time.time() - began)
    assert len(set(site.seats(SCALES).values())) == 2
    check_went_on(site)


def check_went_on(site: Site) -> None:
    """Every change of a width was live: no step was lost, nobody started again."""
    for name in (SCALES, STAYS):
        done = site.steps(name)
        assert follow_on(done)
        assert {step.epoch for step in done} == {1}
        pause_seconds = longest_pause_seconds(done)
        site.note("afs", f"longest pause of {name}, at {_changes(done)} changes", pause_seconds)
    grown = [now for before, now in pairwise(site.steps(SCALES)) if now.width > before.width]
    assert grown


def _changes(done: list[Step]) -> int:
    return sum(before.width != now.width for before, now in pairwise(done))
