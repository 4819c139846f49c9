"""Jobs that stopped because their node was lost: what is told of it.

It is no failure of theirs and costs them no retry, so the brain keeps no count of it. Their owners
want to know all the same why they began again, and whoever runs the cluster what that cost.
"""

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from weft.brain.instruction import Instruction, Stop
from weft.failure.diagnosis import Diagnosis, diagnose, gathered
from weft.failure.observed import NodeCondition, Where
from weft.failure.rulebook import shipped
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.reconcile.diagnosing import OUT_OF_REACH
from weft.kube.operator.status.patches import Standing
from weft.model.ids import JobId, NodeId

STOPPED: Final = re.compile(r"node (\S+) lost")


class Losses:
    """By job: the epoch that was lost, and why."""

    def __init__(self) -> None:
        self._lost: dict[JobId, tuple[int, Diagnosis]] = {}

    def heard(self, instructions: list[Instruction]) -> None:
        """Who is stopped for it, when a node is lost or when a new leader finds the job there."""
        for one in instructions:
            if isinstance(one, Stop) and (found := STOPPED.fullmatch(one.why)) is not None:
                self._lost[one.job] = one.epoch, lost_node(NodeId(found[1]))

    def told(self, job: ObservedJob | None, standing: Standing) -> Standing:
        """The same, with the loss, as long as the job has not begun again."""
        epoch, found = self._lost.get(JobId(job.key), (0, None)) if job else (0, None)
        if job is None or found is None:
            return standing
        if job.epoch > epoch:
            del self._lost[JobId(job.key)]
            return standing
        return replace(standing, failure=found, is_new=True)

    def forget(self, key: str) -> None:
        self._lost.pop(JobId(key), None)


@lru_cache(maxsize=1_024)
def lost_node(node: NodeId) -> Diagnosis:
    """As its pods would be looked into."""
    seen = NodeCondition(OUT_OF_REACH, "out of reach", Where(node=node))
    return diagnose(gathered([seen]), shipped())
