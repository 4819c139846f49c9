"""Before a gang starts, its nodes are probed, unless they were a moment ago.

It is not on record yet that it starts: who takes over meanwhile finds a job that waits. Nothing is
written of it where the answers are there at once, as they are most of the time.
"""

from typing import Final

from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.reconcile.step import AskProbes, Look, NodeProbe, RecordWait, Step
from weft.model.reason import Reason, ReasonCode

TOLD_AFTER_SECONDS: Final = 2.0
BOUND_SECONDS: Final = 70.0  # answers are all in before; then nobody is waited for


def unfit_for_gang(look: Look) -> str:
    """Why it cannot start where it was to."""
    for node, probe in _asked(look).items():
        if probe.unfit:
            return f"{node}: {probe.unfit}"
    return ""


def probed_first(look: Look, job: ObservedJob) -> Step | None:
    """What is to be done before it starts; None where nothing is."""
    nodes, asked = _nodes(look), _asked(look)
    if unknown := tuple(node for node in nodes if node not in asked):
        return look.actions(AskProbes(unknown))
    silent = [probe for probe in asked.values() if probe.answered is None]
    if not silent:
        return None
    since = min(probe.since for probe in silent)
    until = since + BOUND_SECONDS
    if look.now >= until:
        return None
    if look.now < since + TOLD_AFTER_SECONDS:
        return look.waiting(since + TOLD_AFTER_SECONDS)
    code = ReasonCode.HEALTH_PROBED
    if job.status.get("reason") == code.slug:
        return look.waiting(until)
    numbers = {"silent": len(silent), "nodes": len(nodes), "delay": until - look.now}
    return look.actions(RecordWait(Reason(code, numbers)))


def _asked(look: Look) -> dict[str, NodeProbe]:
    return {node: look.probed[node] for node in _nodes(look) if node in look.probed}


def _nodes(look: Look) -> tuple[str, ...]:
    """Of a gang that is large enough."""
    least, assignment = look.rules.gang_probe_gpus, look.belief.assignment
    if not least or assignment is None or assignment.width < max(least, 2):
        return ()
    return tuple(sorted(assignment.placement.nodes))
