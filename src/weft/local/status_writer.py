"""The status writer writes down at leisure what people read and what a later brain could not know.

How far a job has come, what it has received so far, and why it waits: nothing of this is needed to
act, so it is gathered and written together, about once a second, in one transaction. What the brain
should hear (progress, whether a job can be resized, whether it gives way) it is told every few
seconds, and at once where something is new. A speed that was measured is told once.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from weft.agent.reports.speed import Measured
from weft.brain.brain import Brain
from weft.brain.event import Event, JobMeasured, JobReported, Past, Phase, PlansOffered
from weft.local.agents.job_processes import age_seconds
from weft.local.reconcile.observation import ObservedAgent, Status
from weft.local.reconcile.parsed_request import MACHINE_LIMITS, MachineLimits, ParsedRequest
from weft.local.reconcile.preemption import gives_way
from weft.local.record.book import Book, Remark
from weft.local.record.entry import Entry, Happening, Progress
from weft.local.record.usage import Ledger
from weft.model.capability import Capability
from weft.model.claim import WorkClaim
from weft.model.errors import WorldError
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.reconcile.belief import work_done
from weft.reconcile.measured_stages import stages_of
from weft.spec.counted import stated_by_script, work_in_steps
from weft.view.reasons import as_json

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
REPORT_SECONDS: Final = 5.0
REFRESH_SECONDS: Final = 60.0
USAGE_SECONDS: Final = 30.0
EXPLAINED_AT_ONCE: Final = 20
WAITING: Final = (State.QUEUED, State.ADMITTED)
TRAINING: Final = (State.RUNNING, State.RESIZING)
LOSS: Final = "loss"


class StatusSource(Protocol):
    """What the status writer reads, and whom it tells."""

    brain: Brain
    ledger: Ledger

    def now(self) -> float: ...
    def observe(self, entry: Entry) -> ObservedAgent: ...
    def asked(self, entry: Entry) -> tuple[ParsedRequest | None, str]: ...
    def past(self, entry: Entry) -> Past | None: ...
    def report(self, event: Event) -> None: ...
    def count_usage(self) -> None: ...


class StatusWriter:
    """Compares what is on record with what is so."""

    def __init__(
        self, source: StatusSource, book: Book, limits: MachineLimits = MACHINE_LIMITS
    ) -> None:
        self._source = source
        self._book = book
        self._limits = limits
        self._reported: dict[str, float] = {}
        self._measured: dict[str, tuple[int, int]] = {}
        self._explained: dict[str, tuple[int, float]] = {}
        self._offered: dict[str, tuple[int, tuple[Capability, ...]]] = {}
        self._counted = float("-inf")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            remarks = self.due()
            self._source.count_usage()
            try:
                if remarks:
                    await self._book.remark(remarks)
                await self._write_usage()
            except WorldError as error:
                log.warning("%s", error)

    async def _write_usage(self) -> None:
        """Seldom: what a daemon that is killed has not written down is a minute at most."""
        fresh, now = self._source.ledger.fresh, self._source.now()
        if fresh and now - self._counted >= USAGE_SECONDS:
            self._counted = now
            self._source.ledger.fresh = {}
            try:
                await self._book.write_usage(fresh)
            except WorldError:  # whoever asks for nothing more would never be written down
                self._source.ledger.keep(fresh)
                raise

    def due(self) -> list[Remark]:
        """What is to be written now."""
        remarks, explained = [], 0
        for entry in self._book:
            if entry.state in TRAINING and entry.end is None:
                self.heard(entry)
                if changed := self._progress(entry):
                    remarks.append(Remark(entry, changed))
            elif entry.state in WAITING and explained < EXPLAINED_AT_ONCE and self._is_due(entry):
                explained += 1
                told = tuple(map(as_json, self._source.brain.explain(entry.id)))
                if told != entry.reasons:
                    remarks.append(Remark(entry, {"reasons": told}, self._news(entry, told)))
        return remarks

    def heard(self, entry: Entry) -> None:
        """Tell the brain what the job says of itself: seldom, but news at once."""
        status, now = self._source.observe(entry).status, self._source.now()
        slot = self._source.brain.state.slot_of.get(entry.id)
        if status is None or slot is None:
            return
        state = self._source.brain.state
        if state.state_of(slot) not in TRAINING or int(state.jobs.epoch[slot]) != entry.epoch:
            return
        self._tell_speed(entry, status)
        self._tell_offers(entry, status)
        yields = self._yields(entry, status)
        changed = bool(status.live) != bool(state.jobs.live[slot])
        is_news = changed or yields != bool(state.jobs.yields[slot])
        due = now - self._reported.get(entry.uid, float("-inf")) >= REPORT_SECONDS
        if not is_news and not due:
            return
        self._reported[entry.uid] = now
        done = self._work_done(entry, status.progress)
        if done is None:
            done = work_done(state, slot, now)
        live = bool(status.live) if changed else None
        self._source.report(
            JobReported(now, entry.id, entry.epoch, Phase.RUNNING, done, live=live, yields=yields)
        )

    def _yields(self, entry: Entry, status: Status) -> bool:
        """What an earlier run has saved counts too."""
        found, _ = self._source.asked(entry)
        if found is None or entry.agent is None:
            return True
        saved, earlier = status.progress, entry.progress.saved_step
        if saved.saved_step is None and earlier is not None:
            saved = replace(saved, saved_step=earlier)
        ran, most = age_seconds(entry.agent), self._limits.protect_seconds
        return gives_way(found.spec, saved, ran, protect_seconds=most)

    def forget(self, uid: str) -> None:
        self._reported.pop(uid, None)
        self._measured.pop(uid, None)
        self._explained.pop(uid, None)
        self._offered.pop(uid, None)

    def _work_done(self, entry: Entry, progress: Progress) -> float | None:
        found, _ = self._source.asked(entry)
        return None if found is None else progress.done(found.job.work)

    def _tell_speed(self, entry: Entry, status: Status) -> None:
        speed = status.speed
        if speed is None or self._measured.get(entry.uid) == (entry.epoch, speed.number):
            return
        self._measured[entry.uid] = entry.epoch, speed.number
        found, _ = self._source.asked(entry)
        if found is None:
            return
        event = measured(entry, found.job.work, status, speed, self._source.now())
        if event is not None:
            self._source.report(event)

    def _tell_offers(self, entry: Entry, status: Status) -> None:
        offers = self._offers(entry, status)
        if offers and self._offered.get(entry.uid) != (entry.epoch, offers):
            self._offered[entry.uid] = entry.epoch, offers
            now = self._source.now()
            self._source.report(PlansOffered(now, entry.id, entry.epoch, offers))

    def _offers(self, entry: Entry, status: Status) -> tuple[Capability, ...]:
        """As what its program can be run; one that has commands by plan is told nothing new."""
        found, _ = self._source.asked(entry)
        if found is None or found.spec.plans is not None or not status.live:
            return ()
        return status.offers

    def _progress(self, entry: Entry) -> dict[str, Any]:
        status = self._source.observe(entry).status
        if status is None:
            return {}
        ranks = _with_ranks(entry, status)
        offers = self._offers(entry, status) or entry.offers
        if (status.progress, ranks, offers) == (entry.progress, entry.ranks, entry.offers):
            return {}
        past = self._source.past(entry) or entry.past
        return {"progress": status.progress, "past": past, "ranks": ranks, "offers": offers}

    def _is_due(self, entry: Entry) -> bool:
        """Whether another reason holds than the one written down, or its numbers may be old."""
        slot = self._source.brain.state.slot_of.get(JobId(entry.id))
        if slot is None:
            return False
        reason, now = int(self._source.brain.state.jobs.reason[slot]), self._source.now()
        known, at = self._explained.get(entry.uid, (-1, float("-inf")))
        if reason == known and now - at < REFRESH_SECONDS:
            return False
        self._explained[entry.uid] = reason, now
        return True

    def _news(self, entry: Entry, told: tuple[dict[str, Any], ...]) -> tuple[Happening, ...]:
        """A change of the first reason belongs into the job's history; fresh numbers do not."""
        if not told or (entry.reasons and entry.reasons[0]["code"] == told[0]["code"]):
            return ()
        first = told[0]
        if first["code"] == ReasonCode.ROUND_PENDING.slug:  # it says nothing of the job
            return ()
        text = f"{first['text']} Remedy: {first['remedy']}"
        what = first["code"].replace(".", "")
        return (Happening(self._source.now(), what, text, entry.epoch),)


def measured(
    entry: Entry, work: WorkClaim | None, status: Status, speed: Measured, now: float
) -> JobMeasured | None:
    """A speed in the unit of the job's work; None where the job does not say what that is."""
    progress = status.progress
    rate = work_in_steps(work, speed.steps_per_second, progress.total)
    done = progress.done(work)
    if rate is None or done is None:
        return None
    has_gpus, on_gpus = bool(entry.width), bool(status.devices_in_use)
    cpus = sum(seat.cpus for seat in entry.seats)
    return JobMeasured(
        now,
        entry.id,
        entry.epoch,
        gpus=speed.width if has_gpus else 0,
        nodes=1,
        units_per_second=rate,
        seconds=speed.seconds,
        work_done=done,
        cpus=cpus if speed.width == entry.width or not has_gpus else 0.0,
        work_total=stated_by_script(work, progress.total),
        loss=progress.metrics.get(LOSS),
        stages=stages_of(status.profile, speed.width, on_gpus=on_gpus),
        stages_in_turns=stages_of(status.profile_in_turns, speed.width, on_gpus=on_gpus),
        shared_steps_per_second=speed.steps_per_second if speed.shared else None,
    )


def _with_ranks(entry: Entry, status: Status) -> Mapping[str, Mapping[str, int]]:
    """What was known of who trained under which rank, and what the agent says now."""
    epoch = str(entry.epoch)
    told = {str(one.number): one.rank for one in status.workers if one.rank is not None}
    return {**entry.ranks, epoch: {**entry.ranks.get(epoch, {}), **told}}
