"""Real jobs in company: two agents with their own workers on one slot, trained round by round.

All rounds of a comparison are made by the same processes, one kind after the other, so that what
the machine does besides is shared out among all kinds.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runtime.job import PATIENCE_SECONDS, Event, Job
from weft.agent.leases.company import SOCKET
from weft.agent.leases.server import LOCK
from weft.model.errors import WorldError

SCRIPT = Path(__file__).parent / "jobs" / "member.py"
LOOK_SECONDS = 0.01
SETTLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Kind:
    """What a member does in a step, and where."""

    batch: int
    read_seconds: float = 0.0
    layers: int = 4
    workers: int = 1
    cpus: str = "0"

    def words(self, folder: Path) -> list[str]:
        agent = ("--folder", str(folder / "run"), "--workers", str(self.workers))
        limits = (*(("--cpus", self.cpus) if self.cpus else ()), "--hang", "600")
        script = (str(SCRIPT), "--batch", str(self.batch), "--read", str(self.read_seconds))
        return [*agent, *limits, *script, "--layers", str(self.layers)]


@dataclass(slots=True)
class Member:
    """One job, and the rounds that it has made."""

    job: Job
    round: int = 0

    def begin(self, steps: int) -> None:
        self.round += 1
        unfinished = self.job.folder / "go.new"
        unfinished.write_text(json.dumps({"round": self.round, "steps": steps}))
        unfinished.rename(self.job.folder / "go")

    def steps(self, number: int | None = None) -> list[Event]:
        """Of a round, of all workers, in the order in which each has told them."""
        self.job.look()
        wanted = number or self.round
        return [line for line in self.job.tales if line["round"] == wanted and "step" in line]

    def began(self) -> float:
        """When all of its workers have heard of the present round."""
        tales = (tale for tale in self.job.tales if tale["round"] == self.round)
        return min(float(tale["began"]) for tale in tales if "began" in tale)

    def until_made(self, steps: int, workers: int = 1) -> None:
        """Wait until so many steps of the present round are made."""
        self.until(lambda: len(self.steps()) >= steps * workers)

    def until(self, found: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not found():
            if time.monotonic() > deadline or self.job.process.poll() is not None:
                raise WorldError(f"a round did not end: {self.job.logs()}")
            time.sleep(LOOK_SECONDS)

    def ended(self) -> float:
        return max(float(line["ended"]) for line in self.steps())


@dataclass(frozen=True, slots=True)
class Company:
    """The members, and the folder where they meet."""

    folder: Path
    members: tuple[Member, ...]
    gpus: str = "0"

    def meet(self, *, together: bool) -> None:
        """From the next round on they take turns, or do not."""
        for member in self.members:
            member.job.order(f"accompany {self.folder}:{self.gpus}" if together else "alone")
        if together:
            self.server()
        time.sleep(SETTLE_SECONDS)

    def server(self, but: int = 0) -> int:
        """The process that hands out leases."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            text = (self.folder / LOCK).read_text() if (self.folder / LOCK).exists() else ""
            pid = int(text or 0)
            if pid and pid != but and (self.folder / SOCKET).exists() and _lives(pid):
                return pid
            time.sleep(LOOK_SECONDS)
        raise WorldError("nobody hands out leases")

    def train(self, which: Sequence[int], steps: int) -> float:
        """Seconds until all of these have made so many steps, begun at once."""
        chosen = [self.members[one] for one in which]
        for member in chosen:
            member.begin(steps)
        for member in chosen:
            member.until_made(steps)
        return max(m.ended() for m in chosen) - min(m.began() for m in chosen)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def company(folder: Path, kinds: Sequence[Kind], gpus: str = "0") -> Iterator[Company]:
    """Members of these kinds, each with an agent of its own, ended with the block."""
    meeting = folder / "company"
    meeting.mkdir()
    with ExitStack() as ending:
        members = []
        for number, kind in enumerate(kinds):
            own = folder / f"member-{number}"
            own.mkdir()
            job = Job(own, kind.words(own))
            ending.callback(job.close)
            members.append(Member(job))
        for member, kind in zip(members, kinds, strict=True):
            member.job.steady(kind.workers)
        yield Company(meeting, tuple(members), gpus)


def kill(pid: int) -> float:
    """Gives when."""
    now = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return now
