"""Bidding: what each ranked job could run as, from what is foretold of its plans.

A job of which no shape is known has one option: what it asked for, as written.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from weft.brain.round.session import Session
from weft.brain.round.worth import restart_seconds
from weft.brain.state.plan_book import cores_of, units_per_second, where
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.request import JobRequest
from weft.model.state import State
from weft.perf.plans.laws import breaches
from weft.perf.plans.options import Foretold, PlanOptions, Where, scaled
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.planning import Planning, Scope
from weft.policy.recipe import Yielding

AT_ONCE = Yielding(min_run_seconds=0.0)
"""How long a job keeps its seats is for the planning to say; not that it keeps its work."""


class Bidding:
    """Bids of one round."""

    def __init__(self, session: Session, planning: Planning) -> None:
        self._session, self._planning = session, planning
        self._book = session.state.plan_book

    def bid(self, slot: int) -> Bid:
        session, spec = self._session, self._session.state.spec(slot)
        jobs, now, one = session.snapshot.jobs, session.now, np.array([slot])
        found, own = self._book.options(slot, spec), self._book.entry(slot)
        runs = jobs.state[slot] == State.RUNNING
        left = float(session.snapshot.remaining_work(one)[0])
        asked = self._asked(slot, spec, found)
        held = self._held(slot, spec, found) if runs else None
        return Bid(
            slot=slot,
            options=self._reachable(slot, tuple(self._options(slot, spec, found, asked))),
            held=held,
            asked_speed=asked.speed,
            work_done=float(session.snapshot.work_done(one)[0]),
            work_left=None if not left > 0.0 else left,
            promised=self._promised(spec, found),
            ran_seconds=now - float(jobs.started[slot]) if runs else 0.0,
            waited_seconds=now - float(jobs.queued_since[slot]),
            lost_seconds=own.lost_seconds,
            restarts=own.restarts,
            settled=found is None or own.watch.held,
            live=self._is_live(slot),
            change_seconds=self._change_seconds(slot, spec),
            priority=int(jobs.priority[slot]),
            yields=bool(jobs.yields[slot]),
            ripe=not runs or bool(session.may_go(one, AT_ONCE)[0]),
            queue=max(int(jobs.queue[slot]), 0),
            seq=int(jobs.seq[slot]),
        )

    def _is_live(self, slot: int) -> bool:
        """Whether it goes to another option while it trains."""
        jobs = self._session.snapshot.jobs
        return bool(jobs.live[slot]) and self._book.can_switch(slot, int(jobs.epoch[slot]))

    def _change_seconds(self, slot: int, spec: JobRequest) -> float | None:
        """Of one that is started anew by another command, also what it had not saved."""
        snapshot, planning = self._session.snapshot, self._planning
        if self._is_live(slot):
            return max(snapshot.resize_seconds, planning.least_switch_seconds)
        if spec.splits is None or not spec.splits.families:
            return None
        least = planning.least_restart_seconds
        return float(restart_seconds(snapshot, np.array([slot]), least)[0])

    def option(self, slot: int, shares: tuple[tuple[int, int], ...], cores: float) -> Option | None:
        """The best that the job can run as on just these GPUs, within the scope."""
        spec = self._session.state.spec(slot)
        found = self._book.options(slot, spec)
        by_node: Counter[int] = Counter()
        for node, gpus in shares:  # a job that grows has a node twice: before, and beside that
            by_node[node] += gpus
        counts = tuple(sorted(by_node.values(), reverse=True))
        gpus = sum(counts)
        if found is None:
            return self._asked(slot, spec, found)
        written, best = self._written_there(found, counts, cores), None
        if written is not None and written.plan in self._unreached(slot):
            written = None
        if self._planning.scope is not Scope.RESOURCES:
            best = found.best_on(counts, max(cores, 1.0), self._unreached(slot))
        if best is None or (written is not None and self._keeps_written(spec, written, best)):
            best = written
        return None if best is None else self._told(spec, found, best, gpus, cores)

    def _written_there(self, found: PlanOptions, where: Where, cores: float) -> Foretold | None:
        own = scaled(found.asked.plans[0], sum(where))
        return found.step(own, where, cores) if own.fits_width(sum(where)) else None

    def _keeps_written(self, spec: JobRequest, written: Foretold, best: Foretold) -> bool:
        """Whether the submitted plan is no slower, on as many GPUs as were asked for.

        One that is guaranteed a speed leaves it only for what is faster at its slower end.
        """
        if written.plan.data * written.plan.gpus_per_replica != spec.width.asked_gpus:
            return False
        mine, other = (self._book.corrected(spec.id, one) for one in (written, best))
        if spec.guaranteed:
            return mine.seconds <= other.slow_seconds
        return mine.slow_seconds <= other.slow_seconds

    def _asked(self, slot: int, spec: JobRequest, found: PlanOptions | None) -> Option:
        gpus, cores = spec.width.asked_gpus, spec.cpus_per_gpu
        if found is not None:
            return self._told(spec, found, found.as_asked(), gpus, cores, as_asked=True)
        speed = float(self._session.snapshot.jobs.pace[slot])
        return Option(gpus, cores, AS_WRITTEN, speed if speed > 0.0 else 1.0, as_asked=True)

    def _held(self, slot: int, spec: JobRequest, found: PlanOptions | None) -> Option:
        state = self._session.state
        held = state.seating.assignments[slot]
        assert held is not None
        if found is None:
            speed = float(state.jobs.speed[slot])
            return Option(held.width, spec.cpus_per_gpu, held.plan, speed if speed > 0.0 else 1.0)
        cores = cores_of(held.placement)
        step = found.step(held.plan, where(held.placement), cores)
        return self._told(spec, found, step, held.width, cores)

    def _options(
        self, slot: int, spec: JobRequest, found: PlanOptions | None, asked: Option
    ) -> Iterator[Option]:
        """What was asked for is always among them."""
        yield asked
        if found is None:
            return
        scope, width = self._planning.scope, spec.width.asked_gpus
        if scope is Scope.RESOURCES:
            yield from self._widths(spec, found)
            return
        for one in found.useful:
            gpus, cores = one.allocation.gpus, one.allocation.cores
            if scope is not Scope.PLANS or gpus == width:
                yield self._told(spec, found, found.on_paper(one), gpus, cores)
        if scope is Scope.PLANS:
            best = found.best_on(
                found.model.fabric.filled(width),
                max(spec.cpus_per_gpu, 1.0),
                self._unreached(slot),
            )
            if best is not None:
                yield self._told(spec, found, best, width, spec.cpus_per_gpu)

    def _reachable(self, slot: int, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Without those of plans that it did not come to a step under, also if it asked for one.

        What it asked for is left to one of which nothing else is.
        """
        shunned = self._unreached(slot)
        kept = tuple(one for one in options if one.plan not in shunned)
        return kept or tuple(one for one in options if one.as_asked)

    def _unreached(self, slot: int) -> frozenset[ExecutionPlan]:
        return self._book.entry(slot).unreached

    def _widths(self, spec: JobRequest, found: PlanOptions) -> Iterator[Option]:
        """The submitted plan with more or fewer replicas, where it is legal and fits."""
        plan = spec.plans[0]
        alone = plan.gpus_per_replica
        for replicas in range(1, spec.width.max_gpus // alone + 1):
            gpus = replicas * alone
            wider = scaled(plan, gpus)
            if gpus < spec.width.min_gpus or breaches(wider, gpus, found.bounds):
                continue
            if len(spec.plans) > 1 and wider not in spec.plans:
                continue
            step = found.step(wider, found.model.fabric.filled(gpus), spec.cpus_per_gpu)
            if step.gpu_bytes <= found.model.fabric.gpu_memory_bytes:
                yield self._told(spec, found, step, gpus, spec.cpus_per_gpu)

    def _promised(self, spec: JobRequest, found: PlanOptions | None) -> float:
        if not spec.guaranteed or found is None:
            return 0.0
        likely = self._book.corrected(spec.id, found.as_asked()).seconds
        return units_per_second(spec, found, likely)

    def _told(
        self,
        spec: JobRequest,
        found: PlanOptions,
        step: Foretold,
        gpus: int,
        cores: float,
        *,
        as_asked: bool = False,
    ) -> Option:
        slow = self._book.corrected(spec.id, step).slow_seconds
        return Option(gpus, cores, step.plan, units_per_second(spec, found, slow), as_asked)
