"""What is learnt of jobs whose plans are chosen: how far their steps are off what was foretold."""

import numpy as np

from weft.brain.event import JobMeasured
from weft.brain.state.brain_state import BrainState
from weft.brain.state.menubook import listed
from weft.brain.state.plan_book import cores_of, step_seconds, units_per_second, where
from weft.model.request import Width
from weft.model.state import State
from weft.perf.plans.options import PlanOptions


def begin(state: BrainState, slot: int) -> None:
    """Its menu is the best plan of each width, or the submitted one where none is chosen."""
    spec = state.spec(slot)
    found = state.plan_book.options(slot, spec)
    if found is None:
        return
    if state.plan_book.chooses:
        gpus, speeds = _rows(spec.width.max_gpus, found)
    else:
        gpus, speeds = _rows_as_submitted(spec.width, found)
    likely = np.array([units_per_second(spec, found, seconds) for seconds in speeds[0]])
    low = np.array([units_per_second(spec, found, seconds) for seconds in speeds[1]])
    menu = int(state.jobs.menu[slot])
    state.jobs.menu[slot] = state.menus.learnt(menu, gpus, likely, low, likely)
    state.jobs.scale[slot] = 1.0
    asked = found.as_asked().seconds
    state.jobs.pace[slot] = units_per_second(spec, found, asked)


def hear(state: BrainState, slot: int, event: JobMeasured) -> bool:
    """A window of steps under the plan that it runs with; whether that is news for a choice."""
    spec = state.spec(slot)
    found = state.plan_book.options(slot, spec)
    held = state.seating.assignments[slot]
    if found is None or held is None or event.epoch != state.jobs.epoch[slot]:
        return False
    if state.state_of(slot) is not State.RUNNING or not event.units_per_second > 0.0:
        return False
    if event.gpus != held.width:  # of before a change, and told after it
        return False
    seconds = step_seconds(spec, found, event.units_per_second)
    foretold = found.step(held.plan, where(held.placement), cores_of(held.placement))
    steps = int(event.seconds / seconds)
    return state.plan_book.learn(slot, spec, foretold, seconds, steps)


def _rows_as_submitted(
    width: Width, found: PlanOptions
) -> tuple[list[int], tuple[list[float], list[float]]]:
    """GPUs from 0 and the seconds of the submitted plan there: infinite where it does not run."""
    submitted, gpus = found.submitted(), listed(width)
    steps = [submitted.get(count) for count in gpus]
    likely = [np.inf if step is None else step.seconds for step in steps]
    slow = [np.inf if step is None else step.slow_seconds for step in steps]
    return list(gpus), (likely, slow)


def _rows(widest: int, found: PlanOptions) -> tuple[list[int], tuple[list[float], list[float]]]:
    """GPUs from 0 and the seconds of the best plan up to each; nothing runs in no time."""
    gpus, likely, slow = [0], [np.inf], [np.inf]
    for one in found.useful:
        if one.allocation.gpus == gpus[-1]:
            del gpus[-1], likely[-1], slow[-1]
        gpus.append(one.allocation.gpus)
        likely.append(one.seconds)
        slow.append(one.slow_seconds)
    if gpus[-1] < widest:
        gpus.append(widest)
        likely.append(likely[-1])
        slow.append(slow[-1])
    return gpus, (likely, slow)
