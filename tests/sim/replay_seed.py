"""`python -m tests.sim.replay_seed SEED`: play one seed and show how it broke.

Prints the plan, the last events with the instructions they led to, the state of every job, what
runs, and the broken promise. With `--job ID` only what concerns that job.
"""

import argparse
import sys
import traceback
from collections import deque

from tests.sim.play import finish
from tests.sim.random_world import RandomWorld, draw
from weft.brain.event import Event
from weft.brain.instruction import Instruction, Wake


class Watched(RandomWorld):
    """A world that remembers its last events."""

    def watch(self, last: int) -> None:
        self.log: deque[tuple[Event, list[Instruction]]] = deque(maxlen=last)

    def _deliver(self, event: Event) -> None:
        brain = self.brain
        self.log.append((event, []))
        try:
            super()._deliver(event)
        finally:
            self.log[-1] = (event, list(brain.outbox.instructions))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.replay_seed", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--last", type=int, default=30, help="events to show")
    parser.add_argument("--job", help="show only events about this job")
    asked = parser.parse_args(arguments)
    world = Watched(draw(asked.seed))
    world.watch(asked.last if asked.job is None else 1_000_000)
    say(world.plan)
    try:
        played = finish(world)
    except Exception as broken:
        show(world, asked.job, asked.last)
        say("".join(traceback.format_exception(broken, limit=-3)))
        return 1
    say(f"kept every promise over {played.events} events; journal {played.digest}")
    return 0


def show(world: Watched, job: str | None, last: int) -> None:
    lines = [
        f"{event.at:10.3f}  {event}" + "".join(f"\n{'':14}-> {i}" for i in out)
        for event, told in world.log
        for out in ([i for i in told if not isinstance(i, Wake)],)
        if job is None or f"'{job}'" in f"{event} {out}"
    ]
    say("\n".join(lines[-last:]))
    state = world.brain.state
    for name, slot in state.slot_of.items():
        if job in (None, name):
            jobs = state.jobs
            say(
                f"{name}: {state.state_of(slot).name} epoch {jobs.epoch[slot]} width "
                f"{jobs.width[slot]} work {jobs.work_done[slot]:.1f}, spec {state.spec(slot)}"
            )
    for run in world.running():
        seats = ", ".join(f"{seat.gpus} on {seat.node}" for seat in run.placement.seats)
        say(f"runs: {run.job.id} epoch {run.epoch} {run.phase} {seats} broken={run.broken}")
    say(f"nodes: {', '.join(f'{n.id}={n.gpus}' for n in world.nodes.values())}; at {world.now}")


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
