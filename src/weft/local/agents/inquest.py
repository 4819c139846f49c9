"""Why an incarnation failed: what its agent kept, what its cgroup counted, what the kernel said.

The agent runs as the job's owner, who may have written its evidence: so that counts as the
program's word. What is the kernel's comes from the kernel, and is read here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weft.agent.evidence import Evidence, parsed
from weft.agent.outcome import INFRASTRUCTURE
from weft.failure.classes import FailureClass
from weft.failure.diagnosis import Diagnosis, diagnose, gathered
from weft.failure.fingerprint import fingerprint
from weft.failure.lines import Line, Stream, shown
from weft.failure.observed import Exit, MemoryEvents, Observed, Where
from weft.failure.rulebook import RuleBook
from weft.local.agents.job_processes import age_seconds, this_boot
from weft.local.machine.kernel_log import Concern, said
from weft.local.reconcile.observation import LastWords
from weft.local.record.entry import Birth
from weft.model.ids import NodeId

NOT_STARTED: Final = "not_started"
LONGEST_SECONDS: Final = 3_600.0  # of the kernel's log: a cause lies shortly before an end


@dataclass(frozen=True, slots=True)
class Scene:
    """What is left of one incarnation; `kept` is what its agent wrote, as it stands on disk."""

    node: NodeId
    words: LastWords
    kept: bytes
    agent: Birth | None = None
    concern: Concern = Concern(frozenset())  # noqa: RUF009 - a frozen value
    kills: int = 0


def look_into(scene: Scene, book: RuleBook) -> Diagnosis:
    """What all of it says."""
    if not scene.words.retryable:
        return _not_started(scene.words.why)
    evidence = parsed(scene.kept)
    lines = [*_kernel(scene), *gathered(_seen(scene, evidence))]
    return diagnose(lines, book)


def _seen(scene: Scene, evidence: Evidence) -> list[Observed]:
    where = Where(node=scene.node)
    seen = list(evidence.observed(scene.node))
    if scene.kills:
        seen.append(MemoryEvents(scene.kills, where=where))
    if not evidence.workers:
        seen.append(_Words(scene.words, where))
    return seen


@dataclass(frozen=True, slots=True)
class _Words:
    """What an agent said of its end, where nothing else is left."""

    words: LastWords
    where: Where

    def lines(self) -> Iterator[Line]:
        if self.words.exit_code != INFRASTRUCTURE:
            yield from Exit(self.words.exit_code, self.where).lines()
        yield self.where.line(f"agent: {self.words.why}", Stream.PLATFORM)


def _kernel(scene: Scene) -> tuple[Line, ...]:
    """A machine that was started anew took everything with it, and has nothing else to say."""
    if scene.agent is None:
        return ()
    if scene.agent.boot != this_boot():
        text = f"node {scene.node} heartbeat lost: the machine was started anew"
        return (Line(text, Stream.PLATFORM, None, scene.node),)
    since = min(age_seconds(scene.agent), LONGEST_SECONDS)
    return said(since, scene.concern, scene.node)


def _not_started(why: str) -> Diagnosis:
    """Its surroundings say that it can never begin as it was submitted."""
    facts = FailureClass.USER.facts
    return Diagnosis(
        kind=FailureClass.USER,
        rule=NOT_STARTED,
        says="it cannot be started as it was submitted",
        cure=facts.retry,
        advice="mend what the line names and submit it again",
        line=shown(why),
        fingerprint=fingerprint(NOT_STARTED, Line(why)),
    )


def ran_seconds(agent: Birth | None, otherwise: float = 0.0) -> float:
    """How long the incarnation has lasted, as the kernel counts it."""
    if agent is None or agent.boot != this_boot():
        return otherwise
    return max(age_seconds(agent), 0.0)
