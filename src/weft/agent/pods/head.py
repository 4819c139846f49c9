"""The agent of a job over several pods: it decides, and followers start workers elsewhere.

It begins in the pod of seat 0. Followers find it through the operator, bring the places of their
pods, and start workers for it there; the workers themselves speak to the head. How wide the job is
follows from the places: it grows when pods come and shrinks when one is to go. Where the workers
cannot be resized, or too few would be left, a pod that goes takes the whole job along, drained.

Headship moves like any other role. A head whose pod is to go lets its own workers leave, then has
an heir lead, and ends. If it is lost, an heir leads when it has noticed. Either way the operator
says who leads: whoever does so afterwards is expected by a
`weft.agent.coordination.heirs.Succession` first, and a head that is told otherwise ends without
another decision.
"""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from signal import SIGKILL, SIGTERM, Signals
from typing import Final

from weft.agent.agent import Agent, Told, exit_code_of
from weft.agent.checkpoint.seat_writers import HERE, Writers
from weft.agent.coordination.actions import Action, Conclude, Spawn
from weft.agent.coordination.epochs import Phase
from weft.agent.coordination.heirs import Succession
from weft.agent.messages import (
    Answer,
    Beat,
    Brought,
    Exited,
    Hello,
    Here,
    Keep,
    Kept,
    Kill,
    Led,
    Message,
    Offer,
    Over,
    Resize,
    Started,
    Withdraw,
)
from weft.agent.outcome import DRAINED, INFRASTRUCTURE, Outcome
from weft.agent.plan import Plan
from weft.agent.pods.discovery import Head, address_of
from weft.agent.pods.followers import Followers
from weft.agent.pods.head_role import HeadRole
from weft.agent.pods.mandate import Mandate
from weft.agent.pods.plan_orders import PlanOrders
from weft.agent.pods.rendezvous import Rendezvous
from weft.agent.pods.stepping_down import SteppingDown
from weft.agent.run_folder import RunFolder
from weft.agent.settings import MASTER_PORT, Pod, Settings
from weft.agent.workers.output import Outlets
from weft.agent.workers.places import Seat
from weft.agent.workers.processes import Launch, Processes

INFRASTRUCTURE_FAILED: Final = (Outcome.INFRASTRUCTURE, INFRASTRUCTURE)
LINE_SECONDS: Final = 2.0  # for a worker to speak again, or to be known as ended


class HeadAgent(Agent):
    """A job from the pod that leads it."""

    def __init__(
        self,
        settings: Settings,
        pod: Pod,
        tell: Told | None = None,
        outlets: Outlets | None = None,
        mandate: Mandate | None = None,
    ) -> None:
        self.pod, self.mandate = pod, mandate
        settings = replace(settings, split=mandate.plan) if mandate else settings
        super().__init__(settings, tell, outlets)
        limits = settings.limits
        self.followers = Followers(limits)
        self.rendezvous = Rendezvous(
            settings.width, pod.least_gpus, pod.most_gpus, settings.plan.unit, limits
        )
        self.succession = self._succession(mandate) if mandate else None
        self.role = HeadRole(self, mandate)
        self.orders = PlanOrders(self, mandate)
        self._resuming = False
        self.has_moved = False  # whether another leads now, and whoever is here shall find it
        self._stepping_down = SteppingDown(self)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def home(self) -> int:
        return self.pod.seat

    def _run_folder(self) -> RunFolder:
        return self.mandate.run_folder if self.mandate else super()._run_folder()

    def _processes(self, outlets: Outlets | None) -> Processes:
        if self.mandate is None:
            return super()._processes(outlets)
        processes = self.mandate.processes
        processes.serve(self._launch(), self._process_ended, self._local_started)
        return processes

    def _move_in(self) -> None:
        if self.mandate is None:
            super()._move_in()

    async def _open(self) -> None:
        self._call_writers(asyncio.get_running_loop())
        if self.mandate is not None:
            await self._take_over(self.mandate)
            return
        await super()._open()
        if self.pod.destination is None:
            return
        port = await self.server.open_tcp(self.pod.host, 0)
        self.role.announce(Head(address_of(self.pod.host, port), self.run_folder.token))

    def _home(self, devices: tuple[int, ...]) -> Seat:
        return self._seat(self.home, self.pod.gpus)

    def _seat(self, number: int, gpus: int) -> Seat:
        return Seat(number, gpus, (0,) if self.once_per_seat else tuple(range(gpus)))

    # ----------------------------------------------------------------------------- succession

    def _succession(self, mandate: Mandate) -> Succession:
        limits, now = self.settings.limits, time.monotonic()
        patience = limits.gather_seconds if mandate.owed else limits.beatless_seconds
        return Succession(
            mandate.head.term,
            mandate.expected,
            now + patience,
            mandate.members,
            mandate.owed,
            mandate.next_worker,
            mandate.turning,
        )

    async def _take_over(self, mandate: Mandate) -> None:
        """Workers and followers come by themselves; what is saved is looked at meanwhile."""
        assert self.succession is not None
        self._resuming = True
        await self.server.open(self.run_folder.socket)
        await self.server.open_on(mandate.listening)
        self._furnish()
        self.progress.reporter.start()
        for number, brought in mandate.brought.items():
            self.succession.brought[number] = self.home, brought
            if number not in self.processes.running:
                self.succession.ended[number] = mandate.ended.get(number, -SIGKILL)
        self.role.announce(mandate.head)
        self.keep(self._resume())
        if mandate.terminated:
            self._terminate()

    async def _resume(self) -> None:
        await asyncio.to_thread(self.writer.resume)
        self._resuming = False

    def _lead(self, succession: Succession, now: float) -> None:
        """All who come have come: from here on it is as if they had been here always."""
        self.succession = None
        for number, (seat, brought) in succession.brought.items():
            self.crew.inherit(number, seat, brought.index, brought.pid, self.settings.plan)
        found = succession.inherited(now)
        missing = sorted(self.role.ever_heirs - succession.came)
        facts = {"term": succession.term, "members": found.members, "intact": found.intact}
        self.tell("leads", {**facts, "missing": missing})
        if not found.members:
            why = "no worker is left that has the job's state"
            self._carry_out([Conclude(Outcome.INFRASTRUCTURE, INFRASTRUCTURE, why)])
            return
        for seat in missing:
            self.role.ask_whether_it_leads(seat)
        self._carry_out(self.coordinator.inherit(found, self._width(), now))
        for number, message in succession.said:
            self.worker_said(number, message)
        for number, code in succession.ended.items():
            self._process_ended(number, code)

    def worker_said(self, worker: int, message: Message) -> None:
        """From the server; before it leads, a head only takes note."""
        if self.succession is None:
            super().worker_said(worker, message)
        elif isinstance(message, Here):
            self.succession.here[worker] = message
            self.succession.said = [
                (one, said)
                for one, said in self.succession.said
                if one != worker or not isinstance(said, Hello)
            ]
        else:
            self.succession.said.append((worker, message))

    def worker_silent(self, worker: int) -> None:
        """It may have lost its line and nothing else; but then nobody would hear of it."""
        super().worker_silent(worker)
        asyncio.get_running_loop().call_later(LINE_SECONDS, self._end_the_mute, worker)

    def _end_the_mute(self, worker: int) -> None:
        if self.succession is None and not self.has_moved and not self.server.hears(worker):
            self.crew.signal(worker, SIGKILL)

    def _process_ended(self, worker: int, code: int) -> None:
        if self.succession is not None:
            self.succession.ended[worker] = code
        else:
            super()._process_ended(worker, code)

    # ------------------------------------------------------------------------------ who leads

    def depose(self, why: str) -> None:
        """Another head leads: nothing that is decided here counts any more.

        One that is asked to leave wants just that, and may hear of it here first.
        """
        left = self._terminated
        outcome, code = (Outcome.DRAINED, DRAINED) if left else INFRASTRUCTURE_FAILED
        self.go(Conclude(outcome, code, f"another seat leads: {why}"))

    def go(self, conclusion: Conclude) -> None:
        """End, and leave everything to the head that leads."""
        self.has_moved = True
        self.server.leave()
        self._act(conclusion)

    def _act(self, action: Action) -> None:
        super()._act(action)
        if isinstance(action, Spawn):  # whoever leads next must not use its number again
            self.role.tell_heirs()

    # ------------------------------------------------------------------------------ it leaves

    def _terminate(self, number: Signals = SIGTERM) -> None:
        """The first time another is to lead, where one can; else all leave."""
        if self._terminated or number != SIGTERM or not self._stepping_down.is_possible:
            super()._terminate(number)
            return
        self._terminated = True
        grace = self.settings.grace_seconds
        self.tell("leaving", {"grace_seconds": grace})
        self.keep(self._stepping_down.run(time.monotonic(), grace))

    def leave_home(self) -> bool:
        """Let its own workers go, as from any other seat; whether the others are enough."""
        self.places.withdraw(self.home)
        if not self._can_do_without():
            return False
        self.approach(self._width())
        return True

    def drain(self, grace_seconds: float) -> None:
        """All of the job."""
        self._drain(grace_seconds)

    def keep(self, work: Coroutine[None, None, None]) -> None:
        """A task is only kept alive by whoever holds it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------------ what is heard

    def follower_said(self, seat: int, message: Message) -> None:
        """From the server: what a follower has to tell."""
        now = time.monotonic()
        self.followers.heard(seat, now)
        match message:
            case Offer(gpus, host):
                self._offered(seat, gpus, host, now)
            case Brought():
                self._brought(seat, message)
            case Led(ok):
                self._stepping_down.heir_said(seat, ok)
            case Exited(worker, code) if self.succession and worker in self.succession.brought:
                self.succession.ended[worker] = code
            case Started(worker, pid) if worker in self.places.workers_on(seat):
                self.crew.has_started(worker, pid)
            case Exited(worker, code) if worker in self.places.workers_on(seat):
                self._process_ended(worker, code)
            case Withdraw(grace_seconds):
                self._withdrawn(seat, grace_seconds)
            case Kept() if self.writer.writers is not None:
                self.writer.writers.told(seat, message)

    def _offered(self, seat: int, gpus: int, host: str, now: float) -> None:
        if seat == self.home or gpus < 1 or self.is_ending:
            self._send_home(seat, Over(INFRASTRUCTURE, "this seat is not wanted"))
            return
        self.tell("joined", {"seat": seat, "gpus": gpus, "host": host})
        self.followers.hosts[seat] = host
        self.crew.open(self._seat(seat, gpus))
        self.rendezvous.came(now)
        self.role.tell_all_again()
        if self.succession is not None:
            self.succession.came.add(seat)

    def _brought(self, seat: int, brought: Brought) -> None:
        """A worker of an earlier head; one that comes too late has been done without."""
        if self.succession is not None:
            self.succession.brought[brought.worker] = seat, brought
        else:
            self.server.order(seat, Kill(brought.worker, SIGKILL))

    @property
    def is_ending(self) -> bool:
        """Whether nobody is begun any more."""
        mind = self.coordinator
        return mind.draining or mind.finished or mind.phase is Phase.ENDED

    def _withdrawn(self, seat: int, grace_seconds: float) -> None:
        """The seat is to be given back: its workers leave, or all do."""
        self.tell("withdrawn", {"seat": seat})
        self.orders.call_off(f"seat {seat} is given back")
        self.followers.leaving.add(seat)
        self.places.withdraw(seat)
        if self.started:
            self._do_without(grace_seconds)
        self._let_go()

    def follower_silent(self, seat: int) -> None:
        """It is gone, or as good as gone: with it all that ran there.

        If it may have come to lead, its workers are not sent away: they find it.
        """
        self.places.withdraw(seat)
        if self.writer.writers is not None:
            self.writer.writers.lost(seat)
        if not self.followers.forget(seat) or self.has_moved:
            return
        self.tell("lost", {"seat": seat})
        self.orders.call_off(f"seat {seat} was lost")
        self._stepping_down.heir_said(seat, False)
        if self.succession is not None:
            self.succession.left(seat)
            return
        may_lead = seat in self.role.ever_heirs and not self.is_ending
        if may_lead:
            self.role.ask_whether_it_leads(seat)
        for worker in self.places.workers_on(seat):
            self.server.cut(worker, sent_away=not may_lead)
        self.crew.lose(seat)
        if self.started:
            self._do_without(self.settings.grace_seconds)

    def _do_without(self, grace_seconds: float) -> None:
        """Go on with the places that are left, if that is enough."""
        if not self.is_ending and self._can_do_without():
            self.approach(self._width())
        elif not self.is_ending:
            self._drain(grace_seconds)

    def _can_do_without(self) -> bool:
        """Whether the places that are left are enough, and hold the job's state."""
        spared = self.coordinator.can_spare(self.places.unwanted)
        return spared and self.rendezvous.enough(self.places.gpus)

    def approach(self, width: int, plan: Plan | None = None) -> None:
        """So many workers on the places that there are, under that plan if it is another one."""
        mind, now = self.coordinator, time.monotonic()
        self._carry_out(mind.resize(width, now, self.places.unwanted, plan))

    def _ended(self, worker: int, code: int) -> None:
        super()._ended(worker, code)
        self._let_go()

    def _let_go(self) -> None:
        """Followers that are leaving and have nobody left."""
        for seat in list(self.followers.leaving):
            if not self.places.workers_on(seat) and not self.writer.needs(seat):
                self.followers.forget(seat)
                self._send_home(seat, Over(DRAINED, "its workers have left"))

    def _send_home(self, seat: int, over: Over) -> None:
        self.server.order(seat, over)
        self.server.dismiss(seat)
        self.followers.forget(seat)

    def _resize(self, order: Resize, now: float) -> Answer:
        return Answer(ok=False, body={"why": "the width of this job follows its pods"})

    # ---------------------------------------------------------------------------------- time

    def _pass_time(self, now: float) -> None:
        self._stay_in_touch(now)
        if self.succession is not None:
            if self.succession.complete(now):
                self._lead(self.succession, now)
            return
        self.role.tell_heirs()
        heirs = ((self.followers.last_heard(seat), seat) for seat in self.role.ever_heirs)
        self.coordinator.heard_from = {
            worker: heard for heard, seat in heirs for worker in self.places.workers_on(seat)
        }
        self._let_go()
        if self.started and not self.is_ending:
            if self.writer.take_missed():
                self._carry_out(self.coordinator.save(now))
            settled = self.rendezvous.settled(now)
            if not self.orders.follow() and settled:
                self._grow()
        super()._pass_time(now)

    def _stay_in_touch(self, now: float) -> None:
        for seat in self.followers.to_beat(now):
            self.server.order(seat, Beat())
        for seat in self.followers.silent(now):
            self.server.order(seat, Over(INFRASTRUCTURE, "it was silent for too long"))
            self.server.dismiss(seat)
            self.follower_silent(seat)

    def _grow(self) -> None:
        width = self._width()
        if width != self.coordinator.width:
            self.tell("ordered", {"width": width})
            self.approach(width)

    def _may_start(self, now: float) -> bool:
        return self.rendezvous.may_start(self.places.gpus, now)

    def _width(self) -> int:
        if self.once_per_seat:
            return len(self.places.seats)
        return self.rendezvous.width(self.places.gpus)

    # ----------------------------------------------------------------------------- snapshots

    def _seat_of(self, worker: int) -> int:
        place = self.places.of(worker)
        return HERE if place is None or place.seat == self.pod.seat else place.seat

    def _look_at_what_is_saved(self) -> None:
        """With workers elsewhere, only what they can read is where they begin again."""
        super()._look_at_what_is_saved()
        mind = self.coordinator
        mind.near = frozenset(self.places.workers_on(self.home))
        if not self.followers.hosts or (self.settings.checkpoints is None and mind.unit == 1):
            mind.holding = self._resuming
            return
        mind.source, mind.saved_step = self.writer.durable()
        mind.holding, mind.near = self.writer.busy or self._resuming, None

    def _sweep(self) -> None:
        self.writer.running = self.crew.running
        super()._sweep()

    def _call_writers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those of other pods write too, where all share a vault."""
        vault = self.settings.shared_vault

        def order(seat: int, keep: Keep) -> None:
            loop.call_soon_threadsafe(self._order_writing, seat, keep)

        if vault is not None:
            self.writer.writers = Writers(vault, order, self.settings.limits.write_seconds)

    def _order_writing(self, seat: int, keep: Keep) -> None:
        if seat in self.followers.hosts:
            self.server.order(seat, keep)
        elif self.writer.writers is not None:
            self.writer.writers.lost(seat)

    # ----------------------------------------------------------------------------------- end

    async def _clear_up(self, conclusion: Conclude) -> None:
        self.role.close()
        for task in self._tasks:
            task.cancel()
        if self.has_moved and self.writer.writers is not None:
            self.writer.writers.give_up("another seat leads")
        await self._finish_writing(failed=conclusion.outcome is Outcome.USER_ERROR)
        code = exit_code_of(conclusion)
        for seat in list(self.followers.hosts) if not self.has_moved else ():
            self.server.order(seat, Over(code, conclusion.why))
        await super()._clear_up(conclusion)

    async def _finish_writing(self, *, failed: bool) -> None:
        """The other pods are needed until what they hold is on the disk."""
        writing = asyncio.create_task(asyncio.to_thread(partial(self.writer.close, failed=failed)))
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
            head_file=self.run_folder.head if self.pod.destination else None,
            writer=self.settings.shared_vault is not None,
        )
