"""A trial of a gang: a job that the operator makes itself, for the first minutes of a program.

Its object is made when the brain has found a seat for it, and not before: most gangs get their own
seats soon. From then on it is a job like any other, but that it has passed when it has lasted long
enough, that what only a gang can die of is no failure, and that one which was called off leaves
nothing behind. An operator that begins anew calls off those that it has not made itself.
"""

from collections.abc import Callable
from dataclasses import replace

from weft.brain.event import Event, InstructionRefused, JobFailed, JobFinished, Verb
from weft.kube.operator.reconcile.step import CreateTrial, DeleteJob, Look, Step
from weft.kube.operator.reconcile.termination import fenced
from weft.kube.operator.reconcile.workers import to_delete
from weft.model.state import State
from weft.reconcile.trial import shows

WAITING = (State.QUEUED, State.ADMITTED)


def step_of_trial(look: Look, usual: Callable[[Look], Step]) -> Step:
    """What is to be done about it, where that is another thing than for any job."""
    step = None
    if look.job is None:
        step = None if look.unreadable else _without_object(look)
    elif _is_called_off(look):
        step = look.actions(DeleteJob())
    elif look.belief.state is State.RUNNING:
        return _run(look, usual)
    return _judged(usual(look)) if step is None else step


def _without_object(look: Look) -> Step | None:
    """None where it had one, which somebody has taken away."""
    state, epoch = look.belief.state, look.belief.epoch
    if look.live or look.belief.cancelling:
        return None
    if state in WAITING:
        return look.waiting()
    if state is not State.STARTING or look.gang is None or look.gang.spec is None:
        return None
    refusal = look.note.refusal
    if refusal is not None and refusal[0] == epoch:
        return Step(events=(InstructionRefused(look.now, look.id, epoch, Verb.START, refusal[2]),))
    return look.actions(CreateTrial(look.gang))


def _is_called_off(look: Look) -> bool:
    job, state = look.job, look.belief.state
    over = state is None or state.final
    return over and job is not None and job.state == "Cancelled" and not (job.deleting or look.live)


def _run(look: Look, usual: Callable[[Look], Step]) -> Step:
    since = look.now if look.note.tried_since is None else look.note.tried_since
    look = replace(look, note=replace(look.note, tried_since=since))
    until = since + look.rules.trial_seconds
    if look.now >= until:
        return _pass(look)
    step = _judged(usual(look))
    if step.events:
        return step
    return replace(step, look_at=until if step.look_at is None else min(step.look_at, until))


def _pass(look: Look) -> Step:
    """It has lasted long enough: nothing of it is left when the brain hears so."""
    if (leaving := to_delete(look.live)) is not None:
        return look.actions(leaving)
    if look.live:
        return fenced(look, look.live)
    return look.events(JobFinished(look.now, look.id, look.belief.epoch))


def _judged(step: Step) -> Step:
    return replace(step, events=tuple(map(_meant, step.events)))


def _meant(event: Event) -> Event:
    """A program may need the others: what it dies of alone shows nothing then."""
    if isinstance(event, JobFailed) and not shows(event.diagnosis):
        return JobFinished(event.at, event.job, event.epoch)
    return event
