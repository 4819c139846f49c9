"""What the workers say of their progress, put together for the world that asked for the job."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.agent.checkpoint.writer import CheckpointWriter
from weft.agent.coordination.coordinator import Coordinator
from weft.agent.messages import Pulse
from weft.agent.reports.operator_client import Destination
from weft.agent.reports.profile import Profile, profile_in_turns, profile_of
from weft.agent.reports.report import OrderAnswer, Reporter, Said
from weft.agent.reports.speed import Speedometer

NO_EPOCH: Final = 0
TURNS: Final = "turns"  # in a report of steps that took turns with other jobs


class ProgressReports:
    """The first member speaks for the job, once it has the job's state."""

    def __init__(
        self,
        coordinator: Coordinator,
        writer: CheckpointWriter,
        save_every_seconds: Callable[[], float] = float,
    ) -> None:
        self._coordinator, self._writer = coordinator, writer
        self._save_every_seconds = save_every_seconds
        self._destination = Destination.from_environment(os.environ)
        self.reporter = Reporter(self._destination)
        self.latest: dict[int, Pulse] = {}
        self.stages: dict[int, Mapping[str, Any]] = {}
        self.speed = Speedometer()
        self.profile: Profile | None = None
        self.profile_in_turns: Profile | None = None
        self.tells_plans = False  # whether whoever hears it orders plans
        self.answer: OrderAnswer | None = None
        self._has_news = False

    @property
    def loop(self) -> int:
        """The one in which the members are, as far as they have said."""
        told = (self.latest[n].loop for n in self._coordinator.members if n in self.latest)
        return max(told, default=0)

    @property
    def breaches(self) -> int:
        """How often other jobs had to go on without the turn that this one had not given back."""
        reports = (self.stages.get(worker, {}) for worker in self._coordinator.members)
        return max((report.get("breaches", 0) for report in reports), default=0)

    def pulse(self, worker: int, pulse: Pulse) -> None:
        self.latest[worker] = pulse
        self._report(worker, pulse)

    def staged(self, worker: int, report: Mapping[str, Any], *, in_company: bool = False) -> None:
        """All members make the same steps, so the first one's speed is the job's.

        What it does in company says nothing of what it would do alone, and is told apart.
        """
        self.stages[worker] = report
        mind = self._coordinator
        if mind.members[:1] != (worker,):
            return
        shared = in_company or TURNS in report
        self._learn_profile(report, shared=shared)
        news = self.speed.hear(report, epoch=mind.epoch, width=len(mind.members), shared=shared)
        if news and worker in self.latest:
            self._report(worker, self.latest[worker], soon=True)

    def _learn_profile(self, report: Mapping[str, Any], *, shared: bool) -> None:
        """What it does alone goes before what it does in turns."""
        if not shared:
            self.profile = profile_of(report) or self.profile
        if self.profile is not None:
            self.profile_in_turns = None
        elif shared:
            self.profile_in_turns = profile_in_turns(report) or self.profile_in_turns

    def tell_soon(self) -> None:
        """Something has changed that whoever asked for the job waits for."""
        self._has_news = True
        for first in self._coordinator.members[:1]:
            if first in self.latest:
                self._report(first, self.latest[first], soon=True)

    def _report(self, worker: int, pulse: Pulse, *, soon: bool = False) -> None:
        mind = self._coordinator
        if mind.members[:1] != (worker,) or pulse.epoch == NO_EPOCH:
            return
        stages = self.stages.get(worker, {})
        said = Said(
            step=pulse.step,
            epoch=self._destination.epoch if self._destination else pulse.epoch,
            total_steps=pulse.total,
            checkpoint_step=self._writer.durable_step + 1,
            samples=pulse.samples,
            samples_per_second=stages.get("samples_per_second"),
            metrics=pulse.metrics,
            stages=stages,
            message=self._unreached(),
            width=len(mind.members),
            live=mind.elastic,
            speed=self.speed.newest,
            profile=self.profile,
            profile_in_turns=self.profile_in_turns,
            paused_seconds=mind.paused_seconds,
            save_every_seconds=self._save_every_seconds() or None,
            offers=mind.offers if self.tells_plans else (),
            order=self.answer if self.tells_plans else None,
        )
        self.reporter.say(said, soon=soon or self._has_news)
        self._has_news = False

    def _unreached(self) -> str:
        """For whoever has ordered a width that the job does not have."""
        told = self._coordinator.unreached
        return f"it is not on {told.width} workers: {told.why}" if told else ""
