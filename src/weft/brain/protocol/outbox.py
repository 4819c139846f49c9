"""What the brain says during one event, and what it waits to hear about it.

An instruction that nobody answers is looked after: its job is probed when the time for an answer
is up. Where the world needs that, so is a job that runs and says nothing for long.
"""

from weft.brain.context import Context
from weft.brain.instruction import Instruction, Probe, Wake


class Outbox:
    """The instructions of the event at hand, and the deadlines of jobs, by slot."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.instructions: list[Instruction] = []
        self.unanswered: dict[int, float] = {}
        self.silent: dict[int, float] = {}
        self.wake_at: float | None = None
        self._asked: dict[int, float] = {}

    def empty(self) -> None:
        """Another event begins; what was said belongs to whoever was given it."""
        self.instructions = []

    def say(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)

    def ask(self, slot: int, instruction: Instruction) -> None:
        """Say it, and look after the answer."""
        self.say(instruction)
        self.expect_answer(slot)

    def ask_to_start_or_stop(self, slot: int, instruction: Instruction) -> None:
        """The same, and how long the world takes over it is measured."""
        self._asked[slot] = self._context.now
        self.ask(slot, instruction)

    def taken_seconds(self, slot: int) -> float:
        """Since the job was told to start or to stop."""
        return self._context.now - self._asked.get(slot, self._context.now)

    def expect_answer(self, slot: int) -> None:
        self.forget(slot)
        self.unanswered[slot] = self._context.now + self._context.settings.answer_seconds

    def listen(self, slot: int) -> None:
        """It runs. While a feeding is out an answer is due; else silence may be probed."""
        silence_seconds = self._context.settings.silence_seconds
        if slot in self._context.state.seating.feeding:
            self.expect_answer(slot)
            return
        self.forget(slot)
        if silence_seconds is not None:
            self.silent[slot] = self._context.now + silence_seconds

    def forget(self, slot: int) -> None:
        """Nothing is to be heard of it."""
        self.unanswered.pop(slot, None)
        self.silent.pop(slot, None)

    def forget_for_good(self, slot: int) -> None:
        """The job is over; its row may be another one's."""
        self.forget(slot)
        self._asked.pop(slot, None)

    def probe(self, slot: int) -> None:
        state = self._context.state
        self.ask(slot, Probe(state.spec(slot).id, int(state.jobs.epoch[slot])))

    def probe_silent(self) -> None:
        """Both lists are in order of their deadlines, because the clock only goes forward."""
        due = []
        for deadlines in (self.unanswered, self.silent):
            for slot, at in deadlines.items():
                if at > self._context.now:
                    break
                due.append(slot)
        for slot in due:
            self.probe(slot)

    def woken(self) -> None:
        """A tick has come; unless it came early, it is the one that was asked for."""
        if self.wake_at is not None and self._context.now >= self.wake_at:
            self.wake_at = None

    def ask_to_be_woken(self, *moments: float | None) -> None:
        """At the next of these moments or the next deadline, unless that was asked for before."""
        times = [at for at in moments if at is not None]
        for deadlines in (self.unanswered, self.silent):
            if deadlines:
                times.append(next(iter(deadlines.values())))
        if not times:
            return
        at = max(min(times), self._context.now)
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at
            self.say(Wake(at))

    def copied(self, context: Context) -> "Outbox":
        """The same deadlines; what was said is not said twice."""
        twin = Outbox(context)
        twin.unanswered, twin.silent = dict(self.unanswered), dict(self.silent)
        twin._asked, twin.wake_at = dict(self._asked), self.wake_at
        return twin
