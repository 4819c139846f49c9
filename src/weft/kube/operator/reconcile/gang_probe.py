"""Before a gang starts, or grows onto further nodes, these are probed, unless they were just now.

It is not on record yet that it starts or grows: who takes over meanwhile finds a job that waits, or
trains on as it was. Nothing is written of it where the answers are there at once, as they are most
of the time.
"""

from collections.abc import Collection
from typing import Final

from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.reconcile.step import AskProbes, Look, NodeProbe, RecordWait, Step
from weft.model.placement import Placement
from weft.model.reason import Reason, ReasonCode

TOLD_AFTER_SECONDS: Final = 2.0
BOUND_SECONDS: Final = 70.0  # answers are all in before; then nobody is waited for

Nodes = tuple[str, ...]


def started_on(look: Look) -> Nodes:
    """What a gang is to start on; nothing where it is not large enough to ask."""
    assignment = look.belief.assignment
    return () if assignment is None else _of_gang(look, assignment.placement)


def grown_onto(look: Look, present: Placement) -> Nodes:
    """What a gang that trains is to have beside the nodes that it has."""
    order = look.belief.resizing
    if order is None:
        return ()
    return tuple(n for n in _of_gang(look, order.target) if n not in present.nodes)


def _of_gang(look: Look, placement: Placement) -> Nodes:
    least = look.rules.gang_probe_gpus
    if not least or placement.width < max(least, 2):
        return ()
    return tuple(sorted(placement.nodes))


def unfit_among(look: Look, nodes: Nodes) -> str:
    """Why the gang cannot have one of them."""
    for node, probe in _asked(look, nodes).items():
        if probe.unfit:
            return f"{node}: {probe.unfit}"
    return ""


def asked_first(look: Look, nodes: Nodes) -> Step | None:
    """Those are asked who were not, and waited for; None where all have answered."""
    asked = _asked(look, nodes)
    if unknown := tuple(node for node in nodes if node not in asked):
        return look.actions(AskProbes(unknown))
    silent = _silent(asked.values())
    until = min((probe.since for probe in silent), default=0.0) + BOUND_SECONDS
    return look.waiting(until) if silent and look.now < until else None


def probed_first(look: Look, job: ObservedJob) -> Step | None:
    """The same before a start, of which the job's owner is told where it takes a while."""
    nodes = started_on(look)
    step = asked_first(look, nodes)
    if step is None or step.actions:
        return step
    silent = _silent(_asked(look, nodes).values())
    since = min(probe.since for probe in silent)
    if look.now < since + TOLD_AFTER_SECONDS:
        return look.waiting(since + TOLD_AFTER_SECONDS)
    code = ReasonCode.HEALTH_PROBED
    if job.status.get("reason") == code.slug:
        return step
    delay = since + BOUND_SECONDS - look.now
    numbers = {"silent": len(silent), "nodes": len(nodes), "delay": delay}
    return look.actions(RecordWait(Reason(code, numbers)))


def _asked(look: Look, nodes: Nodes) -> dict[str, NodeProbe]:
    return {node: look.probed[node] for node in nodes if node in look.probed}


def _silent(asked: Collection[NodeProbe]) -> list[NodeProbe]:
    return [probe for probe in asked if probe.answered is None]
