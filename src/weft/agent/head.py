"""The agent of a job over several pods: it has the mind, and outposts are its hands elsewhere.

It runs in the pod of seat 0. Outposts find it through the operator, bring the places of their pods,
and start workers for it there; the workers themselves speak to the head. How wide the job is
follows from the places: it grows when pods come and shrinks when one is to go. Where the workers
cannot be resized, or too few would be left, a pod that goes takes the whole job along, drained.
"""

import asyncio
import time
from dataclasses import replace
from functools import partial

from weft.agent.actions import Conclude
from weft.agent.agent import Agent, Told, exit_code_of
from weft.agent.epochs import Phase
from weft.agent.meeting import Announcer, Head, address_of
from weft.agent.messages import (
    Answer,
    Beat,
    Exited,
    Keep,
    Kept,
    Message,
    Offer,
    Over,
    Resize,
    Started,
    Withdraw,
)
from weft.agent.muster import Muster
from weft.agent.outcome import DRAINED, INFRASTRUCTURE, Outcome
from weft.agent.outposts import Outposts
from weft.agent.output import Outlets
from weft.agent.places import HEAD_SEAT, Seat
from weft.agent.processes import Launch
from weft.agent.settings import MASTER_PORT, Pod, Settings
from weft.agent.writers import HERE, Writers


class HeadAgent(Agent):
    """A job from its first pod."""

    def __init__(
        self, settings: Settings, pod: Pod, tell: Told | None = None, outlets: Outlets | None = None
    ) -> None:
        self.pod = pod
        super().__init__(settings, tell, outlets)
        limits = settings.limits
        self.outposts = Outposts(limits)
        self.muster = Muster(settings.width, pod.least_gpus, pod.most_gpus, settings.shard, limits)
        self._announcer: Announcer | None = None

    async def _open(self) -> None:
        self._call_writers(asyncio.get_running_loop())
        await super()._open()
        if self.pod.destination is None:
            return
        port = await self.server.open_tcp(self.pod.host, 0)
        head = Head(address_of(self.pod.host, port), self.premises.token)
        self._announcer = Announcer(self.pod.destination, head)
        self._announcer.start()
        self.tell("listening", {"address": head.address})

    def _home(self, devices: tuple[int, ...]) -> Seat:
        return self._seat(HEAD_SEAT, self.pod.gpus)

    def _seat(self, number: int, gpus: int) -> Seat:
        return Seat(number, gpus, (0,) if self.once_per_seat else tuple(range(gpus)))

    # ------------------------------------------------------------------------ what is heard

    def outpost_said(self, seat: int, message: Message) -> None:
        """At the door: what an outpost has to tell."""
        now = time.monotonic()
        self.outposts.heard(seat, now)
        match message:
            case Offer(gpus, host):
                self._offered(seat, gpus, host, now)
            case Started(worker, pid) if worker in self.places.workers_on(seat):
                self.crew.has_started(worker, pid)
            case Exited(worker, code) if worker in self.places.workers_on(seat):
                self._process_ended(worker, code)
            case Withdraw(grace_seconds):
                self._withdrawn(seat, grace_seconds)
            case Kept() if self.keeper.writers is not None:
                self.keeper.writers.told(seat, message)

    def _offered(self, seat: int, gpus: int, host: str, now: float) -> None:
        if seat == HEAD_SEAT or gpus < 1 or self._ending_already():
            self._send_home(seat, Over(INFRASTRUCTURE, "this seat is not wanted"))
            return
        self.tell("joined", {"seat": seat, "gpus": gpus, "host": host})
        self.outposts.hosts[seat] = host
        self.crew.open(self._seat(seat, gpus))
        self.muster.came(now)

    def _ending_already(self) -> bool:
        mind = self.coordinator
        return mind.draining or mind.finished or mind.phase is Phase.ENDED

    def _withdrawn(self, seat: int, grace_seconds: float) -> None:
        """The seat is to be given back: its workers leave, or all do."""
        self.tell("withdrawn", {"seat": seat})
        self.outposts.leaving.add(seat)
        self.places.withdraw(seat)
        if self.started:
            self._do_without(grace_seconds)
        self._let_go()

    def outpost_silent(self, seat: int) -> None:
        """It is gone, or as good as gone: with it all that ran there."""
        self.places.withdraw(seat)
        if not self.outposts.forget(seat):
            return
        self.tell("lost", {"seat": seat})
        if self.keeper.writers is not None:
            self.keeper.writers.lost(seat)
        for worker in self.places.workers_on(seat):
            self.server.cut(worker)
        self.crew.lose(seat)
        if self.started:
            self._do_without(self.settings.grace_seconds)

    def _do_without(self, grace_seconds: float) -> None:
        """Go on with the places that are left, if that is enough."""
        mind = self.coordinator
        if self._ending_already():
            return
        unwanted = self.places.unwanted
        if not self.muster.enough(self.places.gpus) or not mind.can_spare(unwanted):
            self._drain(grace_seconds)
            return
        self._carry_out(mind.resize(self._width(), time.monotonic(), unwanted))

    def _ended(self, worker: int, code: int) -> None:
        super()._ended(worker, code)
        self._let_go()

    def _let_go(self) -> None:
        """Outposts that are leaving and have nobody left."""
        for seat in list(self.outposts.leaving):
            if not self.places.workers_on(seat) and not self.keeper.needs(seat):
                self.outposts.forget(seat)
                self._send_home(seat, Over(DRAINED, "its workers have left"))

    def _send_home(self, seat: int, over: Over) -> None:
        self.server.order(seat, over)
        self.server.dismiss(seat)
        self.outposts.forget(seat)

    def _resize(self, order: Resize, now: float) -> Answer:
        return Answer(ok=False, body={"why": "the width of this job follows its pods"})

    # ---------------------------------------------------------------------------------- time

    def _pass_time(self, now: float) -> None:
        self._stay_in_touch(now)
        self._let_go()
        if self.keeper.take_missed() and self.started and not self._ending_already():
            self._carry_out(self.coordinator.save(now))
        if self.started and self.muster.settled(now) and not self._ending_already():
            self._grow(now)
        super()._pass_time(now)

    def _stay_in_touch(self, now: float) -> None:
        for seat in self.outposts.to_beat(now):
            self.server.order(seat, Beat())
        for seat in self.outposts.silent(now):
            self.server.dismiss(seat)
            self.outpost_silent(seat)

    def _grow(self, now: float) -> None:
        width = self._width()
        if width != self.coordinator.width:
            self.tell("ordered", {"width": width})
            self._carry_out(self.coordinator.resize(width, now, self.places.unwanted))

    def _may_start(self, now: float) -> bool:
        return self.muster.may_start(self.places.gpus, now)

    def _width(self) -> int:
        if self.once_per_seat:
            return len(self.places.seats)
        return self.muster.width(self.places.gpus)

    # ----------------------------------------------------------------------------- snapshots

    def _seat_of(self, worker: int) -> int:
        place = self.places.of(worker)
        return HERE if place is None or place.seat == self.pod.seat else place.seat

    def _look_at_what_is_saved(self) -> None:
        """With workers elsewhere, only what they can read is where they begin again."""
        super()._look_at_what_is_saved()
        mind = self.coordinator
        mind.near = frozenset(self.places.workers_on(HEAD_SEAT))
        if not self.outposts.hosts or (self.settings.checkpoints is None and mind.unit == 1):
            mind.holding = False
            return
        mind.source, mind.saved_step = self.keeper.durable()
        mind.holding, mind.near = self.keeper.busy, None

    def _sweep(self) -> None:
        self.keeper.running = self.crew.running
        super()._sweep()

    def _call_writers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those of other pods write too, where all share a vault."""
        vault = self.settings.shared_vault

        def order(seat: int, keep: Keep) -> None:
            loop.call_soon_threadsafe(self._order_writing, seat, keep)

        if vault is not None:
            self.keeper.writers = Writers(vault, order, self.settings.limits.write_seconds)

    def _order_writing(self, seat: int, keep: Keep) -> None:
        if seat in self.outposts.hosts:
            self.server.order(seat, keep)
        elif self.keeper.writers is not None:
            self.keeper.writers.lost(seat)

    # ----------------------------------------------------------------------------------- end

    async def _clear_up(self, conclusion: Conclude) -> None:
        if self._announcer is not None:
            self._announcer.close()
        await self._finish_writing(failed=conclusion.outcome is Outcome.USER_ERROR)
        code = exit_code_of(conclusion)
        for seat in list(self.outposts.hosts):
            self.server.order(seat, Over(code, conclusion.why))
        await super()._clear_up(conclusion)

    async def _finish_writing(self, *, failed: bool) -> None:
        """The other pods are needed until what they hold is on the disk."""
        writing = asyncio.create_task(asyncio.to_thread(partial(self.keeper.close, failed=failed)))
        while not writing.done():
            self._stay_in_touch(time.monotonic())
            await asyncio.wait((writing,), timeout=self.settings.limits.beat_seconds)
        writing.result()

    def _launch(self) -> Launch:
        launch = super()._launch()
        gpus = self.pod.gpus if self.once_per_seat else None
        return replace(
            launch,
            host=self.pod.host,
            master_host=self.pod.host,
            master_port=MASTER_PORT,
            gpus=gpus,
            writer=self.settings.shared_vault is not None,
        )
