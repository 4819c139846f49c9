"""How often a job should save, as far as its world knows: how often such jobs fail here.

What a save costs is known where it is done, so no interval is told, but what one follows from
(`failure.interval`): the time between failures of a GPU, by the nodes of this cluster and what was
held against them, or by the job's own failures where these come more often.
"""

from typing import Final

from weft.brain.brain import Brain
from weft.failure.interval import (
    NODE_GPUS,
    TERMS,
    Advice,
    observed_node_faults_per_day,
    seconds_between_failures,
)
from weft.model.ids import JobId
from weft.reconcile.belief import past_of

ENOUGH_FAILURES: Final = 2  # of the job itself: one may be chance


def saving_advice(brain: Brain, job: JobId) -> Advice:
    """For whoever saves that job."""
    between = seconds_between_failures(
        1,
        node_faults_per_day=_node_faults_per_day(brain),
        observed_seconds=_observed_gpu_seconds(brain, job),
        node_gpus=_node_gpus(brain),
    )
    return Advice(max(between, 1.0), _longest_seconds(brain, job))


def _longest_seconds(brain: Brain, job: JobId) -> float:
    slot = brain.state.slot_of.get(job)
    preemptible = slot is None or brain.state.spec(slot).preemptible
    return TERMS.longest_if_preemptible_seconds if preemptible else TERMS.longest_seconds


def _node_faults_per_day(brain: Brain) -> float:
    blames = brain.state.failures.health.blames.entries
    sure = [one.at_seconds for one in blames if one.weight >= 1.0]
    return observed_node_faults_per_day(sure, int(brain.state.nodes.present.sum()), brain.now)


def _node_gpus(brain: Brain) -> int:
    nodes = brain.state.nodes
    counts = nodes.gpus[nodes.present]
    return max(int(counts.max()), 1) if counts.size else NODE_GPUS


def _observed_gpu_seconds(brain: Brain, job: JobId) -> float | None:
    past = past_of(brain, job)
    if past is None or past.failures < ENOUGH_FAILURES or past.attained_gpu_seconds <= 0.0:
        return None
    return past.attained_gpu_seconds / past.failures
