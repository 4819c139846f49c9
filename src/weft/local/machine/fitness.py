"""Whether this machine does what it should: probed in the background, and after suspect failures.

Nothing starts while a probe fails, and all goes on when it passes again. So whoever starts does so
on a machine that was probed a short while ago, and waits for no probe.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from weft.agent.probes.probe import Result
from weft.agent.probes.suite import run_apart
from weft.view.jobs import ReasonLine

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 300.0
LEAST_SECONDS: Final = 60.0  # between two that failures have asked for

Probing = Callable[[], Sequence[Result]]


def probing_in(folder: Path) -> Probing:
    """The usual probes, with the disk below this folder."""
    return lambda: run_apart(folder=folder)


class Fitness:
    """Probes now and then; `told` hears when the machine has become unfit or is no more."""

    def __init__(
        self,
        probing: Probing,
        told: Callable[[], None],
        *,
        every_seconds: float = EVERY_SECONDS,
        least_seconds: float = LEAST_SECONDS,
    ) -> None:
        self._probing, self._told = probing, told
        self._every, self._least = every_seconds, least_seconds
        self._asked = asyncio.Event()
        self._probed = time.monotonic()
        self.results: tuple[Result, ...] = ()
        self.unfit = ""

    async def run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._asked.wait(), self._every)
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(max(self._probed + self._least - time.monotonic(), 0.0))
            await self.look()

    def ask(self) -> None:
        """Something failed that a machine may be at fault for."""
        self._asked.set()

    async def look(self) -> bool:
        """Probe now; whether all is well."""
        self._asked.clear()
        self.results = tuple(await asyncio.to_thread(self._probing))
        self._probed = time.monotonic()
        before = self.unfit
        self.unfit = "; ".join(one.words for one in self.results if not one.passed)
        if bool(before) != bool(self.unfit):
            log.warning("%s", self.unfit or "all probes pass again")
            self._told()
        return not self.unfit


def reason_of(unfit: str) -> ReasonLine:
    return ReasonLine(
        "Health.Probe",
        "health",
        f"A probe of this machine fails, so nothing starts on it: {unfit}.",
        "weft doctor --probes runs them again; what they name has to be mended",
        "local.md#when-things-break",
    )
