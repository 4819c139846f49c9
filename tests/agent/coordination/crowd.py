"""Workers that follow the protocol without training, under a scheduler that draws what comes next.

Each is the real machine of a worker's side (`weft.train.membership.protocol`) with a model of
training around it, cut into the moments that matter: a message arrives late, a step is summed, some
hear the vote's result and some do not, a process dies at any of these. What they have applied is
written down, so that a test can hold both sides to their promise: every step applied exactly once
by everyone who goes on, made of every sample once, and all who train together hold the same.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from weft.agent.coordination.actions import Action, Conclude, Note, Send, Signal, Spawn
from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.limits import BETWEEN, Limits
from weft.agent.messages import (
    FRESH,
    NOWHERE,
    STATELESS,
    Arm,
    Envelope,
    Farewell,
    Hello,
    Leaving,
    Message,
    Prepare,
    Pulse,
    Ready,
    Regroup,
)
from weft.agent.plan import Plan
from weft.train.gradients.flag import Flag
from weft.train.membership.protocol import (
    Beat,
    Border,
    Build,
    Cut,
    Discard,
    Part,
    Say,
    WorkerAction,
)

SIGKILL_CODE = -9
ORPHANED = 75
DRAINED = 143
BATCH = 12
MOST_WORKERS = 500
USUAL = Limits(warm_seconds=20.0)
UNDAUNTED = replace(USUAL, most_fruitless=1_000, most_repeats=1_000)
"""By chance some jobs die four times in a row before anybody has heard of a step."""


class PromiseBroken(AssertionError):
    """Something that the protocol must never let happen has happened."""


def promise(kept: object, otherwise: str) -> None:
    if not kept:
        raise PromiseBroken(otherwise)


@dataclass
class Actor:
    """One process: the real machine of a worker's side, with a model of training around it."""

    number: int
    alive: bool = True
    life: str = "starting"
    inbox: deque[Envelope] = field(default_factory=deque)
    outbox: deque[Envelope] = field(default_factory=deque)
    builds: deque[Prepare] = field(default_factory=deque)
    stands: set[int] = field(default_factory=set)  # epochs whose groups it has built
    applied: list[int] = field(default_factory=list)
    weights: int = 0  # a digest of all that was applied, with the samples it was computed from
    pending: tuple[int, int] = (NOWHERE, 0)  # a step, and its summed gradient
    portions: int = 0  # of the state, still to come
    cut: int = NOWHERE
    stopped: bool = False
    unfit: bool = False
    heard: int = 0
    said: int = 0
    told: int = 0

    def __post_init__(self) -> None:
        self.part = Part(self.number)

    @property
    def training(self) -> bool:
        return self.alive and self.life == "training"

    @property
    def committed(self) -> int:
        return self.part.committed

    @property
    def step(self) -> int:
        return self.part.committed + 1

    @property
    def epoch(self) -> int:
        return self.part.epoch

    @property
    def halted(self) -> bool:
        """Whether its waits were ended, by the agent or by itself."""
        return self.cut >= self.part.epoch

    def take(self, actions: list[WorkerAction]) -> None:
        """Carry out what the machine wants done, as `weft.train.membership.control` does."""
        for action in actions:
            match action:
                case Say(message):
                    self.say(message)
                case Beat():
                    section = BETWEEN if self.life == "behind" else "forward"
                    self.say(Pulse(self.epoch, self.step, section, 0.0, 0, 0))
                case Build(order):
                    self.builds.append(order)
                case Discard(epoch):
                    self.builds = deque(order for order in self.builds if order.epoch > epoch)
                    self.stands = {one for one in self.stands if one > epoch}
                case Cut(epoch):
                    self.cut = max(self.cut, epoch)

    def say(self, message: Message) -> None:
        self.said += 1
        self.outbox.append(Envelope("job", 1, self.said, message))


class Crowd:
    """A coordinator and the workers that it started."""

    def __init__(
        self, seed: int, width: int, total: int, *, unit: int = 1, limits: Limits = USUAL
    ) -> None:
        self.random = Random(seed)
        self.total = total
        self.mind = Coordinator(width, plan=Plan(shard=unit), limits=limits)
        self.actors: dict[int, Actor] = {}
        self.now = 0.0
        self.conclusion: Conclude | None = None
        self.durable = FRESH
        self.drained_at: set[int] = set()
        self.made: dict[tuple[int, int], tuple[int, list[Actor]]] = {}
        self.notes: list[tuple[float, Note]] = []
        self._sent = 0
        self._actions: deque[Action] = deque()
        self._acting = False
        self.carry_out(self.mind.start(self.now))

    # ------------------------------------------------------------------------ what may happen

    def turn(self) -> None:
        """One thing happens, drawn from all that may."""
        self.now += self.random.choice((0.0, 0.01, 0.1))
        choices = [
            self.deliver,
            self.deliver,
            self.speak,
            self.speak,
            self.build,
            self.follow,
            self.begin,
            self.train,
            self.train,
            self.tick,
            self.end,
        ]
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

    def replan(self, plan: Plan, width: int, *, beside: bool = True) -> None:
        """As an agent does, which asks nobody for a plan before it has told what it can."""
        if self.mind.elastic:
            self.carry_out(self.mind.resize(width, self.now, plan=plan, beside=beside))

    def drain(self) -> None:
        self.carry_out(self.mind.drain(1000.0, self.now))

    def tick(self) -> None:
        """Time passes, and whoever is not stopped has given signs of life meanwhile."""
        for actor in self.actors.values():
            if actor.alive and not actor.stopped and actor.life != "starting":
                self.mind.workers[actor.number].heard_seconds = self.now
        self.mind.saved_step = self.durable
        self.mind.source = "" if self.durable == FRESH else f"step {self.durable}"
        self.carry_out(self.mind.tick(self.now))

    def deliver(self, actor: Actor | None = None) -> None:
        """A message of the agent reaches a worker; one that comes again is dropped."""
        actor = actor or self._any(lambda a: a.alive and a.inbox and not a.stopped)
        if actor is None:
            return
        envelope = actor.inbox.popleft()
        if envelope.seq > actor.heard:
            actor.heard = envelope.seq
            self._obey(actor, envelope.message)

    def speak(self, actor: Actor | None = None) -> None:
        """A message of a worker reaches the agent."""
        actor = actor or self._any(lambda a: a.alive and a.outbox and not a.stopped)
        if actor is not None:
            self._tell(actor, actor.outbox.popleft())

    def build(self, actor: Actor | None = None) -> None:
        """The groups of a coming epoch stand, or cannot be built."""
        actor = actor or self._any(lambda a: a.alive and a.builds and not a.stopped)
        if actor is None:
            return
        order = actor.builds.popleft()
        failed = self.random.random() < self.faults / 4
        actor.stands |= set() if failed else {order.epoch}
        actor.take([actor.part.built(order.epoch, "no route" if failed else "")])

    def begin(self, actor: Actor | None = None) -> None:
        """A starting worker comes a little further."""
        actor = actor or self._any(lambda a: a.alive and a.life in ("starting", "warming"))
        if actor is None:
            return
        if actor.life == "starting":
            actor.life = "warming"
            actor.say(Hello("worker", actor.number, 1, ""))
        else:
            actor.life, actor.part.ready = "waiting", True
            actor.say(Ready(0.1, elastic=True))

    def train(self, actor: Actor | None = None) -> None:
        """The members of an epoch who are all there make a step, or find that someone is gone."""
        actor = actor or self._any(lambda a: a.training and not a.stopped)
        if actor is None:
            return
        promise(actor.number in actor.part.members, "one trains who is no member")
        peers = [self.actors[number] for number in actor.part.members]
        here = [p for p in peers if p.training and p.epoch == actor.epoch and not p.halted]
        if len(here) == len(peers) and not any(p.stopped for p in peers):
            if any(p.unfit for p in peers):
                self._fail_together(peers)
            else:
                self._step(peers)
            return
        gone = any(not p.alive or p.cut >= actor.epoch for p in peers)
        waits = any(p.stopped for p in peers) and self.random.random() < self.impatience
        if actor.halted or gone or waits:
            self._find_broken(actor)

    # ------------------------------------------------------------------------------ one step

    def _step(self, peers: list[Actor]) -> None:
        """Handed over, summed, voted, applied; somebody may die at any of these."""
        donors, newcomers = self._at_one(peers)
        step = donors[0].step
        self._hand_over(donors[0], newcomers)
        gradient = self._summed(peers, step)
        flags = frozenset(flag for p in peers for flag in p.part.raised)
        victim = self.random.choice(peers) if self.random.random() < self.faults else None
        moment = self.random.choice(("before", "during", "after"))
        if victim and moment == "before":
            self.kill(victim.number)
            return
        for peer in peers:
            peer.pending = (step, gradient) if peer.committed > STATELESS else (NOWHERE, 0)
        heard = [p for p in peers if p is not victim and (not victim or self.random.random() < 0.5)]
        if victim and moment == "after":
            heard.append(victim)
        if heard:
            self._make(step, peers[0].epoch, [p for p in heard if p.committed > STATELESS])
        for peer in heard:
            self._commit(peer, step, gradient)
        for peer in heard:
            if peer is not victim:
                peer.part.save = False
                if flags - {Flag.ARMED} and peer.committed > STATELESS:
                    self.durable = max(self.durable, peer.committed)
                self._border(peer, flags)
        if victim:
            self.kill(victim.number)

    def _at_one(self, peers: list[Actor]) -> tuple[list[Actor], list[Actor]]:
        """Those who have the state and those who are given it; all see the same."""
        views = {(p.part.members, p.part.joiners) for p in peers}
        if len(views) != 1:
            raise PromiseBroken(f"members of one epoch see {views}")
        (plan,) = {self.mind.workers[p.number].plan for p in peers}
        replicas = Counter(p.number // plan.unit for p in peers)
        promise(set(replicas.values()) == {plan.unit}, "a part of a replica trains")
        newcomers = [p for p in peers if p.number in p.part.joiners]
        donors = [p for p in peers if p not in newcomers]
        promise(donors, "nobody has the state")
        if len({(p.step, p.weights) for p in donors}) != 1:
            raise PromiseBroken(f"members of one epoch stand at {[p.step for p in donors]}")
        return donors, newcomers

    def _make(self, step: int, epoch: int, by: list[Actor]) -> None:
        """A step that somebody has applied who lives, or who left, is not made again."""
        before, who = self.made.get((self.mind.restarts, step), (epoch, []))
        if before != epoch:
            promise(not any(a.alive or a.life == "left" for a in who), "a step was made again")
        self.made[self.mind.restarts, step] = epoch, by

    def _hand_over(self, donor: Actor, newcomers: list[Actor]) -> None:
        """A part of the state beside each step; who has all of it stands where the donor stands."""
        for newcomer in newcomers:
            newcomer.portions -= 1
            if newcomer.portions <= 0 and newcomer.committed == STATELESS:
                newcomer.part.received(donor.committed)
                newcomer.applied, newcomer.weights = list(donor.applied), donor.weights

    def _summed(self, peers: list[Actor], step: int) -> int:
        """Every sample of the step is in it, from exactly one of them."""
        taken: list[int] = []
        for peer in peers:
            sharers = peer.part.sharers
            if peer.number in sharers:
                promise(peer.committed > STATELESS, "one brings samples who has no state")
                place, count = sharers.index(peer.number), len(sharers)
                taken += range(BATCH * place // count, BATCH * (place + 1) // count)
        if sorted(taken) != list(range(BATCH)):
            raise PromiseBroken(f"step {step} was made of the samples {taken}")
        return hash((step, "gradient"))

    def _fail_together(self, peers: list[Actor]) -> None:
        """One of them could not take the state: nobody applies the step, and all know it."""
        for peer in peers:
            self._find_broken(peer)

    faults = 0.0
    pause_seconds = 0.0

    def _commit(self, actor: Actor, step: int, gradient: int) -> None:
        had_state = actor.committed > STATELESS
        actor.take(actor.part.commit(self.pause_seconds))
        actor.pending = (NOWHERE, 0)
        if had_state:
            if step != len(actor.applied):
                raise PromiseBroken(f"step {step} by {actor.number} after {actor.applied}")
            actor.applied.append(step)
            actor.weights = hash((actor.weights, gradient))
            promise(actor.committed == step, "it has lost count")

    def _border(self, actor: Actor, seen: frozenset[Flag]) -> None:
        peers = [self.actors[number] for number in actor.part.members]
        if actor.part.fresh and all(p.committed > STATELESS for p in peers):
            actor.part.complete()
        match actor.part.border(seen):
            case Border.DRAIN:
                self.drained_at.add(actor.committed)
                self._leave(actor, Farewell.DRAINED, DRAINED)
            case Border.LEAVE:
                self._leave(actor, Farewell.LEFT, DRAINED)
            case Border.MEND:
                self._find_broken(actor)
            case Border.YIELD:
                self._find_broken(actor, yielded=True)
            case Border.SWITCH:
                self._enter(actor, actor.part.switch().epoch)
                self._look_for_the_end(actor)
            case Border.GO_ON:
                self._look_for_the_end(actor)

    def _enter(self, actor: Actor, epoch: int) -> None:
        """Its groups stand: all have said so before it was armed."""
        promise(epoch in actor.stands, f"epoch {epoch} was armed, and {actor.number} has no group")
        actor.portions = self.random.randint(1, self.most_portions)

    most_portions = 3
    impatience = 0.0  # how likely one that waits for a stopped one comes to its limit

    def _look_for_the_end(self, actor: Actor) -> None:
        """Behind the last step of the loop the script is alone with what it has to do there."""
        if actor.step < self.total or actor.committed == STATELESS:
            return
        actor.life = "behind"
        actor.part.step_out()
        self.durable = max(self.durable, actor.committed)
        actor.say(Pulse(actor.epoch, actor.step, BETWEEN, 0.0, 0, 0))

    def end(self, actor: Actor | None = None) -> None:
        """A script comes to its end, or to the end of its process before that."""
        actor = actor or self._any(lambda a: a.alive and a.life == "behind" and not a.stopped)
        if actor is None:
            return
        if self.random.random() < self.faults:
            self.kill(actor.number)
            return
        self.hear(actor)
        self._exit(actor, 0)

    def _leave(self, actor: Actor, why: Farewell, code: int) -> None:
        actor.say(Leaving(actor.epoch, actor.committed, why))
        self.hear(actor)
        self._exit(actor, code)

    def _exit(self, actor: Actor, code: int) -> None:
        """Unless it was killed over its last words."""
        if not actor.alive:
            return
        actor.life, actor.alive = "left", False
        if self.conclusion is None:
            self.carry_out(self.mind.exited(actor.number, code, self.now))

    def _find_broken(self, actor: Actor, *, yielded: bool = False) -> None:
        if actor.life != "training":
            return
        actor.life = "broken"
        actor.cut = max(actor.cut, actor.epoch)
        actor.take([actor.part.ask(actor.pending[0], "gone", yielded=yielded)])

    # ------------------------------------------------------------------------------- messages

    def _obey(self, actor: Actor, message: Message) -> None:
        actor.take(actor.part.heard(message))

    def follow(self, actor: Actor | None = None) -> None:
        """One that has nothing else to do looks for an order."""
        idle = ("waiting", "broken")
        actor = actor or self._any(lambda a: a.alive and a.life in idle and not a.stopped)
        if actor is None:
            return
        order = actor.part.next_order(asked=actor.life == "broken")
        match order:
            case Arm(epoch):
                if actor.part.halted >= epoch:
                    actor.life = "training"
                    self._find_broken(actor)
                elif actor.part.may_join(order):
                    actor.part.switch()
                    actor.life = "training"
                    self._enter(actor, epoch)
            case Regroup():
                self._regroup(actor, order)
            case None:
                return
            case _:  # it stands by
                actor.life, actor.pending = "waiting", (NOWHERE, 0)

    def _regroup(self, actor: Actor, order: Regroup) -> None:
        """All meet, and those without the state are given it, before the first step."""
        pending, gradient = actor.pending
        if actor.part.must_apply(order, pending):
            self._commit(actor, order.committed, gradient)
        if actor.part.must_load(order):
            loaded = int(order.source.removeprefix("step ")) if order.source else FRESH
            promise(loaded == order.committed, "it has loaded something else")
            actor.applied = list(range(loaded + 1))
            actor.weights = self._weights_after(loaded)
        elif actor.committed == STATELESS:
            promise(order.donors, "nobody to receive from")
            actor.applied = list(range(order.committed + 1))
            actor.weights = self._weights_after(order.committed)
        else:
            promise(actor.committed == order.committed, "it goes on from somewhere else")
        actor.part.regroup(order)
        actor.part.begin(order)
        actor.pending = (NOWHERE, 0)
        actor.life = "training"
        self._look_for_the_end(actor)

    def _weights_after(self, step: int) -> int:
        weights = 0
        for made in range(step + 1):
            weights = hash((weights, hash((made, "gradient"))))
        return weights

    def _tell(self, actor: Actor, envelope: Envelope) -> None:
        """As a line of the agent's does: what comes again is dropped."""
        if self.conclusion is None and envelope.seq > actor.told:
            actor.told = envelope.seq
            self.carry_out(self.mind.heard(actor.number, envelope.message, self.now))

    def hear(self, actor: Actor) -> None:
        """All that it has said."""
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
                    promise(worker < MOST_WORKERS, "workers are started without end")
                    self.actors[worker] = Actor(worker)
                case Send(worker, message):
                    self._sent += 1
                    self.actors[worker].inbox.append(Envelope("job", 1, self._sent, message))
                case Signal(worker, _):
                    self.kill(worker)
                case Conclude():
                    self.conclusion = action
                case Note():
                    self.notes.append((self.now, action))
        self._acting = False

    def _any(self, wanted: Callable[[Actor], object]) -> Actor | None:
        found = [actor for actor in self.actors.values() if wanted(actor)]
        return self.random.choice(found) if found else None
