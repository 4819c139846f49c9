"""`brain.handle(event) -> instructions`: the one door into the brain.

Events change the state along the lifecycle's edges; rounds run on ticks that the brain asked for,
so that all events of one instant are seen before anything is decided. Instructions in flight
that nobody answers are probed, and the world's answer is taken as the truth: a lost, repeated or
late message costs time and nothing else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.brain import door
from weft.brain.context import Context
from weft.brain.event import (
    Event,
    HealthRecalled,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobMeasured,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeChecked,
    NodeLost,
    PastRecalled,
    PlansOffered,
    QueueChanged,
    ServiceAsked,
    Tick,
    WorkerLost,
)
from weft.brain.explain import Survey
from weft.brain.instruction import Instruction
from weft.brain.learn.learning import Learning
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.answers import Answers
from weft.brain.protocol.care import Care
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.feeding import Feeding
from weft.brain.protocol.holding import Holding
from weft.brain.protocol.jobs import Jobs
from weft.brain.protocol.node_events import Nodes
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.protocol.reports import Reports
from weft.brain.protocol.resize import Resizes
from weft.brain.protocol.rounds import Rounds
from weft.brain.protocol.trials import Trials
from weft.brain.settings import Settings
from weft.brain.state.brain_state import BrainState
from weft.model.decision import Decision
from weft.model.errors import BrokenOff
from weft.model.ids import JobId
from weft.model.queue import QueueTree
from weft.model.reason import Reason
from weft.policy.recipe import Recipe

__all__ = ["Brain", "Settings"]

Handler = Callable[[Any], None]


class Brain:
    """Decides for one cluster. Owns no clock, no file, no chance."""

    def __init__(
        self, recipe: Recipe, *, tree: QueueTree | None = None, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        recipe = _among(recipe, mixes_tenants=settings.mixes_tenants)
        context = Context(BrainState(tree or QueueTree()), recipe, settings)
        replays = recipe.yielding is not None and recipe.yielding.regrouping is not None
        context.state.turns.charges_all = replays
        context.state.plan_book.chooses = recipe.planning is not None
        self._wire(context, Pace(context), Outbox(context), Learning())
        self._broken_off: Event | None = None

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event in; what is to be done comes out.

        An event is taken in as a whole or not at all. What cannot be is refused at the door with
        `BadEvent`, and nothing has changed. Whatever else is raised is a defect of Weft and may
        leave the state in between; this brain then takes no further event (`BrokenOff`), and a
        new one is to be built from what the world reports.
        """
        if self._broken_off is not None:
            raise BrokenOff(
                f"{type(self._broken_off).__name__} at {self._broken_off.at} was not handled to "
                "its end",
                hint="build a new brain from what the world reports, and replay the journal",
            )
        door.check(event, self.state)
        handler = self._handlers[type(event)]
        self._broken_off = event
        self.context.now = max(self.context.now, event.at)
        self.outbox.empty()
        self._rounds.decision = None
        handler(event)
        moments = self.pace.due_at, self._care.due_at, self._holding.due_at
        self.outbox.ask_to_be_woken(*moments)
        self._broken_off = None
        return self.outbox.instructions

    @property
    def state(self) -> BrainState:
        return self.context.state

    @property
    def recipe(self) -> Recipe:
        return self.context.recipe

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def now(self) -> float:
        return self.context.now

    @property
    def decision(self) -> Decision | None:
        """What the last event decided; None if it was no round."""
        return self._rounds.decision

    @property
    def rounds(self) -> int:
        """How many there have been."""
        return self._rounds.count

    def round_is_due(self, at: float) -> bool:
        """Whether a tick at that time would run a round."""
        return self.pace.is_due(at)

    def explain(self, job: JobId) -> list[Reason]:
        """Why the job waits, most helpful first; empty if it does not wait."""
        return self.survey().reasons(job)

    def survey(self) -> Survey:
        """Why jobs wait, for many of them; it holds until the next event."""
        return Survey(self.state, self.now, self.recipe, next_round=self.pace.due_at)

    def copied(self) -> "Brain":
        """An independent brain in the same state, for forecasts."""
        twin = Brain(self.recipe, settings=self.settings)
        context = self.context.copied()
        twin._wire(
            context,
            self.pace.copied(context),
            self.outbox.copied(context),
            self.learning.copied(),
        )
        twin._broken_off = self._broken_off
        twin._rounds.count, twin._rounds.decision = self.rounds, self.decision
        return twin

    def _wire(self, context: Context, pace: Pace, outbox: Outbox, learning: Learning) -> None:
        """Who knows whom. What remembers something comes in; the rest is made here."""
        self.context, self.pace, self.outbox, self.learning = context, pace, outbox, learning
        dispatch = Dispatch(context, outbox, pace=pace)
        admission = Admission(context, outbox, pace=pace, dispatch=dispatch, learning=learning)
        resizes = Resizes(context, outbox, pace=pace, dispatch=dispatch, admission=admission)
        feeding = Feeding(context, outbox, pace=pace, admission=admission)
        self._holding = holding = Holding(context, pace)
        nodes = Nodes(
            context,
            pace=pace,
            dispatch=dispatch,
            admission=admission,
            resizes=resizes,
            holding=holding,
        )
        self._care = care = Care(context, outbox, pace=pace, nodes=nodes, admission=admission)
        jobs = Jobs(
            context,
            pace=pace,
            dispatch=dispatch,
            admission=admission,
            learning=learning,
            care=care,
            holding=holding,
        )
        self._trials = trials = Trials(
            context, admission=admission, submit=jobs.submitted, cancel=jobs.cancelled
        )
        answers = Answers(
            context,
            outbox,
            dispatch=dispatch,
            admission=admission,
            resizes=resizes,
            feeding=feeding,
        )
        reports = Reports(
            context, outbox, dispatch=dispatch, resizes=resizes, feeding=feeding, nodes=nodes
        )
        self._rounds = Rounds(
            context,
            outbox,
            pace=pace,
            dispatch=dispatch,
            admission=admission,
            resizes=resizes,
            feeding=feeding,
        )
        self._handlers: dict[type, Handler] = {
            JobSubmitted: _both(jobs.submitted, trials.submitted),
            JobCancelled: jobs.cancelled,
            JobReported: reports.reported,
            PlansOffered: jobs.offered,
            JobMeasured: jobs.measured,
            JobFinished: _both(trials.finished, jobs.finished),
            JobFailed: _both(jobs.failed, trials.failed),
            JobForgotten: _both(trials.forgotten, jobs.forgotten),
            WorkerLost: jobs.worker_lost,
            NodeAdded: nodes.put,
            NodeChanged: nodes.put,
            NodeLost: nodes.lost,
            NodeChecked: care.checked,
            ServiceAsked: care.asked,
            HealthRecalled: care.recalled,
            PastRecalled: reports.recalled,
            QueueChanged: nodes.queue_changed,
            InstructionDone: answers.done,
            InstructionRefused: answers.refused,
            Tick: self._tick,
        }

    def _tick(self, tick: Tick) -> None:
        """What is asked of nodes and services may decide who can be started."""
        self._care.tick()
        self._holding.expire()
        self._rounds.tick(tick)
        if self._rounds.decision is not None:
            self._trials.look()


def _both(first: Handler, then: Handler) -> Handler:
    """Two parts hear of one event, in this order."""

    def handle(event: Any) -> None:  # noqa: ANN401 - each event has a handler of its own
        first(event)
        then(event)

    return handle


def _among(recipe: Recipe, *, mixes_tenants: bool) -> Recipe:
    """Where the world cannot let tenants meet, no recipe does."""
    if mixes_tenants or recipe.sharing is None:
        return recipe
    return replace(recipe, sharing=replace(recipe.sharing, mixes_tenants=False))
