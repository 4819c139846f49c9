"""Why workers failed, as far as their pods and nodes tell: the container runtime's word, what the
agent left to be read, and what monitors say of the node.

Pods that the image or the configuration keeps from starting are looked into as well: what no wait
cures is not waited for.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from weft.failure.classes import FailureClass
from weft.failure.diagnosis import NO_RULE, Diagnosis, diagnose, gathered
from weft.failure.last_words import read
from weft.failure.observed import Container, NodeCondition, Observed, Where
from weft.failure.rulebook import shipped
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.step import Look
from weft.model.ids import NodeId

MOST_PODS: Final = 64
OUT_OF_REACH: Final = "NotReady"
CERTAIN_SECONDS: Final = 10.0  # the kubelet tries twice within it
NOTICED: Final = frozenset(
    {FailureClass.PEER, FailureClass.START, FailureClass.NETWORK, FailureClass.NODE}
)
CERTAIN: Final = frozenset({FailureClass.ENVIRONMENT, FailureClass.ACCESS})


def diagnosis_of(look: Look, pods: Iterable[ObservedPod]) -> Diagnosis | None:
    """What all of them say together; None where none of them has failed."""
    failed = [pod for pod in pods if pod.failed or pod.node in look.lost][:MOST_PODS]
    if not failed:
        return None
    seen = [one for pod in failed for one in (*_of_pod(pod), *_of_node(look, pod))]
    return diagnose(gathered(seen), look.rules.book)


@lru_cache(maxsize=1_024)
def names_a_cause(words: str) -> bool:
    """Whether an agent that gave its job up tells why, and not only that others were lost to it.

    Where a node is gone the agents of the others notice it first, long before anybody else.
    """
    left = read(words)
    if not left.told:
        return False
    found = diagnose(gathered(left.observed(Where())), shipped())
    return found.rule != NO_RULE and found.kind not in NOTICED


def why_stuck(look: Look, pods: Iterable[ObservedPod]) -> Diagnosis | None:
    """Why a pod cannot begin, where no wait cures that, or a service is to be waited for."""
    since = look.note.stuck_since
    if since is None or look.now < since + CERTAIN_SECONDS:
        return None
    stuck = [pod for pod in pods if pod.stuck]
    seen = [Container(pod.stuck, message=pod.message, where=_where(pod)) for pod in stuck]
    found = diagnose(gathered(seen), look.rules.book) if seen else None
    if found is None or found.rule == NO_RULE:
        return None
    return found if found.kind in CERTAIN or found.service else None


def _of_pod(pod: ObservedPod) -> Iterator[Observed]:
    where = _where(pod)
    if pod.failed:
        yield Container(pod.reason or pod.ended, pod.exit_code, pod.message, where=where)
        yield from read(pod.words).observed(where)


def _of_node(look: Look, pod: ObservedPod) -> Iterator[Observed]:
    """Monitors of the node, with the time since which they say so."""
    name = NodeId(pod.node)
    if pod.node in look.lost:
        yield NodeCondition(OUT_OF_REACH, "out of reach", Where(look.lost[pod.node], name))
    node = look.nodes.get(pod.node)
    troubles = (*(node.troubles if node is not None else ()), *look.tainted.get(pod.node, ()))
    for trouble in troubles:
        yield NodeCondition(trouble.kind, trouble.message, Where(trouble.since, name))


def _where(pod: ObservedPod) -> Where:
    return Where(pod.ended_at, NodeId(pod.node) if pod.node else None)
