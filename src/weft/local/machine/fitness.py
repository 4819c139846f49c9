"""Whether this machine does what it should: probed in the background, and after suspect failures.

Nothing starts while a probe fails, and all goes on when it passes again. So whoever starts does so
on a machine that was probed a short while ago, and waits for no probe; the first comes a while
after the daemon, which has other things to do at its start. Several processes that start together
need more of a machine than each alone, and to try that takes seconds: a gang waits for it, where it
was not tried for long.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from weft.agent.probes.probe import Result
from weft.agent.probes.suite import BEFORE_A_GANG, run_apart
from weft.view.jobs import ReasonLine

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 300.0
GANG_SECONDS: Final = 3_600.0
LEAST_SECONDS: Final = 60.0  # between two that failures have asked for

Probing = Callable[[], Sequence[Result]]


def probing_in(folder: Path) -> Probing:
    """The usual probes, with the disk below this folder."""
    return lambda: run_apart(folder=folder)


def gang_probing_in(folder: Path) -> Probing:
    """The same, and a sum between two ranks, as a gang makes them."""
    return lambda: run_apart(BEFORE_A_GANG, folder=folder)


class Fitness:
    """Probes now and then; `told` hears when the machine has become unfit or is no more."""

    def __init__(
        self,
        probing: Probing,
        told: Callable[[], None],
        *,
        gang_probing: Probing | None = None,
        gang_seconds: float = GANG_SECONDS,
        every_seconds: float = EVERY_SECONDS,
        least_seconds: float = LEAST_SECONDS,
    ) -> None:
        """Without `gang_probing` no gang waits; it holds for `gang_seconds`."""
        self._probing, self._told = probing, told
        self._gang_probing, self._gang_seconds = gang_probing, gang_seconds
        self._every, self._least = every_seconds, least_seconds
        self._gang_tried = -float("inf")
        self._fails_gangs = False
        self._one_at_a_time = asyncio.Lock()
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

    async def before_gang(self) -> bool:
        """Whether several may start together; tried now, where it was not for long."""
        if self._gang_probing is None:
            return not self.unfit
        async with self._one_at_a_time:
            if time.monotonic() - self._gang_tried >= self._gang_seconds:
                return await self.look(self._gang_probing)
        return not self.unfit

    async def look(self, probing: Probing | None = None) -> bool:
        """Probe now; whether all is well.

        Where a gang's probe failed, nothing less shows that the machine is well again.
        """
        self._asked.clear()
        chosen = probing or (self._gang_probing if self._fails_gangs else None) or self._probing
        self.results = tuple(await asyncio.to_thread(chosen))
        self._probed = time.monotonic()
        if chosen is self._gang_probing:
            self._gang_tried = self._probed
            self._fails_gangs = not all(one.passed for one in self.results)
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
