"""Workers that follow the protocol without training, under a scheduler that draws what comes next.

Each behaves as a training process does, cut into the moments that matter: a message arrives late, a
step is summed, some hear the vote's result and some do not, a process dies at any of these. What
they have applied is written down, so that a test can hold the coordinator to its promise: every
step applied exactly once by everyone who goes on.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from weft.agent.actions import Action, Conclude, Send, Signal, Spawn
from weft.agent.coordinator import Coordinator
from weft.agent.limits import Limits
from weft.agent.messages import (
    FRESH,
    STATELESS,
    Abandon,
    Arm,
    Broken,
    Built,
    Committed,
    Drain,
    Farewell,
    Halt,
    Hello,
    Leaving,
    Message,
    Prepare,
    Pulse,
    Ready,
    Regroup,
    Save,
    Standby,
)

SIGKILL_CODE = -9
DRAINED = 143


@dataclass
class Actor:
    """One process that follows the protocol."""

    number: int
    alive: bool = True
    life: str = "starting"
    inbox: deque[Message] = field(default_factory=deque)
    outbox: deque[Message] = field(default_factory=deque)
    epoch: int = 0
    members: tuple[int, ...] = ()
    joiners: tuple[int, ...] = ()
    prepared: Prepare | None = None
    armed: int = -1
    drain: bool = False
    applied: list[int] = field(default_factory=list)
    committed: int = STATELESS
    pending: int = -1
    halted: bool = False
    stopped: bool = False
    unfit: bool = False

    @property
    def training(self) -> bool:
        return self.alive and self.life == "training"

    @property
    def step(self) -> int:
        return self.committed + 1


class Crowd:
    """A coordinator and the workers that it started."""

    def __init__(self, seed: int, width: int, total: int, *, unit: int = 1) -> None:
        self.random = Random(seed)
        self.total = total
        self.mind = Coordinator(width, unit=unit, limits=Limits(warm_seconds=20.0))
        self.actors: dict[int, Actor] = {}
        self.now = 0.0
        self.conclusion: Conclude | None = None
        self.durable = FRESH
        self._told: dict[int, set[int]] = {}
        self._actions: deque[Action] = deque()
        self._acting = False
        self.carry_out(self.mind.start(self.now))

    # ------------------------------------------------------------------------ what may happen

    def turn(self) -> None:
        """One thing happens, drawn from all that may."""
        self.now += self.random.choice((0.0, 0.01, 0.1))
        choices = [self.deliver, self.speak, self.begin, self.train, self.train, self.tick]
        self.random.choice(choices)()

    def calm(self, turns: int = 4000) -> None:
        """No more faults: whatever is under way comes to its end."""
        for _ in range(turns):
            if self.conclusion:
                return
            self.turn()

    def kill(self, number: int) -> None:
        actor = self.actors[number]
        if actor.alive and self.conclusion is None:
            actor.alive = False
            self.carry_out(self.mind.exited(number, SIGKILL_CODE, self.now))

    def resize(self, width: int, without: frozenset[int] = frozenset()) -> None:
        self.carry_out(self.mind.resize(width, self.now, without))

    def drain(self) -> None:
        self.carry_out(self.mind.drain(1000.0, self.now))

    def tick(self) -> None:
        self.mind.saved_step = self.durable
        self.carry_out(self.mind.tick(self.now))

    def deliver(self) -> None:
        """A message of the agent reaches a worker."""
        actor = self._any(lambda a: a.alive and a.inbox and not a.stopped)
        if actor is not None:
            self._obey(actor, actor.inbox.popleft())

    def speak(self) -> None:
        """A message of a worker reaches the agent."""
        actor = self._any(lambda a: a.alive and a.outbox and not a.stopped)
        if actor is not None:
            self._tell(actor, actor.outbox.popleft())

    def begin(self) -> None:
        """A starting worker comes a little further."""
        actor = self._any(lambda a: a.alive and a.life in ("starting", "warming"))
        if actor is None:
            return
        if actor.life == "starting":
            actor.life = "warming"
            actor.outbox.append(Hello("worker", actor.number, 1, ""))
        else:
            actor.life = "waiting"
            actor.outbox.append(Ready(0.1, elastic=True))

    def train(self) -> None:
        """The members of an epoch who are all there make a step, or find that someone is gone."""
        actor = self._any(lambda a: a.training and not a.stopped)
        if actor is None:
            return
        peers = [self.actors[number] for number in actor.members]
        here = [p for p in peers if p.training and p.epoch == actor.epoch and not p.halted]
        if len(here) == len(peers) and not any(p.stopped for p in peers):
            if any(p.unfit for p in peers):
                self._vote_against(peers)
            else:
                self._step(peers)
        elif actor.halted or any(not p.alive or p.halted for p in peers):
            self._find_broken(actor)

    # ------------------------------------------------------------------------------ one step

    def _step(self, peers: list[Actor]) -> None:
        joiners = {p.number for p in peers if p.number in p.joiners and p.committed == STATELESS}
        donors = [p for p in peers if p.number not in joiners]
        steps = {p.step for p in donors}
        assert len(steps) == 1, f"members of one epoch stand at {steps}"
        step = steps.pop()
        for newcomer in joiners:
            self.actors[newcomer].applied = list(donors[0].applied)
        flags = (any(p.armed > p.epoch for p in peers), any(p.drain for p in peers))
        victim = self.random.choice(peers) if self.random.random() < self.faults else None
        moment = self.random.choice(("before", "during", "after"))
        if victim and moment == "before":
            self.kill(victim.number)
            return
        for peer in peers:
            peer.pending = step
        heard = [p for p in peers if p is not victim and (not victim or self.random.random() < 0.5)]
        if victim and moment == "after":
            heard.append(victim)
        for peer in heard:
            self._commit(peer, step)
        for peer in heard:
            if peer is not victim:
                self._border(peer, *flags)
        if victim:
            self.kill(victim.number)

    def _vote_against(self, peers: list[Actor]) -> None:
        """One of them could not take the state: nobody applies the step, and all know it."""
        for peer in peers:
            self._find_broken(peer)

    faults = 0.0
    pause_seconds = 0.0

    def _commit(self, actor: Actor, step: int) -> None:
        assert step not in actor.applied, f"step {step} applied twice by {actor.number}"
        actor.applied.append(step)
        actor.committed, actor.pending = step, -1
        actor.joiners = ()
        told = self._told.setdefault(actor.epoch, set())
        if actor.number not in told:
            told.add(actor.number)
            actor.outbox.append(Committed(actor.epoch, step, self.pause_seconds))

    def _border(self, actor: Actor, armed: bool, drain: bool) -> None:
        if actor.step >= self.total:
            return self._leave(actor, Farewell.FINISHED, 0)
        if drain:
            self.durable = max(self.durable, actor.committed)
            return self._leave(actor, Farewell.DRAINED, DRAINED)
        if not armed:
            return None
        assert actor.prepared is not None, "armed but never prepared"
        if actor.number not in actor.prepared.members:
            return self._leave(actor, Farewell.LEFT, DRAINED)
        actor.epoch = actor.prepared.epoch
        actor.members, actor.joiners = actor.prepared.members, actor.prepared.joiners
        return None

    def _leave(self, actor: Actor, why: Farewell, code: int) -> None:
        actor.life = "left"
        self._flush(actor)
        self._tell(actor, Leaving(actor.epoch, actor.committed, why))
        actor.alive = False
        if self.conclusion is None:
            self.carry_out(self.mind.exited(actor.number, code, self.now))

    def _find_broken(self, actor: Actor) -> None:
        if actor.life != "training":
            return
        actor.life = "broken"
        actor.halted = True
        actor.outbox.append(Broken(actor.epoch, actor.committed, actor.pending, "gone"))

    # ------------------------------------------------------------------------------- messages

    def _obey(self, actor: Actor, message: Message) -> None:  # noqa: C901 - one case a message
        match message:
            case Prepare():
                actor.prepared = message
                actor.outbox.append(Built(message.epoch))
            case Abandon(epoch):
                if actor.prepared and actor.prepared.epoch == epoch:
                    actor.prepared = None
            case Arm(epoch):
                actor.armed = epoch
                if actor.life == "waiting" and actor.prepared is not None:
                    actor.life = "training"
                    actor.epoch, actor.members = epoch, actor.prepared.members
                    actor.joiners = actor.prepared.joiners
                    actor.committed, actor.halted = STATELESS, False
            case Halt():
                actor.outbox.append(Pulse(actor.epoch, actor.step, "forward", 0.0, 0, 0))
                if actor.life == "training":
                    actor.halted = True
            case Regroup():
                self._regroup(actor, message)
            case Standby():
                actor.life = "waiting"
                actor.committed, actor.pending, actor.halted = STATELESS, -1, False
            case Drain():
                actor.drain = True
            case Save():
                pass

    def _regroup(self, actor: Actor, order: Regroup) -> None:
        holds = actor.pending == order.committed and actor.pending >= 0
        if actor.committed == STATELESS and not holds:
            assert actor.number in order.donors or order.donors, "nobody to receive from"
            actor.applied = list(range(order.committed + 1))
        elif actor.committed < order.committed:
            assert actor.pending == order.committed, "a donor without the gradient"
            self._commit(actor, order.committed)
        actor.committed, actor.pending = order.committed, -1
        actor.epoch, actor.members, actor.joiners = order.epoch, order.members, ()
        actor.life, actor.halted, actor.prepared = "training", False, None
        if actor.step >= self.total:
            self._leave(actor, Farewell.FINISHED, 0)

    def _tell(self, actor: Actor, message: Message) -> None:
        if self.conclusion is None:
            self.carry_out(self.mind.heard(actor.number, message, self.now))

    def _flush(self, actor: Actor) -> None:
        while actor.outbox:
            self._tell(actor, actor.outbox.popleft())

    def carry_out(self, actions: list[Action]) -> None:
        """One after the other, as the agent does, also when one brings about the next event."""
        self._actions.extend(actions)
        if self._acting:
            return
        self._acting = True
        while self._actions:
            action = self._actions.popleft()
            match action:
                case Spawn(worker):
                    self.actors[worker] = Actor(worker)
                case Send(worker, message):
                    self.actors[worker].inbox.append(message)
                case Signal(worker, _):
                    self.kill(worker)
                case Conclude():
                    self.conclusion = action
        self._acting = False

    def _any(self, wanted: Callable[[Actor], object]) -> Actor | None:
        found = [actor for actor in self.actors.values() if wanted(actor)]
        return self.random.choice(found) if found else None
