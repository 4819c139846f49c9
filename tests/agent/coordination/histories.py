"""Random histories of one job: both sides of the protocol as they are, and all that can go wrong.

Messages come late and twice, and are lost with the line that carried them; processes die, stop and
go on at any moment; widths are ordered, seats withdrawn, snapshots and drains asked for; another
head leads. Then the faults stop, and what was promised must come true: the newest width is reached,
or it is said why not; the job ends; every step was applied once, from every sample once, by all who
hold its result.

    python -m tools.explore --kind histories
"""

from collections import deque
from random import Random
from typing import Any

from tests.agent.coordination.crowd import ORPHANED, Actor, Crowd, PromiseBroken, promise
from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.epochs import Phase
from weft.agent.coordination.heirs import Succession
from weft.agent.coordination.limits import Limits
from weft.agent.messages import Brought, Built, Committed, Envelope, Here, Message, Pulse
from weft.agent.outcome import Outcome
from weft.agent.plan import Plan

MOST_MOVES = 6000
UNTIMELY = 100_000  # steps, that nobody comes to
PLANS = (Plan(), Plan(tensor=2), Plan(shard=2), Plan(pipeline=2), Plan(shard=2, tensor=2))
TWICE = (Built, Committed, Pulse)  # what the agent may hear again


class History(Crowd):
    """A crowd in which something that can happen always does."""

    repeats = 0.0
    ordered = 0
    drained = in_peace = False

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.behind: set[int] = set()

    def move(self) -> None:
        """One thing of all that can happen now; if nothing can, time passes."""
        self.now += self.random.choice((0.0, 0.01, 0.05))
        able = [one for a in self.actors.values() if a.alive and not a.stopped for one in doable(a)]
        if not able or self.random.random() < 0.1:
            self.now += 0.0 if able else 0.5
            self.tick()
            return
        name, actor = self.random.choice(able)
        if name == "train" and self.random.random() < 0.5:  # what is said matters more
            name, actor = self.random.choice(able)
        getattr(self, name)(actor)

    def _obey(self, actor: Actor, message: Message) -> None:
        super()._obey(actor, message)
        if self.random.random() < self.repeats:
            super()._obey(actor, message)

    def _tell(self, actor: Actor, envelope: Envelope) -> None:
        super()._tell(actor, envelope)
        again = isinstance(envelope.message, TWICE) and self.random.random() < self.repeats
        if again and actor.alive and self.conclusion is None:
            self.carry_out(self.mind.heard(actor.number, envelope.message, self.now))

    # ------------------------------------------------------------------------------- trouble

    def trouble(self) -> None:
        """Something that nobody has asked for, or an order."""
        what = self.random.choice(
            (
                self.die,
                self.lose_line,
                self.stop,
                self.resume,
                self.order,
                self.withdraw,
                self.ask,
                self.move_head,
            )
        )
        what()

    def move_head(self) -> None:
        """Another head leads: it knows what it is told, and nothing that was on its way arrives.

        Some may die with the one before. Who has left is not known to the next, which may have a
        step made again that only they had applied: from the same state, and by all who go on.
        """
        old = self.mind
        if not old.elastic or self.conclusion is not None or self.drained or not old.started:
            return
        dying = [a for a in self.actors.values() if a.alive and self.random.random() < 0.2]
        for actor in dying:
            actor.alive = False
        found = self._succession(old, owed=bool(dying))
        self.made = {k: (e, [a for a in who if a.alive]) for k, (e, who) in self.made.items()}
        plan = old.plans.of(old.members)
        width = max(old.width // plan.unit, 1) * plan.unit  # as a head counts its places
        self.mind = Coordinator(width, plan=plan, limits=old.limits)
        self.mind.unwanted, self.mind.restarts = old.unwanted, old.restarts
        self.mind.saved_step, self.mind.source = old.saved_step, old.source
        self.carry_out(self.mind.inherit(found.inherited(self.now), width, self.now))

    def _succession(self, old: Coordinator, *, owed: bool) -> Succession:
        found = Succession(
            2,
            frozenset(),
            self.now,
            old.members,
            owed=owed,
            next_worker=old.next_worker,
            turning=old.plans.turning,
        )
        for number, actor in self.actors.items():
            if not actor.alive:
                continue
            found.brought[number] = 0, Brought(number, old.workers[number].rank, 0, 1)
            actor.inbox.clear()
            actor.outbox.clear()
            if actor.stopped:
                self.behind.add(number)
            if actor.life == "starting" or actor.stopped:
                continue
            actor.take(actor.part.move())
            found.here[number] = actor.part.here
            actor.outbox = deque(e for e in actor.outbox if not isinstance(e.message, Here))
        return found

    def die(self) -> None:
        if self.mind.elastic:
            self.kill(self.random.choice(list(self.actors)))

    def lose_line(self) -> None:
        """Without its agent a worker ends itself, and what it had said last is lost."""
        actor = self._any(lambda a: a.alive and a.life != "starting")
        if actor is not None and self.mind.elastic:
            actor.outbox.clear()
            actor.alive = False
            self.carry_out(self.mind.exited(actor.number, ORPHANED, self.now))

    def stop(self) -> None:
        actor = self._any(lambda a: a.training)
        if actor is not None:
            actor.stopped = True

    def resume(self) -> None:
        """Who has slept while the head moved finds the other one now, and says how it stands."""
        for actor in self.actors.values():
            actor.stopped = False
            if actor.number in self.behind and actor.alive and actor.life != "starting":
                actor.take(actor.part.move())
        self.behind.clear()

    def order(self) -> None:
        self.ordered = self.random.randint(1, 4) * self.mind.unit
        self.resize(self.ordered, self.mind.unwanted)

    def withdraw(self) -> None:
        """A seat is to be given back: whoever sits there has to leave."""
        if self.mind.members and self.mind.elastic:
            gone = frozenset({self.random.choice(self.mind.members)})
            whole = len(self.mind.members) // self.mind.unit  # a head may be left with half of one
            self.ordered = max(whole - 1, 1) * self.mind.unit
            self.resize(self.ordered, self.mind.unwanted | gone)

    def ask(self) -> None:
        """A snapshot, or rarely the end."""
        self.carry_out(self.mind.save(self.now))
        if self.random.random() < 0.1 and self.mind.elastic:
            self.drained = True
            self.in_peace = self.random.random() < 0.5 and self.mind.phase is Phase.STEADY
            self.resume()
            self.drain()


def doable(actor: Actor) -> list[tuple[str, Actor]]:
    """What an actor could do next."""
    found = []
    if actor.inbox:
        found.append(("deliver", actor))
    if actor.outbox:
        found.append(("speak", actor))
    if actor.builds:
        found.append(("build", actor))
    if actor.life in ("starting", "warming"):
        found.append(("begin", actor))
    elif actor.life == "training":
        found.append(("train", actor))
    elif actor.life == "behind":
        found.append(("end", actor))
    elif actor.part._orders:
        found.append(("follow", actor))
    return found


def play(seed: int) -> None:
    """One history; a `PromiseBroken` if it does not end as it should."""
    draw = Random(seed)
    unit = draw.choice((1, 1, 1, 2))
    width = draw.randint(1, 3) * unit
    history = History(draw.randrange(1 << 32), width, UNTIMELY, unit=unit)
    history.ordered = width
    history.mind.limits = history.mind._epochs._limits = Limits(
        warm_seconds=20.0,
        most_restarts=1000,
        most_fruitless=1000,
        most_repeats=1000,
        most_stillborn=100,
        most_fruitless_halts=1000,
    )
    history.faults = draw.choice((0.0, 0.02, 0.1))
    history.repeats = draw.choice((0.0, 0.1))
    history.impatience = 0.2
    often = draw.choice((0.02, 0.05, 0.1))
    for _ in range(draw.randint(20, 90)):
        if history.conclusion is not None or history.in_peace:
            break
        history.move()
        if draw.random() < often:
            history.trouble()
    history.faults = history.repeats = 0.0
    if draw.random() < 0.7:  # else one that has stopped never comes back
        history.resume()
    if history.conclusion is None:
        history.resize(history.ordered, history.mind.unwanted)
    settle(history)
    finish(history)


def settle(history: History) -> None:
    """What was ordered last is reached; who is drained leaves."""
    mind = history.mind
    for _ in range(MOST_MOVES):
        if history.conclusion or (not history.drained and as_ordered(history)):
            return
        history.move()
    promise(not history.drained, "those who were to leave go on")
    raise PromiseBroken(
        f"{history.ordered} without {set(mind.unwanted)} was ordered, it is {mind.phase} with "
        f"{mind.members} and aims at {mind.width}: {mind.halted_why}"
    )


def as_ordered(history: History) -> bool:
    mind = history.mind
    there = mind.phase is Phase.STEADY and len(mind.members) == history.ordered
    return there and not set(mind.members) & mind.unwanted


def finish(history: History) -> None:
    """The job ends, with every step made once by all who hold the last."""
    history.total = max((a.step for a in history.actors.values()), default=0) + 2
    for _ in range(MOST_MOVES):
        if history.conclusion is not None:
            break
        history.move()
    end = history.conclusion
    promise(end is not None, f"no progress: {history.mind.phase}")
    assert end is not None
    expected = Outcome.DRAINED if history.drained else Outcome.FINISHED
    promise(end.outcome in (expected, Outcome.FINISHED), f"it ended as {end}")
    promise(not history.in_peace or len(history.drained_at) < 2, "they left at different steps")
    left = [a for a in history.actors.values() if a.life == "left" and a.committed >= 0]
    for actor in left:
        promise(actor.applied == list(range(actor.step)), f"{actor.number} made {actor.applied}")
        promise(actor.weights == history._weights_after(actor.committed), "they have diverged")
    if end.outcome is Outcome.FINISHED:
        promise(any(a.step >= history.total for a in left), "nobody has come to the end")


def play_plans(seed: int) -> None:
    """Heads move while the job is on its way to other plans."""
    history = History(seed, 4, UNTIMELY)
    for _ in range(1200):
        if history.conclusion is not None:
            break
        history.move()
        chance = history.random.random()
        if chance < 0.008:
            plan, units = history.random.choice(PLANS), history.random.randint(1, 2)
            history.replan(plan, plan.unit * units)
        elif chance < 0.014:
            history.move_head()
    finish(history)
