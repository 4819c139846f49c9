"""One launch, from the words on the command line to the script's exit status."""

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.agent.agent import Agent
from weft.agent.checkpoint.vault import Vault
from weft.agent.coordination.actions import Conclude
from weft.agent.coordination.epochs import Phase
from weft.agent.outcome import Outcome
from weft.agent.settings import Settings
from weft.agent.workers import gpus
from weft.agent.workers.cpus import parse_numbers
from weft.agent.workers.gpus import Gpu, Lister
from weft.cli.launch.program import Program, program_of
from weft.cli.launch.progress import Progress
from weft.cli.launch.screen import Screen
from weft.model.errors import SpecError

DRAW_SECONDS: Final = 0.25
TELL_SECONDS: Final = 30.0  # between two lines about the progress, where nobody sees one redrawn
NO_DEVICES: Final = "none"
BEYOND_A_SIGNAL: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options, as they were given."""

    workers: str = "1"
    module: bool = False
    checkpoints: Path | None = None
    every: float = 0.0
    shard: int = 1
    devices: str | None = None
    threads: int | None = None
    grace: float = 30.0
    name: str | None = None
    show: str | None = None
    prefix: bool = False
    quiet: bool = False


def run(words: Sequence[str], wanted: Wanted, lister: Lister = gpus.listed) -> int:
    """Until the job is over; gives the exit status."""
    program = program_of(words, module=wanted.module)
    if (mistake := program.mistake) is not None:
        sys.stderr.writelines(traceback.format_exception_only(mistake))
        return 1  # as Python's own
    folder = Path(tempfile.mkdtemp(prefix="weft-"))
    try:
        settings = settings_of(program, wanted, folder, os.environ, lister)
        launched = Launched(program, wanted, settings)
        status = asyncio.run(launched.run())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if launched.leaves_nothing:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def settings_of(
    program: Program,
    wanted: Wanted,
    folder: Path,
    variables: Mapping[str, str],
    lister: Lister = gpus.listed,
) -> Settings:
    """What the agent is told."""
    found = _gpus(program, wanted, variables, lister)
    width = _width(wanted.workers, found)
    if width % wanted.shard:
        raise SpecError(
            f"{width} workers cannot hold models by {wanted.shard}",
            hint=f"-n {max(width // wanted.shard, 1) * wanted.shard} can",
        )
    shared = found if program.knows_weft else ()
    if shared and width > len(shared):
        raise SpecError(
            f"{width} workers, but {len(shared)} GPUs",
            hint=f"-n {len(shared)}, or --devices none to run without GPUs of their own",
        )
    name = wanted.name or program.name
    return Settings(
        command=program.command,
        width=width,
        job=name,
        incarnation=_incarnation(wanted.checkpoints, name),
        shard=wanted.shard,
        folder=folder,
        checkpoints=wanted.checkpoints,
        save_every_seconds=wanted.every if wanted.checkpoints else 0.0,
        grace_seconds=wanted.grace,
        threads=wanted.threads or _threads(width, variables),
        devices=tuple(gpu.number for gpu in shared),
        uuids={gpu.number: gpu.uuid for gpu in shared},
        attended=True,
    )


def _gpus(
    program: Program, wanted: Wanted, variables: Mapping[str, str], lister: Lister
) -> tuple[Gpu, ...]:
    """Those that may be used; they are looked for only where that matters."""
    counted = wanted.workers in ("auto", "gpu")
    if wanted.devices == NO_DEVICES or not (counted or program.knows_weft):
        return ()
    found = gpus.visible(lister(), variables)
    if wanted.devices is None:
        return found
    numbers = parse_numbers(wanted.devices)
    strange = sorted(set(numbers) - {gpu.number for gpu in found})
    if strange:
        there = ", ".join(str(gpu.number) for gpu in found) or "none"
        raise SpecError(f"there is no GPU {strange[0]}", hint=f"there are: {there}")
    return tuple(gpu for gpu in found if gpu.number in numbers)


def _width(text: str, found: Sequence[Gpu]) -> int:
    """As torchrun reads it."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if text == "cpu" or (text == "auto" and not found):
        return len(os.sched_getaffinity(0))
    if text not in ("auto", "gpu"):
        raise SpecError(f"{text!r} workers", hint="-n takes a number above 0, auto, gpu or cpu")
    if not found:
        raise SpecError("there is no GPU here", hint="write how many workers: -n 2")
    return len(found)


def _threads(width: int, variables: Mapping[str, str]) -> int:
    """As torchrun has it: one worker has the machine for itself, several have a thread each."""
    told = variables.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    return 1 if width > 1 else 0


def _incarnation(checkpoints: Path | None, job: str) -> int:
    """One more than whoever wrote there last, so that this launch may write too."""
    if checkpoints is None or not checkpoints.exists():
        return 1
    return max(Vault(checkpoints, job, 0).latest(), 0) + 1


class Launched:
    """A job and what is shown of it."""

    def __init__(self, program: Program, wanted: Wanted, settings: Settings) -> None:
        self.wanted, self.settings = wanted, settings
        self.live = sys.stderr.isatty() and not wanted.quiet
        self.screen = Screen(self._shows, marks=wanted.prefix, live=self.live)
        self.screen.several = settings.width > 1
        self.agent = Agent(settings, self._tell, self.screen)
        self.progress = Progress(self.agent)
        self.leaves_nothing = False
        self._knows_weft = program.knows_weft
        self._signal: signal.Signals | None = None
        self._lost: list[tuple[int, int]] = []
        self._width = 0
        self._told_seconds = time.monotonic()

    async def run(self) -> int:
        _log_to(self.screen)
        showing = asyncio.create_task(self._show())
        try:
            conclusion = await self.agent.run()
        finally:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing
        self._end(conclusion)
        self.leaves_nothing = conclusion.outcome in (Outcome.FINISHED, Outcome.DRAINED)
        return self._status(conclusion)

    # ------------------------------------------------------------------------ what is shown

    def _shows(self, worker: int) -> bool:
        """The first worker speaks for a Weft script; of others each speaks for itself."""
        mind = self.agent.coordinator
        show = self.wanted.show
        if show == "all" or (show is None and not (self._knows_weft or mind.elastic)):
            return True
        return worker == mind.members[0] if mind.members else self._rank(worker) == 0

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(DRAW_SECONDS)
            if self.agent.coordinator.phase is Phase.ENDED:
                continue
            self.screen.release()
            self._tell_losses()
            line = "" if self.wanted.quiet else self.progress.line()
            if self.live:
                self.screen.draw(line)
            elif line and time.monotonic() - self._told_seconds >= TELL_SECONDS:
                self._told_seconds = time.monotonic()
                self.screen.say(line)

    def _tell(self, what: str, facts: Mapping[str, Any]) -> None:
        """What the agent tells, as far as it concerns who sits here."""
        match what:
            case "exited":
                self._exited(facts["worker"], facts["code"])
            case "draining":
                self._draining(signal.Signals(facts["signal"]))
            case "ordered":
                self._say(f"{facts['width']} workers are wanted")
                self.screen.several = self.screen.several or facts["width"] > 1
            case "steady":
                self._steady(facts["width"])

    def _exited(self, worker: int, code: int) -> None:
        if code == 0:
            self.screen.forget(worker)
        elif Outcome.of(code) is not Outcome.DRAINED:
            self._lost.append((worker, code))

    def _tell_losses(self) -> None:
        """Of workers that the job has survived."""
        lost, self._lost = self._lost, []
        for worker, code in lost:
            mind = self.agent.coordinator
            if mind.elastic and not mind.draining:
                self._say(f"{self._who(worker)} {ended(code)}; the others go on")

    def _draining(self, number: signal.Signals) -> None:
        if self._signal is None:
            self._signal = number
            self._say("stopping; once more ends it at once")

    def _steady(self, width: int) -> None:
        if not self._width:
            self._say(f"to resize it: weft-agent tell {self.agent.folder} resize N")
        elif width != self._width:
            self._say(f"{width} workers train now")
        self._width = width

    # ------------------------------------------------------------------------------ the end

    def _end(self, conclusion: Conclude) -> None:
        match conclusion.outcome:
            case Outcome.FINISHED:
                self.screen.close()
            case Outcome.DRAINED if conclusion.worker is None:
                self._interrupted()
            case _:
                self._failed(conclusion)

    def _interrupted(self) -> None:
        self.screen.close()
        if not self.agent.coordinator.elastic:
            return
        step, kept = self.agent.writer.durable_step, self.settings.checkpoints
        if kept is None:
            self._say("nothing of it is kept; --checkpoints DIR would keep its state")
        elif step >= 0:
            self._say(f"{step + 1} steps are kept in {kept}; the same command goes on from there")

    def _failed(self, conclusion: Conclude) -> None:
        worker, logs, why = conclusion.worker, self.agent.run_folder.logs, conclusion.why
        if worker is not None:
            log = logs / f"worker-{worker}.log"
            first = self.screen.blame(worker, self._rank(worker), log)
            why = f"{self._who(worker)} {ended(self._code(worker))}"
            if first.worker != worker:
                why = f"{self._who(first.worker)} has failed first; {why}"
        self.screen.close()
        self.screen.say(f"{why}; all output is kept in {logs}")

    def _status(self, conclusion: Conclude) -> int:
        """The script's own, as a shell would tell it."""
        if conclusion.outcome is Outcome.FINISHED:
            return 0
        if conclusion.worker is not None:
            code = self._code(conclusion.worker)
            return BEYOND_A_SIGNAL - code if code < 0 else code & 0xFF or 1
        if self._signal is not None and conclusion.outcome is Outcome.DRAINED:
            return BEYOND_A_SIGNAL + self._signal
        return conclusion.exit_code & 0xFF or 1

    def _code(self, worker: int) -> int:
        return self.agent.coordinator.workers[worker].exit_code or 0

    def _rank(self, worker: int) -> int:
        return self.agent.coordinator.workers[worker].rank

    def _who(self, worker: int) -> str:
        return f"the worker of rank {self._rank(worker)}"

    def _say(self, text: str) -> None:
        if not self.wanted.quiet:
            self.screen.say(text)


def ended(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


class _Saying(logging.Handler):
    """Log lines beside the workers' output."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.say(record.getMessage())


def _log_to(screen: Screen) -> None:
    root = logging.getLogger("weft")
    root.handlers = [_Saying(screen)]
    root.propagate = False
